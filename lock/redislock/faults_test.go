package redislock_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/lock"
	"github.com/latchkey-gateway/latchkey/lock/locktest"
	"github.com/latchkey-gateway/latchkey/lock/redislock"
)

// A reply is lost after the script ran: it ran once, the caller gets an error, and asking
// again is harmless.
func TestLostReplyIsNotSentAgain(t *testing.T) {
	t.Parallel()
	s := locktest.StartRedis(t)
	p := locktest.StartProxy(t, s.Addr)
	// One sender, one connection: what the proxy cuts is the verb's own.
	l := open(t, redislock.Options{Addrs: []string{p.Addr}, Senders: 1})
	scriptRuns := counter(t, s.Addr)
	var a lock.Ask
	var done lock.Record
	about := func(ask lock.Ask) { a, done = ask, completed(ask) }

	verbs := []struct {
		name string
		do   func() error
	}{
		{"claim", func() error { _, err := l.Claim(t.Context(), a); return err }},
		{"renew", func() error {
			_, err := l.Renew(t.Context(), []lock.Lease{{Guard: a.Guard, Ask: a, Fence: 1}})
			return err
		}},
		{"settle", func() error { _, _, err := l.Settle(t.Context(), done, time.Hour); return err }},
		{"release", func() error { return l.Release(t.Context(), a.Guard, a.ClaimID) }},
	}
	ask := locktest.NewAsk()
	for _, v := range verbs {
		// Once on another guard, so that the script is loaded and a connection is up. What a
		// verb leaves to be sent after its answer has gone before the look returns.
		about(locktest.NewAsk())
		if err := v.do(); err != nil {
			t.Fatalf("%s: %v", v.name, err)
		}
		if _, err := l.Get(t.Context(), a.Guard); err != nil && !errors.Is(err, intent.ErrNone) {
			t.Fatalf("%s: %v", v.name, err)
		}
		about(ask)

		before := scriptRuns()
		p.LoseIf(func([]byte) bool { return true })
		if err := v.do(); err == nil {
			t.Fatalf("%s: no error though the reply was lost", v.name)
		}
		p.LoseIf(nil)
		if n := scriptRuns() - before; n != 1 {
			t.Errorf("%s ran %d times", v.name, n)
		}
		if err := v.do(); err != nil {
			t.Errorf("%s again: %v", v.name, err)
		}
	}
	if got, err := l.Get(t.Context(), a.Guard); err != nil || got.Status != intent.Completed || got.Fence != 1 {
		t.Errorf("after all of it: %+v, %v", got, err)
	}
}

// counter returns how often scripts were run so far.
func counter(t *testing.T, addr string) func() int {
	admin := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = admin.Close() })
	return func() int {
		t.Helper()
		stats, err := admin.InfoMap(context.WithoutCancel(t.Context()), "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, name := range []string{"cmdstat_evalsha", "cmdstat_eval"} {
			for field := range strings.SplitSeq(stats["Commandstats"][name], ",") {
				if digits, ok := strings.CutPrefix(field, "calls="); ok {
					calls, err := strconv.Atoi(digits)
					if err != nil {
						t.Fatal(err)
					}
					n += calls
				}
			}
		}
		return n
	}
}

func TestScriptsAreSentAgainWhenRedisLostThem(t *testing.T) {
	t.Parallel()
	s := locktest.StartRedis(t)
	l := open(t, redislock.Options{Addrs: []string{s.Addr}})
	use := func(l *redislock.Locker) {
		t.Helper()
		for range 3 { // the connections of before a restart are noticed one by one
			a := locktest.NewAsk()
			answer, err := l.Claim(t.Context(), a)
			if err != nil {
				t.Fatal(err)
			}
			if answer.Code != lock.Claimed {
				t.Fatalf("code %d", answer.Code)
			}
			if _, err := l.Renew(t.Context(), []lock.Lease{{Guard: a.Guard, Ask: a, Fence: 1}}); err != nil {
				t.Fatal(err)
			}
			if _, _, err := l.Settle(t.Context(), completed(a), time.Hour); err != nil {
				t.Fatal(err)
			}
		}
	}
	use(l)
	s.Must(t, "SCRIPT", "FLUSH")
	use(l)

	// Many at once after a flush: the batches hold scripts that are there and that are not.
	s.Must(t, "SCRIPT", "FLUSH")
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			a := locktest.NewAsk()
			if got, err := l.Claim(t.Context(), a); err != nil || got.Code != lock.Claimed || got.Record.Fence != 1 {
				t.Errorf("claim: %+v, %v", got, err)
			}
			if err := l.Release(t.Context(), a.Guard, a.ClaimID); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()

	s.Stop()
	if _, err := l.Claim(t.Context(), locktest.NewAsk()); err == nil {
		t.Fatal("no error though Redis is down")
	}
	s.Start(t)
	until(t, "Redis is used again after its restart", func() bool { return l.Ready(t.Context()) == nil })
	until(t, "and by every connection", func() bool {
		_, err := l.Claim(t.Context(), locktest.NewAsk())
		return err == nil
	})
	use(l)
}

func TestFlushedRecordIsWrittenAnewByItsHolder(t *testing.T) {
	t.Parallel()
	s := locktest.StartRedis(t)
	l := open(t, redislock.Options{Addrs: []string{s.Addr}})
	a := locktest.NewAsk()
	if _, err := l.Claim(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	s.FlushAll(t)
	if lost, err := l.Renew(t.Context(), []lock.Lease{{Guard: a.Guard, Ask: a, Fence: 1}}); err != nil || len(lost) != 0 {
		t.Fatalf("renew: %v, %v", lost, err)
	}
	b := a
	b.ClaimID = locktest.NewAsk().ClaimID
	if got, err := l.Claim(t.Context(), b); err != nil || got.Code != lock.Held || got.Record.ClaimID != a.ClaimID {
		t.Fatalf("claim by another: %+v, %v", got, err)
	}

	// Flushed again, and somebody else is faster.
	s.FlushAll(t)
	if got, err := l.Claim(t.Context(), b); err != nil || got.Code != lock.Claimed {
		t.Fatalf("claim: %+v, %v", got, err)
	}
	if lost, err := l.Renew(t.Context(), []lock.Lease{{Guard: a.Guard, Ask: a, Fence: 1}}); err != nil || len(lost) != 1 {
		t.Fatalf("renew: %v, %v", lost, err)
	}
}

// Nothing listens: one attempt to connect a verb, and no waiting between attempts.
func TestRedisDownIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var dialled atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			dialled.Add(1)
			_ = c.Close()
		}
	})
	l := open(t, redislock.Options{Addrs: []string{ln.Addr().String()}})
	for range 10 {
		before := dialled.Load()
		if _, err := l.Claim(t.Context(), locktest.NewAsk()); err == nil {
			t.Fatal("no error")
		}
		if n := dialled.Load() - before; n > 1 {
			t.Errorf("connected %d times for one claim", n)
		}
	}
	_ = ln.Close()
	wg.Wait()
	start := time.Now()
	for range 20 {
		_, err := l.Claim(t.Context(), locktest.NewAsk())
		if op, ok := errors.AsType[*net.OpError](err); !ok || op.Op != "dial" {
			t.Fatalf("claim: %v", err)
		}
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("20 refusals took %v", took)
	}
}

// Redis stands still: verbs end at their timeout, in and out of the queue, and go on after.
func TestRedisStandsStill(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for timeouts")
	}
	s := locktest.StartRedis(t)
	l := open(t, redislock.Options{Addrs: []string{s.Addr}, Timeout: 200 * time.Millisecond, Senders: 1})
	if _, err := l.Claim(t.Context(), locktest.NewAsk()); err != nil {
		t.Fatal(err)
	}
	s.Pause()
	var wg sync.WaitGroup
	for range 600 { // more than two batches: the last wait in the queue
		wg.Go(func() {
			if _, err := l.Claim(t.Context(), locktest.NewAsk()); err == nil {
				t.Error("no error though Redis stands still")
			}
		})
	}
	wg.Wait()
	s.Resume()
	until(t, "Redis is used again", func() bool {
		_, err := l.Claim(t.Context(), locktest.NewAsk())
		return err == nil
	})
}

func TestCallerThatLeavesIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	s := locktest.StartRedis(t)
	l := open(t, redislock.Options{Addrs: []string{s.Addr}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Claim(ctx, locktest.NewAsk()); !errors.Is(err, context.Canceled) {
		t.Fatalf("claim: %v", err)
	}
	s.Pause()
	defer s.Resume()
	ctx, cancel = context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { _, err := l.Claim(ctx, locktest.NewAsk()); result <- err }()
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Fatalf("claim: %v", err)
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	l := open(t, redislock.Options{Addrs: []string{miniredis.RunT(t).Addr()}})
	changed, stop := l.Watch(locktest.NewAsk().Guard)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for {
				if _, err := l.Claim(t.Context(), locktest.NewAsk()); err != nil {
					if !errors.Is(err, redislock.ErrClosed) {
						t.Errorf("claim: %v", err)
					}
					return
				}
			}
		})
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	stop()
	select {
	case <-changed:
		t.Error("a closed Locker signals")
	default:
	}
	_, stop = l.Watch(locktest.NewAsk().Guard)
	stop()
}

func TestRecordOfAnotherVersionIsAnError(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	l := open(t, redislock.Options{Addrs: []string{m.Addr()}, Prefix: "p"})
	a := locktest.NewAsk()
	newer := "2" + string(bytes.Repeat([]byte("x"), 200))
	if err := m.Set("p:{"+a.Guard.String()+"}", newer); err != nil {
		t.Fatal(err)
	}
	_, errClaim := l.Claim(t.Context(), a)
	_, errRenew := l.Renew(t.Context(), []lock.Lease{{Guard: a.Guard, Ask: a}})
	_, _, errSettle := l.Settle(t.Context(), completed(a), time.Hour)
	errRelease := l.Release(t.Context(), a.Guard, a.ClaimID)
	_, errGet := l.Get(t.Context(), a.Guard)
	for _, err := range []error{errClaim, errRenew, errSettle, errRelease, errGet} {
		if err == nil {
			t.Error("no error for a record that cannot be read")
		}
	}
	if got, _ := m.Get("p:{" + a.Guard.String() + "}"); got != newer {
		t.Error("it was overwritten")
	}
}

// until asks again until it is so; the bound is for a test that would hang.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if so() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}
