package redislock_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/latchkey-gateway/latchkey/lock/locktest"
	"github.com/latchkey-gateway/latchkey/lock/redislock"
)

func open(tb testing.TB, o redislock.Options) *redislock.Locker {
	tb.Helper()
	if o.Prefix == "" {
		o.Prefix = "t-" + locktest.NewAsk().Key.Short()
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second // busy machines; what must be fast says so
	}
	l, err := redislock.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	return l
}

func TestExerciseRealRedis(t *testing.T) {
	t.Parallel()
	addr := locktest.Redis(t)
	locktest.Exercise(t, func(t *testing.T) (locktest.Subject, func(time.Duration)) {
		return open(t, redislock.Options{Addrs: []string{addr}}), time.Sleep
	})
}

func TestExerciseMiniredis(t *testing.T) {
	t.Parallel()
	locktest.Exercise(t, func(t *testing.T) (locktest.Subject, func(time.Duration)) {
		m := miniredis.RunT(t)
		now := time.Now()
		m.SetTime(now) // from here on its two clocks move together and by hand
		return open(t, redislock.Options{Addrs: []string{m.Addr()}}), func(d time.Duration) {
			now = now.Add(d)
			m.SetTime(now)
			m.FastForward(d)
		}
	})
}
