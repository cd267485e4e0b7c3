package locktest

import (
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
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
		s, err := newServer(program, dir, plain)
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

// plain: no persistence, nothing dropped.
var plain = []string{"--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"}

// StartRedis starts a redis-server of the test's own on a free loopback port, without
// persistence; args are appended to its command line. The test's end ends it.
func StartRedis(tb testing.TB, args ...string) *RedisServer {
	tb.Helper()
	return startServer(tb, append(slices.Clone(plain), args...))
}

func startServer(tb testing.TB, args []string) *RedisServer {
	tb.Helper()
	s, err := newServer(redisProgram(tb), tb.TempDir(), args)
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
