package chaos

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"
)

// echo answers each line with itself and tells what it got.
func echo(t *testing.T) (addr string, got chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	got = make(chan string, 16)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for lines := bufio.NewReader(c); ; {
					line, err := lines.ReadString('\n')
					if err != nil {
						return
					}
					got <- strings.TrimSpace(line)
					c.Write([]byte(line))
				}
			}()
		}
	}()
	return l.Addr().String(), got
}

func newLink(t *testing.T, to string) *Link {
	t.Helper()
	k, err := NewLink(to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// exchange sends a line on a connection and returns the answer, "" for none.
func exchange(t *testing.T, c net.Conn, line string) string {
	t.Helper()
	c.SetDeadline(time.Now().Add(200 * time.Millisecond))
	if _, err := c.Write([]byte(line + "\n")); err != nil {
		return ""
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return ""
	}
	return strings.TrimSpace(answer)
}

func dial(t *testing.T, k *Link) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", k.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func turn(t *testing.T, k *Link, s State) {
	t.Helper()
	if err := k.Turn(s); err != nil {
		t.Fatal(err)
	}
}

func TestAnOpenLinkPasses(t *testing.T) {
	t.Parallel()
	addr, _ := echo(t)
	c := dial(t, newLink(t, addr))
	for _, line := range []string{"one", "two"} {
		if got := exchange(t, c, line); got != line {
			t.Errorf("%q came back as %q", line, got)
		}
	}
}

// A cut link resets what is open and refuses what comes; mended, it is on the same address.
func TestACutLinkRefuses(t *testing.T) {
	t.Parallel()
	addr, _ := echo(t)
	k := newLink(t, addr)
	c := dial(t, k)
	exchange(t, c, "one")
	turn(t, k, Cut)
	if got := exchange(t, c, "two"); got != "" {
		t.Errorf("a cut connection answered %q", got)
	}
	if c, err := net.Dial("tcp", k.Addr); err == nil {
		c.Close()
		t.Error("a cut link took a connection")
	}
	turn(t, k, Open)
	if got := exchange(t, dial(t, k), "three"); got != "three" {
		t.Errorf("mended, it answered %q", got)
	}
}

// A deaf link delivers requests and loses the answers: the case that idempotency is for.
func TestADeafLinkLosesAnswersAlone(t *testing.T) {
	t.Parallel()
	addr, got := echo(t)
	k := newLink(t, addr)
	c := dial(t, k)
	exchange(t, c, "one")
	<-got
	turn(t, k, Deaf)
	if answer := exchange(t, c, "two"); answer != "" {
		t.Errorf("an answer came through: %q", answer)
	}
	if line := <-got; line != "two" {
		t.Errorf("%q was delivered", line)
	}
	turn(t, k, Open)
	if answer := exchange(t, c, "three"); answer != "" {
		t.Error("a connection that lost an answer went on")
	}
}

// What a stalled link held back is never delivered, not even when it is mended.
func TestAStalledLinkDeliversNothingLater(t *testing.T) {
	t.Parallel()
	addr, got := echo(t)
	k := newLink(t, addr)
	c := dial(t, k)
	exchange(t, c, "one")
	<-got
	turn(t, k, Stall)
	if answer := exchange(t, c, "two"); answer != "" {
		t.Errorf("an answer came through: %q", answer)
	}
	late := dial(t, k) // taken, and not served
	exchange(t, late, "three")
	turn(t, k, Open)
	if answer := exchange(t, dial(t, k), "four"); answer != "four" {
		t.Errorf("mended, it answered %q", answer)
	}
	if line := <-got; line != "four" {
		t.Errorf("%q was delivered after all", line)
	}
}
