package postgres_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
	"github.com/latchkey-gateway/latchkey/intentstore/intentstoretest"
	"github.com/latchkey-gateway/latchkey/intentstore/postgres"
)

// connect is a session of the test's own.
func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func exec(t *testing.T, c *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := c.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// until polls the server for a state that no event announces.
func until(t *testing.T, c *pgx.Conn, what, query string, args ...any) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		var yes bool
		if err := c.QueryRow(context.Background(), query, args...).Scan(&yes); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if yes {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: it never came to that", what)
		}
	}
}

const blocked = `SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND application_name = 'latchkey'`

// TestNoCancelRequest lets a statement outlast the store's time-out and its caller. The
// server must not hear of it: the statement goes on to its end.
func TestNoCancelRequest(t *testing.T) {
	t.Parallel()
	dsn := intentstoretest.Postgres(t)
	if err := postgres.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	p, through := newProxy(t, dsn)
	s, direct := open(t, postgres.Options{DSN: through, Timeout: 4 * time.Second}), open(t, postgres.Options{DSN: dsn})
	left, late := started(2, 1), started(3, 1)
	// An insert waits for a transaction that deletes a row of the same key.
	blocker := connect(t, dsn)
	for _, r := range []intent.Receipt{left, late} {
		r.ClaimID = intent.ClaimID{9}
		must(t, mine(direct.Begin(t.Context(), r)))
	}
	must(t, mine(s.Begin(t.Context(), started(4, 1)))) // connects and prepares
	exec(t, blocker, "BEGIN")
	exec(t, blocker, "DELETE FROM intents")

	var waiting sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	waiting.Go(func() { // a caller that goes away while its statement runs
		if _, err := s.Begin(ctx, left); !errors.Is(err, context.Canceled) {
			t.Errorf("Begin of a caller that went away: %v, want context.Canceled", err)
		}
	})
	until(t, connect(t, dsn), "the insert waits", blocked)
	cancel()
	if _, err := s.Begin(t.Context(), late); !errors.Is(err, intentstore.ErrAmbiguous) {
		t.Errorf("Begin of a statement that outlasts the time-out: %v, want ErrAmbiguous", err)
	}
	waiting.Wait()
	exec(t, blocker, "COMMIT")

	// Nobody waits for those statements any more, yet they end as if somebody did.
	for _, r := range []intent.Receipt{left, late} {
		until(t, blocker, "the row is written", "SELECT count(*) = 1 FROM intents WHERE key = $1 AND claim_id = $2", r.Key[:], r.ClaimID[:])
	}
	if b, err := s.Begin(t.Context(), late); err != nil || !b.Mine {
		t.Errorf("Begin after all: mine %v, %v", b.Mine, err)
	}
	if n := p.cancelled(); n != 0 {
		t.Errorf("%d cancel requests were sent, want none", n)
	}

	// The proof that the proxy would have seen one.
	pool, err := pgxpool.New(t.Context(), through)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := pool.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := pool.Exec(short, "SELECT pg_sleep(30)"); err == nil {
		t.Fatal("an ordinary pool did not time out")
	}
	for deadline := time.Now().Add(10 * time.Second); p.cancelled() == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the proxy does not see the cancel request of an ordinary pool")
		}
	}
}

// TestSilentServer stops a server in its tracks: out of time means an error and never Mine,
// and once it goes on, asking again tells.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	server := intentstoretest.StartPostgres(t)
	if err := postgres.Migrate(t.Context(), server.DSN); err != nil {
		t.Fatal(err)
	}
	s := open(t, postgres.Options{DSN: server.DSN, Timeout: 4 * time.Second})
	r := started(1, 1)
	if b, err := s.Begin(t.Context(), r); err != nil || !b.Mine {
		t.Fatalf("Begin: mine %v, %v", b.Mine, err)
	}
	server.Pause()
	if b, err := s.Begin(t.Context(), started(2, 1)); !errors.Is(err, intentstore.ErrAmbiguous) || b.Mine {
		t.Errorf("Begin: mine %v, %v; want ErrAmbiguous", b.Mine, err)
	}
	if _, err := s.Settle(t.Context(), done(r)); err == nil {
		t.Error("Settle was acknowledged by nobody")
	}
	if err := s.Ready(t.Context()); err == nil {
		t.Error("Ready although the server does not answer")
	}
	server.Resume()
	for _, f := range []func() error{
		func() error {
			b, err := s.Begin(t.Context(), started(2, 1))
			if err == nil && !b.Mine {
				err = errors.New("not mine")
			}
			return err
		},
		func() error { return second(s.Settle(t.Context(), done(r))) },
		func() error { return s.Ready(t.Context()) },
	} {
		err := f()
		for deadline := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(deadline); {
			err = f() // the server needs a moment to come round
		}
		if err != nil {
			t.Errorf("after the server went on: %v", err)
		}
	}
}

// TestStandbyWaitCancelled cancels a commit's wait for a synchronous standby. The server
// then says "committed", with a warning: that is no acknowledgement.
func TestStandbyWaitCancelled(t *testing.T) {
	t.Parallel()
	server := intentstoretest.StartPostgres(t, "synchronous_standby_names=nobody")
	local := server.DSN + "&synchronous_commit=local"
	if err := postgres.Migrate(t.Context(), local); err != nil {
		t.Fatal(err)
	}
	s := open(t, postgres.Options{DSN: server.DSN, Timeout: 5 * time.Second})
	c := connect(t, local)

	r := started(2, 1)
	var got intentstore.Begun
	var err error
	var begin sync.WaitGroup
	begin.Go(func() { got, err = s.Begin(t.Context(), r) })
	const waits = `SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'`
	until(t, c, "the commit waits for the standby", "SELECT count(*) > 0 FROM ("+waits+") w")
	exec(t, c, "SELECT pg_cancel_backend(pid) FROM ("+waits+") w")
	begin.Wait()
	if !errors.Is(err, intentstore.ErrAmbiguous) || got.Mine {
		t.Errorf("Begin without the standby: mine %v, %v; want ErrAmbiguous", got.Mine, err)
	}
	var there bool
	if err := c.QueryRow(t.Context(), "SELECT count(*) = 1 FROM intents WHERE key = $1", r.Key[:]).Scan(&there); err != nil || !there {
		t.Fatalf("the row is there: %v, %v; the test needs it to be", there, err)
	}

	// Somebody tells the last of them, the barrier writes, not to wait any longer either.
	exec(t, c, "SELECT pg_cancel_backend(pid) FROM ("+waits+") w")
	until(t, c, "nothing waits for the standby", "SELECT count(*) = 0 FROM ("+waits+") w")
	alone := open(t, postgres.Options{DSN: local})
	if got, err = alone.Begin(t.Context(), r); err != nil || !got.Mine {
		t.Errorf("Begin with no standby to wait for: mine %v, %v", got.Mine, err)
	}
	if n := barriers(t, local, r.Key); n == 0 {
		t.Error("the row became Mine without an acknowledged write")
	}
}

// TestBadRowAmongGood makes the table refuse one row that the checks let through. The rows
// that share its batch must not notice.
func TestBadRowAmongGood(t *testing.T) {
	t.Parallel()
	batches := make(chan int, 1000)
	dsn := intentstoretest.Postgres(t)
	if err := postgres.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	s := open(t, postgres.Options{DSN: dsn, OnBatch: func(n int) { batches <- n }})
	blocker := connect(t, dsn)
	exec(t, blocker, "ALTER TABLE intents ADD CHECK (run_id <> 'bad'), ADD CHECK (reason <> 'bad')")
	settled := started(100, 1)
	spoiled := started(101, 1)
	for _, r := range []intent.Receipt{settled, spoiled} {
		if b, err := s.Begin(t.Context(), r); err != nil || !b.Mine {
			t.Fatalf("Begin: mine %v, %v", b.Mine, err)
		}
		<-batches
	}
	exec(t, blocker, "BEGIN")
	exec(t, blocker, "LOCK TABLE intents IN EXCLUSIVE MODE")
	var all sync.WaitGroup
	begin := func(n byte) {
		all.Go(func() {
			r := started(n, 1)
			if n == 13 {
				r.RunID = "bad"
			}
			b, err := s.Begin(t.Context(), r)
			if n != 13 && (err != nil || !b.Mine) {
				t.Errorf("Begin %d: mine %v, %v", n, b.Mine, err)
			}
			if e, ok := errors.AsType[*pgconn.PgError](err); n == 13 && (!ok || e.Code != "23514") {
				t.Errorf("Begin of the bad row: %v, want a check violation", err)
			}
		})
	}
	begin(1) // holds the writer at the lock while the others gather
	until(t, connect(t, dsn), "the first batch waits", blocked)
	for n := range byte(20) {
		if n != 1 {
			begin(n)
		}
	}
	all.Go(func() {
		if _, err := s.Settle(t.Context(), done(settled)); err != nil {
			t.Errorf("Settle: %v", err)
		}
	})
	all.Go(func() {
		m := done(spoiled)
		m.Reason = "bad"
		if _, err := s.Settle(t.Context(), m); err == nil {
			t.Error("Settle of the bad row: no error")
		}
	})
	for s.Pending() < 21 {
		runtime.Gosched()
	}
	exec(t, blocker, "ROLLBACK")
	all.Wait()
	if first, shared := <-batches, <-batches; first != 1 || shared != 21 {
		t.Errorf("the batches had %d and %d rows, want 1 and all 21 that had gathered", first, shared)
	}
}
