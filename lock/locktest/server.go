package locktest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// RedisServer is a redis-server of one test's own, to be broken.
type RedisServer struct {
	Addr string // the same after a restart

	program string
	dir     string
	args    []string

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when the process is gone
}

// newServer tries a few ports: between finding a free one and using it, somebody may take it.
func newServer(program, dir string, args []string) (*RedisServer, error) {
	var err error
	for range 5 {
		var addr string
		if addr, err = freeAddr(); err != nil {
			return nil, err
		}
		s := &RedisServer{Addr: addr, program: program, dir: dir, args: args}
		if err = s.start(); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func freeAddr() (string, error) {
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		_ = l.Close()
		if l.Addr().(*net.TCPAddr).Port < 55536 { // a cluster's bus is 10000 above
			return l.Addr().String(), nil
		}
	}
}

// Start starts it again, empty, on the same port.
func (s *RedisServer) Start(tb testing.TB) {
	tb.Helper()
	if err := s.start(); err != nil {
		tb.Fatal(err)
	}
}

func (s *RedisServer) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	host, port, _ := net.SplitHostPort(s.Addr)
	cmd := exec.Command(s.program, append(slices.Clone(s.args), "--bind", host, "--port", port, "--dir", s.dir, "--daemonize", "no")...)
	dieWithParent(cmd)
	out := new(lockedBuffer)
	cmd.Stdout, cmd.Stderr = out, out
	started, done := make(chan error), make(chan struct{})
	go func() {
		defer close(done)
		keepThread() // dieWithParent means the thread
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	s.cmd, s.done = cmd, done
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		if reply, err := s.ask("PING"); err == nil && strings.HasPrefix(reply, "+PONG") {
			return nil
		}
		select {
		case <-done:
			return fmt.Errorf("redis-server ended at once:\n%s", out)
		case <-time.After(5 * time.Millisecond):
		}
	}
	_ = cmd.Process.Kill()
	<-done
	return fmt.Errorf("redis-server did not answer within 20 s:\n%s", out)
}

// Stop ends it the orderly way (SIGTERM) and waits.
func (s *RedisServer) Stop() { s.end(syscall.SIGTERM) }

// Kill ends it at once and waits; idempotent.
func (s *RedisServer) Kill() { s.end(syscall.SIGKILL) }

func (s *RedisServer) end(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.cmd.Process.Signal(sig)
	<-s.done
}

// Pause stops the process where it stands (SIGSTOP); its sockets stay open.
func (s *RedisServer) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets it go on.
func (s *RedisServer) Resume() { s.signal(syscall.SIGCONT) }

func (s *RedisServer) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.cmd.Process.Signal(sig)
}

// FlushAll makes it forget everything.
func (s *RedisServer) FlushAll(tb testing.TB) { s.Must(tb, "FLUSHALL") }

// Must sends one command on a connection of its own and returns its reply: a simple string
// with its sign, or the content of a bulk string.
func (s *RedisServer) Must(tb testing.TB, args ...string) string {
	tb.Helper()
	reply, err := s.ask(args...)
	if err != nil || strings.HasPrefix(reply, "-") {
		tb.Fatalf("redis %v: %q, %v", args, reply, err)
	}
	return reply
}

// info asks for one of the replies made of name:value lines.
func (s *RedisServer) info(tb testing.TB, args ...string) map[string]string {
	tb.Helper()
	info := map[string]string{}
	for line := range strings.Lines(s.Must(tb, args...)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

func (s *RedisServer) ask(args ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", s.Addr, 5*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := conn.Write([]byte(b.String())); err != nil {
		return "", err
	}
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	line = strings.TrimRight(line, "\r\n")
	if n, bad := strconv.Atoi(strings.TrimPrefix(line, "$")); err == nil && bad == nil && strings.HasPrefix(line, "$") && n >= 0 {
		bulk := make([]byte, n)
		_, err = io.ReadFull(r, bulk)
		line = string(bulk)
	}
	return line, err
}

// lockedBuffer keeps what a server prints, to be shown when it fails.
type lockedBuffer struct {
	mu sync.Mutex
	b  []byte
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, p...)
	return len(p), nil
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b)
}
