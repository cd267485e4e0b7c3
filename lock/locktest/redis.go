package locktest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Environment of the tests that need a real Redis.
const (
	// EnvRedis: host:port of a Redis that tests may fill; without it, redis-server is
	// started from PATH.
	EnvRedis = "LATCHKEY_TEST_REDIS"
	// EnvRequire: 1 means that a missing server fails a test instead of skipping it.
	EnvRequire = "LATCHKEY_TEST_REQUIRE"
)

// shared is the process' own Redis while at least one test uses it.
var shared struct {
	sync.Mutex
	server *RedisServer
	users  int
}

// Redis returns the address of a real Redis that tests share: each uses its own prefix, and
// nobody flushes it. It is stopped when its last user is done.
func Redis(tb testing.TB) (addr string) {
	tb.Helper()
	if addr := os.Getenv(EnvRedis); addr != "" {
		return addr
	}
	program := redisProgram(tb)
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		dir, err := os.MkdirTemp("", "latchkey-redis-")
		if err != nil {
			tb.Fatal(err)
		}
		s, err := newRedis(program, dir, nil)
		if err != nil {
			_ = os.RemoveAll(dir)
			tb.Fatal(err)
		}
		shared.server = s
	}
	shared.users++
	tb.Cleanup(func() {
		shared.Lock()
		defer shared.Unlock()
		if shared.users--; shared.users == 0 {
			shared.server.Kill()
			_ = os.RemoveAll(shared.server.dir)
			shared.server = nil
		}
	})
	return shared.server.Addr
}

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

// StartRedis starts a redis-server on a free loopback port, without persistence; args are
// appended to its command line. The test's end ends it.
func StartRedis(tb testing.TB, args ...string) *RedisServer {
	tb.Helper()
	s, err := newRedis(redisProgram(tb), tb.TempDir(), args)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Kill)
	return s
}

func redisProgram(tb testing.TB) string {
	tb.Helper()
	program, err := exec.LookPath("redis-server")
	if err == nil {
		return program
	}
	msg := "needs redis-server in PATH, or " + EnvRedis + "=host:port"
	if os.Getenv(EnvRequire) == "1" {
		tb.Fatal(msg)
	}
	tb.Skip(msg)
	return ""
}

// newRedis tries a few ports: between finding a free one and using it, somebody may take it.
func newRedis(program, dir string, args []string) (*RedisServer, error) {
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
	cmd := exec.Command(s.program, append([]string{"--bind", host, "--port", port, "--dir", s.dir, "--save", "",
		"--appendonly", "no", "--maxmemory-policy", "noeviction", "--daemonize", "no"}, s.args...)...)
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

// Must sends one command on a connection of its own and returns the reply's first line.
func (s *RedisServer) Must(tb testing.TB, args ...string) string {
	tb.Helper()
	reply, err := s.ask(args...)
	if err != nil || strings.HasPrefix(reply, "-") {
		tb.Fatalf("redis %v: %q, %v", args, reply, err)
	}
	return reply
}

func (s *RedisServer) ask(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	var b strings.Builder
	b.WriteString("*" + strconv.Itoa(len(args)) + "\r\n")
	for _, a := range args {
		b.WriteString("$" + strconv.Itoa(len(a)) + "\r\n" + a + "\r\n")
	}
	if _, err := conn.Write([]byte(b.String())); err != nil {
		return "", err
	}
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	if strings.HasPrefix(line, "$") && !strings.HasPrefix(line, "$-1") {
		line, err = r.ReadString('\n')
	}
	return strings.TrimRight(line, "\r\n"), err
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
