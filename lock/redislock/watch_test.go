package redislock_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/lock"
	"github.com/latchkey-gateway/latchkey/lock/locktest"
	"github.com/latchkey-gateway/latchkey/lock/redislock"
)

func TestWatchSharesOneConnectionAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s := locktest.StartRedis(t)
	l := open(t, redislock.Options{Addrs: []string{s.Addr}})
	admin := redis.NewClient(&redis.Options{Addr: s.Addr})
	t.Cleanup(func() { _ = admin.Close() })
	channels := func() int {
		names, err := admin.PubSubChannels(t.Context(), "*").Result()
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}

	var mu sync.Mutex
	var stops []func()
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			_, stop := l.Watch(intent.Guard{byte(i % 10)})
			mu.Lock()
			defer mu.Unlock()
			stops = append(stops, stop)
		})
	}
	wg.Wait()
	until(t, "ten channels for a hundred watches", func() bool { return channels() == 10 })
	list, err := admin.Do(t.Context(), "client", "list", "type", "pubsub").Text()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(list, "\n"); n != 1 {
		t.Errorf("%d subscriber connections", n)
	}
	for _, stop := range stops {
		wg.Go(func() { stop(); stop() })
	}
	wg.Wait()
	until(t, "no channel without a watch", func() bool { return channels() == 0 })

	_, stop := l.Watch(intent.Guard{1})
	defer stop()
	until(t, "watched again", func() bool { return channels() == 1 })
}

func TestWatchGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	s := locktest.StartRedis(t)
	l := open(t, redislock.Options{Addrs: []string{s.Addr}})
	a := locktest.NewAsk()
	changed, stop := l.Watch(a.Guard)
	defer stop()
	s.Kill()
	down := locktest.NewAsk() // watched while Redis is down
	later, stopLater := l.Watch(down.Guard)
	defer stopLater()
	s.Start(t)
	fence := uint64(0)
	for _, w := range []struct {
		guard   intent.Guard
		changed <-chan struct{}
	}{{a.Guard, changed}, {down.Guard, later}} {
		until(t, "the watch gets values again", func() bool {
			fence++
			_, _, err := l.Settle(t.Context(), lock.Record{Guard: w.guard, Fence: fence, Status: intent.Unknown}, 0)
			if err != nil {
				return false
			}
			select {
			case <-w.changed:
				return true
			case <-time.After(20 * time.Millisecond):
				return false
			}
		})
	}
}

// A settle by one replica wakes a watch in another.
func TestWatchSeesOtherReplicas(t *testing.T) {
	t.Parallel()
	addr := locktest.Redis(t)
	prefix := "t-" + locktest.NewAsk().Key.Short()
	one, two := open(t, redislock.Options{Addrs: []string{addr}, Prefix: prefix}), open(t, redislock.Options{Addrs: []string{addr}, Prefix: prefix})
	a := locktest.NewAsk()
	if _, err := one.Claim(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	changed, stop := two.Watch(a.Guard)
	defer stop()
	if _, _, err := one.Settle(t.Context(), completed(a), time.Hour); err != nil {
		t.Fatal(err)
	}
	<-changed
	if r, err := two.Get(t.Context(), a.Guard); err != nil || r.Status != intent.Completed {
		t.Fatalf("%+v, %v", r, err)
	}
}
