package redislock_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/lock"
	"github.com/latchkey-gateway/latchkey/lock/locktest"
	"github.com/latchkey-gateway/latchkey/lock/redislock"
)

// BenchmarkCall is what a fresh durable call asks of Redis: a claim and a settle with a
// receipt of 700 bytes. BenchmarkReplay is an uncached replay. cpu-µs/op is this process and
// redis-server together, which is what batching is for.
//
//	go test -run - -bench . ./lock/redislock
func BenchmarkCall(b *testing.B) {
	matrix(b, func(b *testing.B, l *redislock.Locker) {
		a := locktest.NewAsk()
		if _, err := l.Claim(b.Context(), a); err != nil {
			b.Error(err)
		}
		if _, _, err := l.Settle(b.Context(), completed(a), time.Hour); err != nil {
			b.Error(err)
		}
	})
}

func BenchmarkReplay(b *testing.B) {
	a := locktest.NewAsk()
	settled := map[*redislock.Locker]bool{}
	var mu sync.Mutex
	matrix(b, func(b *testing.B, l *redislock.Locker) {
		mu.Lock()
		if !settled[l] {
			settled[l] = true
			if _, _, err := l.Settle(b.Context(), completed(a), time.Hour); err != nil {
				b.Error(err)
			}
		}
		mu.Unlock()
		if got, err := l.Claim(b.Context(), a); err != nil || got.Code != lock.Settled {
			b.Errorf("%d, %v", got.Code, err)
		}
	})
}

func matrix(b *testing.B, one func(*testing.B, *redislock.Locker)) {
	addr := locktest.Redis(b)
	for _, goroutines := range []int{1, 64} {
		for senders := range 4 {
			b.Run(fmt.Sprintf("goroutines=%d/senders=%d", goroutines, senders+1), func(b *testing.B) {
				l := open(b, redislock.Options{Addrs: []string{addr}, Senders: senders + 1})
				run(b, addr, goroutines, func() { one(b, l) })
			})
		}
	}
}

// BenchmarkAlternatives sends a script of the same weight without the batcher: one command
// per round trip, and go-redis' own AutoPipeline.
func BenchmarkAlternatives(b *testing.B) {
	addr := locktest.Redis(b)
	for _, goroutines := range []int{1, 64} {
		client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DisableIdentity: true, PoolSize: 64})
		defer client.Close()
		auto, err := client.AutoPipeline()
		if err != nil {
			b.Fatal(err)
		}
		set := redis.NewScript(`local t = redis.call('TIME') redis.call('GET', KEYS[1]) redis.call('SET', KEYS[1], ARGV[1], 'PX', 60000) return {1, t[1], ''}`)
		payload := string(completed(locktest.NewAsk()).Receipt)
		for name, c := range map[string]redis.Scripter{"plain": client, "autopipeline": auto} {
			b.Run(fmt.Sprintf("goroutines=%d/%s", goroutines, name), func(b *testing.B) {
				run(b, addr, goroutines, func() {
					key := "b-" + locktest.NewAsk().Guard.String()
					if err := set.Run(context.Background(), c, []string{key}, payload).Err(); err != nil {
						b.Error(err)
					}
				})
			})
		}
	}
}

func completed(a lock.Ask) lock.Record {
	return lock.Record{Guard: a.Guard, Key: a.Key, Fingerprint: a.Fingerprint, ClaimID: a.ClaimID, Fence: 1,
		Status: intent.Completed, Retry: intent.RetryNever, Durable: true, Traceparent: a.Traceparent,
		Receipt: []byte(strings.Repeat("receipt", 100))}
}

func run(b *testing.B, addr string, goroutines int, one func()) {
	admin := redis.NewClient(&redis.Options{Addr: addr})
	defer admin.Close()
	one() // connections and scripts are there
	next := make(chan struct{}, 1024)
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range next {
				one()
			}
		})
	}
	before, start := cpu(b, admin), time.Now()
	b.ResetTimer()
	for range b.N {
		next <- struct{}{}
	}
	close(next)
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64((cpu(b, admin)-before).Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "op/s")
}

// cpu is what this process and the server have used so far.
func cpu(b *testing.B, admin *redis.Client) time.Duration {
	b.Helper()
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		b.Fatal(err)
	}
	total := time.Duration(self.Utime.Nano() + self.Stime.Nano())
	info, err := admin.InfoMap(b.Context(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	for _, field := range []string{"used_cpu_sys", "used_cpu_user"} {
		s, err := strconv.ParseFloat(info["CPU"][field], 64)
		if err != nil {
			b.Fatal(err)
		}
		total += time.Duration(s * float64(time.Second))
	}
	return total
}
