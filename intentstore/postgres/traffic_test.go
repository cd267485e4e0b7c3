package postgres_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
	"github.com/latchkey-gateway/latchkey/intentstore/intentstoretest"
	"github.com/latchkey-gateway/latchkey/intentstore/postgres"
)

// TestNoDeadlock lets two stores, as two replicas would, fight over few keys and fewer
// guards with every verb that takes locks. The order of a batch must keep them from ever
// waiting for each other.
func TestNoDeadlock(t *testing.T) {
	t.Parallel()
	dsn := intentstoretest.Postgres(t)
	if err := postgres.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	stores := []*postgres.Store{
		open(t, postgres.Options{DSN: dsn, Flights: 2, Timeout: 30 * time.Second}),
		open(t, postgres.Options{DSN: dsn, Flights: 2, Timeout: 30 * time.Second}),
	}
	var all sync.WaitGroup
	var claims atomic.Uint32
	var mine, again [64]atomic.Int64
	for worker := range 32 {
		s, random := stores[worker%2], rand.New(rand.NewPCG(1, uint64(worker)))
		all.Go(func() {
			for range 40 {
				k := byte(random.IntN(len(mine)))
				r := started(k, 0)
				claim := claims.Add(1)
				r.ClaimID = intent.ClaimID{byte(claim), byte(claim >> 8), byte(claim >> 16), 1}
				r.Guard = intent.Guard{0: k % 8, 31: 1}
				b, err := s.Begin(t.Context(), r)
				if err != nil {
					t.Errorf("Begin: %v", err)
					return
				}
				if !b.Mine {
					continue
				}
				mine[k].Add(1)
				again[k].Store(int64(b.Row.Fence))
				// Rejected, the guard is free for the next.
				if _, err := s.Settle(t.Context(), b.Row.RejectMove("downstream", intent.RetrySameKey, 0, "no", nil, false, at)); err != nil {
					t.Errorf("Settle: %v", err)
				}
			}
		})
	}
	all.Wait()
	total := int64(0)
	for k := range mine {
		total += mine[k].Load()
		if n, fence := mine[k].Load(), again[k].Load(); n > 0 {
			row, err := stores[0].Get(t.Context(), started(byte(k), 0).Key)
			if err != nil || row.Fence != uint64(n) {
				t.Errorf("key %d was Mine %d times, last with fence %d, but the row says %d, %v", k, n, fence, row.Fence, err)
			}
		}
	}
	if total < 100 {
		t.Errorf("only %d claims won: that was no fight", total)
	}
	c := connect(t, dsn)
	exec(t, c, "SELECT pg_stat_force_next_flush()")
	var deadlocks int
	if err := c.QueryRow(t.Context(), "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").Scan(&deadlocks); err != nil || deadlocks != 0 {
		t.Errorf("%d deadlocks, %v; want none", deadlocks, err)
	}
}

// TestCountsTogether lets two stores count the same things at once, in every order: they may
// wait for each other but never in a circle, and nothing is lost.
func TestCountsTogether(t *testing.T) {
	t.Parallel()
	dsn := intentstoretest.Postgres(t)
	must(t, postgres.Migrate(t.Context(), dsn))
	stores := []*postgres.Store{open(t, postgres.Options{DSN: dsn}), open(t, postgres.Options{DSN: dsn})}
	const workers, rounds, keys = 8, 20, 10
	var all sync.WaitGroup
	for worker := range workers {
		s, random := stores[worker%2], rand.New(rand.NewPCG(2, uint64(worker)))
		all.Go(func() {
			r := started(byte(worker), 1)
			begun := mine(s.Begin(t.Context(), r))
			row, err := s.Settle(t.Context(), r.LoseMove("timeout", nil, intent.Plan{}, at))
			err = errors.Join(begun, err)
			for i := range rounds {
				var attempts []intent.Attempt
				for _, n := range random.Perm(keys) {
					attempts = append(attempts, intent.Attempt{Key: r.Key, Tenant: "acme", Tool: fmt.Sprint(n), At: at, Decision: intent.Replayed})
				}
				now := row.Checked(nil, intent.Plan{NextCheck: at.Add(time.Duration(i) * time.Second)})
				if err = errors.Join(err, s.Record(t.Context(), attempts), second(s.Replace(t.Context(), row, now, entry(intent.ActionLookup, row, now)))); err != nil {
					t.Error(err)
					return
				}
				row = now
			}
		})
	}
	all.Wait()
	stats, err := stores[0].Stats(t.Context(), intentstore.StatsQuery{Tenant: "acme", Since: at, Until: at.Add(time.Minute)})
	must(t, err)
	want := map[string]int64{intentstore.CountAttempt: workers * rounds * keys, intentstore.CountAudit: workers * rounds, intentstore.CountExecution: workers}
	for _, c := range stats.Counts {
		want[c.Kind] -= c.N
	}
	for kind, n := range want {
		if n != 0 {
			t.Errorf("counts of kind %s are short by %d", kind, n)
		}
	}
	c := connect(t, dsn)
	exec(t, c, "SELECT pg_stat_force_next_flush()")
	var deadlocks int
	if err := c.QueryRow(t.Context(), "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").Scan(&deadlocks); err != nil || deadlocks != 0 {
		t.Errorf("%d deadlocks, %v; want none", deadlocks, err)
	}
}

// TestRestartUnderTraffic crashes the server under load and starts it again. Whatever was
// acknowledged must be there, nothing may have been won twice, and the store must come
// round by itself.
func TestRestartUnderTraffic(t *testing.T) {
	t.Parallel()
	server := intentstoretest.StartPostgres(t)
	if err := postgres.Migrate(t.Context(), server.DSN); err != nil {
		t.Fatal(err)
	}
	s := open(t, postgres.Options{DSN: server.DSN, Timeout: 20 * time.Second})
	type account struct {
		mine    int
		settled bool
	}
	var (
		mu    sync.Mutex
		books = make(map[intent.Key]*account)
		acks  atomic.Int64
		stop  = make(chan struct{})
		all   sync.WaitGroup
		next  atomic.Uint32
	)
	for range 16 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				n := next.Add(1)
				for claim := range byte(2) { // two claimants for every key
					r := started(byte(n), claim)
					r.Key, r.Guard = intent.Key{byte(n), byte(n >> 8), 31: 2}, intent.Guard{byte(n), byte(n >> 8), 31: 2}
					b, err := s.Begin(t.Context(), r)
					mu.Lock()
					a := books[r.Key]
					if a == nil {
						a = new(account)
						books[r.Key] = a
					}
					if err == nil && b.Mine {
						a.mine++
					}
					mu.Unlock()
					if err != nil || !b.Mine {
						continue
					}
					_, err = s.Settle(t.Context(), done(r))
					mu.Lock()
					a.settled = a.settled || err == nil
					mu.Unlock()
					acks.Add(1)
				}
			}
		})
	}
	more := func(n int64) {
		t.Helper()
		goal, deadline := acks.Load()+n, time.Now().Add(60*time.Second)
		for acks.Load() < goal {
			if time.Now().After(deadline) {
				t.Fatal("the traffic does not come round")
			}
			time.Sleep(time.Millisecond)
		}
	}
	for range 2 {
		more(50)
		server.Stop(true)
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
	}
	more(50)
	close(stop)
	all.Wait()
	for k, a := range books {
		row, err := s.Get(t.Context(), k)
		switch {
		case a.mine > 1:
			t.Errorf("%s was Mine %d times", k.Short(), a.mine)
		case a.mine == 1 && err != nil:
			t.Errorf("%s was Mine, and is gone: %v", k.Short(), err)
		case a.settled && row.Status != intent.Completed:
			t.Errorf("%s was settled, and is %s", k.Short(), row.Status)
		}
	}
}

// TestHosts finds the server behind a host that is down, and refuses one that may
// not write.
func TestHosts(t *testing.T) {
	t.Parallel()
	dsn := intentstoretest.Postgres(t)
	if err := postgres.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	c := connect(t, dsn).Config()
	s := open(t, postgres.Options{DSN: fmt.Sprintf("host=127.0.0.1,%s port=1,%d user=%s dbname=%s password=%s sslmode=disable target_session_attrs=read-write",
		c.Host, c.Port, c.User, c.Database, c.Password)})
	if b, err := s.Begin(t.Context(), started(1, 1)); err != nil || !b.Mine {
		t.Errorf("Begin behind a host that is down: mine %v, %v", b.Mine, err)
	}
	readOnly := open(t, postgres.Options{DSN: dsn + "&default_transaction_read_only=on"})
	if b, err := readOnly.Begin(t.Context(), started(2, 1)); err == nil || b.Mine {
		t.Errorf("Begin on a read-only server: mine %v, %v", b.Mine, err)
	}
	if err := readOnly.Ready(t.Context()); err == nil {
		t.Error("Ready on a read-only server: no error")
	}
	if _, err := readOnly.Get(t.Context(), started(1, 1).Key); err != nil {
		t.Errorf("Get on a read-only server: %v", err)
	}
	down := open(t, postgres.Options{DSN: "postgres://x@127.0.0.1:1/x?sslmode=disable", Timeout: 30 * time.Second})
	began := time.Now()
	if _, err := down.Begin(t.Context(), started(3, 1)); err == nil || errors.Is(err, errors.ErrUnsupported) {
		t.Error("Begin without a server: no error")
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("Begin without a server took %v: nothing was sent, so nothing is in doubt", d)
	}
}
