package intentstoretest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Environment of the tests that need PostgreSQL.
const (
	// EnvPostgres is a superuser's URL (postgres://...) of a server to use instead of starting one. Each
	// test makes a database of its own there and drops it.
	EnvPostgres = "LATCHKEY_TEST_POSTGRES"
	// EnvRequire turns a missing server from a skipped test into a failed one when it is 1.
	EnvRequire = "LATCHKEY_TEST_REQUIRE"
)

// Postgres returns the DSN of a fresh, empty database on a real PostgreSQL that the tests
// of this process share. Without a server it skips the test and says what is missing.
func Postgres(tb testing.TB) string {
	tb.Helper()
	admin := os.Getenv(EnvPostgres)
	if admin == "" {
		s, err := shared()
		if err != nil {
			Missing(tb, "PostgreSQL", err)
		}
		admin = s.DSN
	}
	return database(tb, admin)
}

// Missing skips the test because something it needs is not there, or fails it where
// LATCHKEY_TEST_REQUIRE=1 says that all must be there.
func Missing(tb testing.TB, what string, err error) {
	tb.Helper()
	if os.Getenv(EnvRequire) == "1" {
		tb.Fatalf("%s is required by %s=1: %v", what, EnvRequire, err)
	}
	tb.Skipf("needs %s: %v", what, err)
}

// shared is the one server of this process, started by its first user. It keeps nothing, so
// it need not wait for the disk.
var shared = sync.OnceValues(func() (*PostgresServer, error) {
	return start("fsync=off", "synchronous_commit=on", "full_page_writes=off", "max_connections=200")
})

// database makes one database and drops it when the test ends.
func database(tb testing.TB, admin string) string {
	tb.Helper()
	u, err := url.Parse(admin)
	if err != nil || u.Scheme == "" {
		tb.Fatalf("%s must be a URL, postgres://user:password@host:port/database", EnvPostgres)
	}
	name := "latchkey_" + strings.ToLower(rand.Text()[:12])
	Exec(tb, admin, "CREATE DATABASE "+name)
	tb.Cleanup(func() {
		c, err := pgx.Connect(context.Background(), admin)
		if err != nil {
			return // the server is gone, and the database with it
		}
		defer c.Close(context.Background())
		c.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)")
	})
	u.Path = "/" + name
	return u.String()
}

// Exec runs statements one by one as the role of the DSN.
func Exec(tb testing.TB, dsn string, statements ...string) {
	tb.Helper()
	c, err := pgx.Connect(tb.Context(), dsn)
	if err != nil {
		tb.Fatalf("connect: %v", err)
	}
	defer c.Close(context.Background())
	for _, sql := range statements {
		if _, err := c.Exec(tb.Context(), sql); err != nil {
			tb.Fatalf("%s: %v", sql, err)
		}
	}
}

// PostgresServer is a server of a test's own, to be stopped, paused and started again.
type PostgresServer struct {
	DSN string // of the superuser, database postgres
	Log string // file that the server writes its messages to

	bin, dir string
	port     int
	settings []string
	account  *syscall.Credential

	mu      sync.Mutex
	server  *exec.Cmd // nil while stopped
	ended   chan struct{}
	watcher *exec.Cmd // ends the server if this process dies first
}

// StartPostgres starts a server of the test's own with the given settings ("name=value").
// It writes to disk as a real one does, and ends with the test.
func StartPostgres(tb testing.TB, settings ...string) *PostgresServer {
	tb.Helper()
	s, err := start(settings...)
	if err != nil {
		Missing(tb, "PostgreSQL", err)
	}
	tb.Cleanup(func() {
		s.Resume()
		s.Stop(true)
		os.RemoveAll(s.dir)
	})
	return s
}

func start(settings ...string) (*PostgresServer, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	s := &PostgresServer{bin: bin, settings: settings}
	if s.account, err = account(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "latchkey-postgres-"); err != nil {
		return nil, err
	}
	s.Log = filepath.Join(s.dir, "log")
	if s.account != nil {
		if err := os.Chown(s.dir, int(s.account.Uid), int(s.account.Gid)); err != nil {
			return nil, err
		}
	}
	initdb := s.command(filepath.Join(bin, "initdb"), "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		os.RemoveAll(s.dir)
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	for range 5 { // a port that was free may have been taken since
		if s.port, err = freePort(); err != nil {
			return nil, err
		}
		s.DSN = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", s.port)
		if err = s.Start(); err == nil {
			return s, nil
		}
	}
	os.RemoveAll(s.dir)
	return nil, err
}

func (s *PostgresServer) data() string { return filepath.Join(s.dir, "data") }

func (s *PostgresServer) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir = s.dir
	c.Env = append(os.Environ(), "LC_ALL=C")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if s.account != nil {
		c.SysProcAttr.Credential = s.account
	}
	return c
}

// watch ends the server ($1) and removes its directory ($2) once its input ends, which it
// does when this process dies, however that comes about.
const watch = `read -r _; kill -QUIT "$1"; while kill -0 "$1" 2>/dev/null; do sleep 0.05; done; rm -rf "$2"`

// Start starts a stopped server on the same port and waits until it answers.
func (s *PostgresServer) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		return nil
	}
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"-D", s.data(), "-p", strconv.Itoa(s.port), "-k", s.dir, "-c", "listen_addresses=127.0.0.1"}
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	server := s.command(filepath.Join(s.bin, "postgres"), args...)
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		return err
	}
	s.server, s.ended = server, make(chan struct{})
	go func() {
		defer close(s.ended)
		server.Wait()
	}()
	s.watcher = s.command("/bin/sh", "-c", watch, "watch", strconv.Itoa(server.Process.Pid), s.dir)
	if _, err := s.watcher.StdinPipe(); err != nil {
		return err
	}
	if err := s.watcher.Start(); err != nil {
		s.stop(true)
		return err
	}
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); {
		if err = s.answers(); err == nil {
			return nil
		}
		select {
		case <-s.ended:
			s.stop(true)
			text, _ := os.ReadFile(s.Log)
			return fmt.Errorf("postgres ended at once: %s", text)
		case <-time.After(20 * time.Millisecond):
		}
	}
	s.stop(true)
	return fmt.Errorf("postgres did not answer on port %d: %w", s.port, err)
}

func (s *PostgresServer) answers() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, s.DSN)
	if err != nil {
		return err
	}
	return c.Close(ctx)
}

// Stop ends the server: at once, as a crash would (immediate), or after it has rolled back
// what is open. It returns when the server is gone.
func (s *PostgresServer) Stop(immediate bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop(immediate)
}

func (s *PostgresServer) stop(immediate bool) {
	if s.server == nil {
		return
	}
	if s.watcher.Process != nil {
		s.watcher.Process.Kill()
		s.watcher.Wait()
	}
	if immediate {
		s.server.Process.Signal(syscall.SIGQUIT)
	} else {
		s.server.Process.Signal(syscall.SIGINT)
	}
	<-s.ended
	s.server = nil
}

// Pause stops all of the server's processes where they are: connections stay open and
// nothing answers.
func (s *PostgresServer) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets them go on.
func (s *PostgresServer) Resume() { s.signal(syscall.SIGCONT) }

func (s *PostgresServer) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return
	}
	pid := s.server.Process.Pid
	syscall.Kill(pid, sig)
	for _, child := range children(pid) {
		syscall.Kill(child, sig)
	}
}

func children(parent int) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		// pid (name) state ppid ...; the name may hold anything but ends with the last ")".
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// binaries finds the newest installed server.
func binaries() (string, error) {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.SortFunc(dirs, func(a, b string) int { return version(b) - version(a) })
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
			return dir, nil
		}
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", fmt.Errorf("no initdb in /usr/lib/postgresql/*/bin or PATH (Debian, Ubuntu: apt-get install postgresql), and %s is not set", EnvPostgres)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	return filepath.Dir(path), nil
}

func version(bin string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
	return n
}

// account is the user to run the server as: PostgreSQL refuses root.
func account() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, fmt.Errorf("PostgreSQL does not run as root, and there is no user postgres or nobody")
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
