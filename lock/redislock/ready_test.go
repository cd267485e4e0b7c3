package redislock_test

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/latchkey-gateway/latchkey/lock/locktest"
	"github.com/latchkey-gateway/latchkey/lock/redislock"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	t.Run("a primary as it should be", func(t *testing.T) {
		t.Parallel()
		s := locktest.StartRedis(t)
		l := open(t, redislock.Options{Addrs: []string{s.Addr}})
		if warnings, err := l.Check(t.Context()); err != nil || len(warnings) != 0 {
			t.Fatalf("%q, %v", warnings, err)
		}
	})
	t.Run("evicting", func(t *testing.T) {
		t.Parallel()
		s := locktest.StartRedis(t, "--maxmemory-policy", "allkeys-lru")
		wantWarning(t, s.Addr, "allkeys-lru", "CONFIG SET maxmemory-policy noeviction")
	})
	t.Run("a policy that cannot be read", func(t *testing.T) {
		t.Parallel()
		wantWarning(t, miniredis.RunT(t).Addr(), "could not read maxmemory-policy", "noeviction")
		s := locktest.StartRedis(t, "--rename-command", "CONFIG", "")
		wantWarning(t, s.Addr, "could not read maxmemory-policy", "noeviction")
	})
	t.Run("a replica", func(t *testing.T) {
		t.Parallel()
		primary := locktest.StartRedis(t)
		_, port, _ := net.SplitHostPort(primary.Addr)
		replica := locktest.StartRedis(t, "--replicaof", "127.0.0.1", port)
		l := wantRefusal(t, replica.Addr, "READONLY", "is a replica")
		if _, err := l.Check(t.Context()); !errors.Is(err, redislock.ErrNotPrimary) {
			t.Errorf("check: %v", err)
		}
	})
	t.Run("full", func(t *testing.T) {
		t.Parallel()
		s := locktest.StartRedis(t, "--maxmemory", "1")
		wantRefusal(t, s.Addr, "OOM")
	})
	t.Run("nobody there", func(t *testing.T) {
		t.Parallel()
		s := locktest.StartRedis(t)
		s.Kill()
		wantRefusal(t, s.Addr, "dial")
	})
}

func wantWarning(t *testing.T, addr string, words ...string) {
	t.Helper()
	l := open(t, redislock.Options{Addrs: []string{addr}})
	warnings, err := l.Check(t.Context())
	if err != nil || len(warnings) != 1 {
		t.Fatalf("%q, %v", warnings, err)
	}
	for _, w := range append(words, addr) {
		if !strings.Contains(warnings[0], w) {
			t.Errorf("%q lacks %q", warnings[0], w)
		}
	}
}

func wantRefusal(t *testing.T, addr string, words ...string) *redislock.Locker {
	t.Helper()
	l := open(t, redislock.Options{Addrs: []string{addr}})
	_, err := l.Check(t.Context())
	if err == nil || slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(err.Error(), w) }) {
		t.Fatalf("check: %v, want %q", err, words)
	}
	if l.Ready(t.Context()) == nil {
		t.Error("ready all the same")
	}
	return l
}
