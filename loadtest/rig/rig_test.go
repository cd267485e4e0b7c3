package rig

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// The test program plays these parts when it is started with one of them.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "play-server": // says an address and waits for the end
			fmt.Print("127.0.")
			fmt.Print("0.1:7\nmore\n")
			time.Sleep(time.Hour)
		case "play-stubborn": // ends only by SIGKILL
			signal.Ignore(syscall.SIGTERM)
			fmt.Println("ready")
			time.Sleep(time.Hour)
		case "play-owner": // owns a rig with a process, and says whose
			playOwner()
		}
	}
	os.Exit(m.Run())
}

func newRig(t *testing.T, keep bool) *Rig {
	t.Helper()
	r, err := New(keep)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		os.RemoveAll(r.Dir)
	})
	return r
}

func TestCloseEndsProcessesAndRemovesTheDirectory(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	s, err := r.StartSelf(t.Context(), "server", "play-server")
	if err != nil {
		t.Fatal(err)
	}
	if s.Addr != "127.0.0.1:7" {
		t.Errorf("the server said %q", s.Addr)
	}
	select {
	case <-s.Done():
		t.Error("the process ended by itself")
	default:
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-s.Done():
	default:
		t.Error("the process runs on")
	}
	if _, err := os.Stat(r.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
	if err := s.Stop(); err != nil {
		t.Errorf("stopping again: %v", err)
	}
}

func TestStopKillsAStubbornProcess(t *testing.T) {
	t.Parallel()
	r, err := New(true)
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(r.Dir)
	self, _ := os.Executable()
	ready := make(chan struct{}, 1)
	p, err := r.Start(Spec{Name: "stubborn", Path: self, Args: []string{"play-stubborn"}, grace: 20 * time.Millisecond,
		Out: func([]byte) { ready <- struct{}{} }})
	if err != nil {
		t.Fatal(err)
	}
	<-ready
	if err := r.Close(); err == nil || !strings.Contains(err.Error(), "stubborn had to be killed") {
		t.Errorf("close: %v", err)
	}
	<-p.Done()
	if _, err := os.Stat(r.Dir); err != nil {
		t.Errorf("keep did not keep the directory: %v", err)
	}
}

func TestNotReadyShowsTheLog(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	_, err := r.StartGateway(t.Context(), "gateway", "/bin/sh", map[string]any{"region": "x"})
	if err == nil || !strings.Contains(err.Error(), "gateway ended before it was ready") || !strings.Contains(err.Error(), "serve") {
		t.Errorf("a gateway that does not start: %v", err) // sh complains about the script "serve"
	}
	text, err := os.ReadFile(r.path("gateway.json"))
	if err != nil || !bytes.Contains(text, []byte(`"listen": "127.0.0.1:`)) || !bytes.Contains(text, []byte(`"region": "x"`)) {
		t.Errorf("config %s, %v", text, err)
	}
	if _, err := r.Start(Spec{Name: "nothing", Path: "/nonexistent/program"}); err == nil {
		t.Error("started a program that does not exist")
	}
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	s, err := r.StartSelf(t.Context(), "server", "play-server")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cause := errors.New("not yet")
	err = await(ctx, s.Process, time.Minute, func(context.Context) error { cancel(); return cause })
	if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
		t.Errorf("error %v, want canceled and the probe's", err)
	}
}

// Processes must not survive the death of the run, whatever its cause.
func TestKilledOwnerLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("the kernel ends orphans on Linux only")
	}
	self, _ := os.Executable()
	owner := exec.Command(self, "play-owner")
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	owner.Process.Kill()
	owner.Wait()
	if err != nil {
		t.Fatal(err)
	}
	pid, dir, _ := strings.Cut(strings.TrimSpace(said), " ")
	defer os.RemoveAll(dir)
	for deadline := time.Now().Add(10 * time.Second); ; {
		if gone(t, pid) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %s outlived its owner", pid)
		}
		time.Sleep(time.Millisecond) // the kernel gives no signal of another's child
	}
}

// gone: there is no such process, or it is dead and nobody has waited for it.
func gone(t *testing.T, pid string) bool {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return true
	}
	_, state, _ := bytes.Cut(text, []byte(") "))
	return bytes.HasPrefix(state, []byte("Z"))
}

func playOwner() {
	r, err := New(false)
	if err != nil {
		panic(err)
	}
	s, err := r.StartSelf(context.Background(), "server", "play-server")
	if err != nil {
		panic(err)
	}
	fmt.Println(s.PID, r.Dir)
	time.Sleep(time.Hour)
}

func TestSyncTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	if took, err := r.SyncTime(); err != nil || took <= 0 {
		t.Errorf("%s, %v", took, err)
	}
	if left, _ := os.ReadDir(r.Dir); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}

func TestRedis(t *testing.T) {
	t.Parallel()
	skipIfMissing(t, func() error { _, err := RedisServer(); return err })
	r := newRig(t, false)
	rd, err := r.StartRedis(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	first, err := rd.Commands(t.Context())
	if err != nil || rd.Version == "" {
		t.Fatalf("version %q, %v", rd.Version, err)
	}
	reads, err := rd.Reads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	exchange(t, rd.Addr, strings.Repeat("SET k v\r\n", 10), "+OK") // sent together
	if again, err := rd.Reads(t.Context()); err != nil || again-reads < 1 || again-reads > 8 {
		t.Errorf("%d reads were counted for 1, and some of the looking; %v", again-reads, err)
	}
	second, err := rd.Commands(t.Context())
	if got := second - first; err != nil || got < 10 || got > 19 { // and some of the looking
		t.Errorf("%d commands were counted for 10, %v", got, err)
	}
}

func exchange(t *testing.T, addr, say, want string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, say)
	if got, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.HasPrefix(got, want) {
		t.Fatalf("%q answered %q, %v", say, got, err)
	}
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	skipIfMissing(t, func() error { _, err := PostgresBin(); return err })
	skipIfMissing(t, func() error { _, err := unprivileged(); return err })
	r := newRig(t, false)
	pg, err := r.StartPostgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before, err := CPUTime(pg.PID)
	if err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), pg.DSN)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		var value string
		if err := c.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&value); err != nil || value != "on" {
			t.Errorf("%s is %q, %v", name, value, err)
		}
	}
	// A backend works and ends: its time must be in the sum.
	var n int
	if err := c.QueryRow(t.Context(), "SELECT count(*) FROM generate_series(1, 2000000)").Scan(&n); err != nil || n != 2000000 {
		t.Fatal(n, err)
	}
	first, err := pg.Transactions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"CREATE TABLE x (n int)", "INSERT INTO x VALUES (1), (2)", "SELECT n FROM x", "UPDATE x SET n = 3"} {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if last, err := pg.Transactions(t.Context()); err != nil || last-first != 3 {
		t.Errorf("%d transactions wrote, want 3; %v", last-first, err)
	}
	c.Close(context.Background())
	if after, err := CPUTime(pg.PID); err != nil || after-before < 20*time.Millisecond {
		t.Errorf("counting to %d took %s of CPU time, %v", n, after-before, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if !gone(t, strconv.Itoa(pg.PID)) {
		t.Error("the server runs on")
	}
}

func skipIfMissing(t *testing.T, look func() error) {
	t.Helper()
	if err := look(); errors.Is(err, ErrMissing) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
}
