package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
	"github.com/latchkey-gateway/latchkey/intentstore/intentstoretest"
	"github.com/latchkey-gateway/latchkey/intentstore/postgres"
)

// TestMigrateTogether starts as a fleet does: every replica migrates an empty database.
func TestMigrateTogether(t *testing.T) {
	t.Parallel()
	dsn := intentstoretest.Postgres(t)
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if err := postgres.Migrate(t.Context(), dsn); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	c := connect(t, dsn)
	var versions, distinct int
	if err := c.QueryRow(t.Context(), "SELECT count(*), count(DISTINCT version_id) FROM goose_db_version").Scan(&versions, &distinct); err != nil {
		t.Fatal(err)
	}
	if versions != distinct || versions < 2 {
		t.Errorf("%d versions were recorded, %d of them distinct", versions, distinct)
	}
	if err := postgres.Migrate(t.Context(), dsn); err != nil {
		t.Errorf("a second Migrate: %v", err)
	}
	if err := open(t, postgres.Options{DSN: dsn}).Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestMigrateAfterDeath leaves the lock of a replica that dies while it migrates.
func TestMigrateAfterDeath(t *testing.T) {
	t.Parallel()
	dsn := intentstoretest.Postgres(t)
	dying, c := connect(t, dsn), connect(t, dsn)
	exec(t, c, "CREATE TABLE latchkey_migration (one bigint PRIMARY KEY)")
	exec(t, c, "INSERT INTO latchkey_migration VALUES (1)")
	exec(t, dying, "BEGIN")
	exec(t, dying, "SELECT one FROM latchkey_migration FOR UPDATE")
	migrated := make(chan error, 1)
	go func() { migrated <- postgres.Migrate(context.Background(), dsn) }()
	until(t, c, "the migration waits", `SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
	exec(t, c, "SELECT pg_terminate_backend($1)", int32(dying.PgConn().PID()))
	if err := <-migrated; err != nil {
		t.Errorf("Migrate after the other's death: %v", err)
	}
	if err := open(t, postgres.Options{DSN: dsn}).Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestRoleThatCannotDelete runs the store as a role that owns nothing and may not delete.
func TestRoleThatCannotDelete(t *testing.T) {
	t.Parallel()
	dsn := intentstoretest.Postgres(t)
	if err := postgres.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	role, password := "latchkey_"+strings.ToLower(rand.Text()[:10]), rand.Text()
	owner := connect(t, dsn)
	exec(t, owner, "CREATE ROLE "+role+" LOGIN PASSWORD '"+password+"'")
	t.Cleanup(func() {
		exec(t, owner, "DROP OWNED BY "+role)
		exec(t, owner, "DROP ROLE "+role)
	})
	exec(t, owner, "GRANT SELECT, INSERT, UPDATE ON intents, counts TO "+role)
	exec(t, owner, "GRANT SELECT, INSERT ON executions, attempts, audit TO "+role)
	exec(t, owner, "GRANT SELECT, UPDATE ON heartbeat TO "+role)
	u, err := url.Parse(dsn)
	must(t, err)
	u.User = url.UserPassword(role, password)
	s := open(t, postgres.Options{DSN: u.String()})
	t.Cleanup(func() { s.Close() })
	ctx := t.Context()

	r := started(1, 1)
	must(t, mine(s.Begin(ctx, r)))
	must(t, mine(s.Begin(ctx, r))) // the barrier
	must(t, second(s.Settle(ctx, r.RejectMove("gateway", intent.RetrySameKey, 0, "no", nil, true, at))))
	r.ClaimID = intent.ClaimID{2}
	must(t, mine(s.Begin(ctx, r))) // again
	r.Fence = 2
	must(t, second(s.Settle(ctx, done(r))))
	lost := started(3, 1)
	must(t, mine(s.Begin(ctx, lost)))
	must(t, second(s.Settle(ctx, lost.LoseMove("timeout", nil, intent.Plan{NextCheck: at}, at))))
	due, err := s.Due(ctx, at, 5)
	if err != nil || len(due) != 1 || due[0].Key != lost.Key {
		t.Fatalf("Due: %d rows, %v", len(due), err)
	}
	again, err := due[0].Reexecute(intent.Opening{ClaimID: intent.ClaimID{3}, At: at, SettleBy: at})
	must(t, err)
	must(t, second(s.Replace(ctx, due[0], again, entry(intent.ActionRetry, due[0], again))))
	must(t, second(s.Settle(ctx, done(again))))
	if entries, err := s.Audit(ctx, lost.Key, 5); err != nil || len(entries) != 1 {
		t.Errorf("Audit: %d entries, %v", len(entries), err)
	}
	if stats, err := s.Stats(ctx, intentstore.StatsQuery{Tenant: r.Tenant, Since: at, Until: at.Add(time.Hour)}); err != nil || len(stats.Counts) != 2 {
		t.Errorf("Stats: %+v, %v; want the loss and the retry", stats, err)
	}
	if _, _, err := s.Changes(ctx, r.Tenant, intentstore.Mark{}, 5); err != nil {
		t.Error(err)
	}
	archived, _ := started(2, 1).Apply(done(started(2, 1)))
	must(t, second(s.Archive(ctx, archived)))
	must(t, s.Record(ctx, []intent.Attempt{{Key: r.Key, Tenant: r.Tenant, At: at, Decision: intent.Executed}}))
	must(t, s.Ready(ctx))
	if attempts, _, executions, err := s.Attempts(ctx, r.Key, 5); err != nil || len(attempts) != 1 || len(executions) != 2 {
		t.Errorf("Attempts: %d, %d executions, %v", len(attempts), len(executions), err)
	}
	if rows, _, err := s.List(ctx, intentstore.Query{Tenant: r.Tenant}); err != nil || len(rows) != 3 {
		t.Errorf("List: %d rows, %v", len(rows), err)
	}
	if n, err := s.Expire(ctx, at.Add(time.Hour), 10); n != 3 || err != nil {
		t.Errorf("Expire: %d, %v; want 3", n, err)
	}
	if n, err := s.Forget(ctx, at.Add(time.Hour), 10); n != 0 || err != nil {
		t.Errorf("Forget: %d, %v; want 0 and no error", n, err)
	}
	row, err := s.Get(ctx, r.Key)
	if err != nil || !row.Expired {
		t.Errorf("the tombstone is gone: %v", err)
	}
	if _, _, executions, err := s.Attempts(ctx, r.Key, 5); err != nil || len(executions) != 2 {
		t.Errorf("executions of the tombstone: %d, %v; want 2", len(executions), err)
	}
	asRole := connect(t, u.String())
	for _, tamper := range []string{"UPDATE audit SET actor = 'bob'", "DELETE FROM audit", "TRUNCATE audit"} {
		if _, err := asRole.Exec(ctx, tamper); err == nil {
			t.Errorf("the role may %s", tamper)
		}
	}

	// One that may forget keys forgets them, and leaves the audit alone.
	exec(t, owner, "GRANT DELETE ON intents, executions, attempts TO "+role)
	if n, err := s.Forget(ctx, at.Add(time.Hour), 10); n != 3 || err != nil {
		t.Errorf("Forget: %d, %v; want 3", n, err)
	}
	if entries, err := s.Audit(ctx, lost.Key, 5); err != nil || len(entries) != 1 {
		t.Errorf("Audit of a forgotten key: %d entries, %v; want 1", len(entries), err)
	}
}

func mine(b intentstore.Begun, err error) error {
	if err == nil && !b.Mine {
		err = errors.New("not mine: " + b.Row.Status.String() + " by " + b.Row.ClaimID.String())
	}
	return err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestChecks compares the words in the CHECK constraints with the code.
func TestChecks(t *testing.T) {
	t.Parallel()
	intentstoretest.Checks(t, os.DirFS("migrations"))
}

// TestChecksHold tries to break every constraint: a CHECK that never says no is a comment.
func TestChecksHold(t *testing.T) {
	t.Parallel()
	dsn := intentstoretest.Postgres(t)
	must(t, postgres.Migrate(t.Context(), dsn))
	s := open(t, postgres.Options{DSN: dsn})
	r := started(1, 1)
	must(t, mine(s.Begin(t.Context(), r)))
	must(t, second(s.Settle(t.Context(), done(r))))
	c := connect(t, dsn)
	for constraint, spoil := range map[string]string{
		"intents_digests":    "guard = '\\x00'",
		"intents_class":      "class = 'harmless'",
		"intents_durability": "durability = 'warm'",
		"intents_status":     "status = 'done', settled_at = NULL",
		"intents_retry":      "retry = 'maybe', status = 'rejected'",
		"intents_may_retry":  "retry = 'same_key'",
		"intents_fence":      "fence = 0",
		"intents_started":    "started_at = NULL",
		"intents_awaiting":   "status = 'awaiting_approval', settled_at = NULL, outcome_status = NULL, outcome_headers = NULL, outcome_body = NULL",
		"intents_parked":     "parked = 'policy'",
		"intents_next_check": "next_check = now()",
		"intents_sealed":     "sealed = '\\x00'",
		"intents_counted":    "checks = -1",
		"intents_unsettled":  "status = 'started', settled_at = NULL",
		"intents_unknown":    "status = 'unknown', settled_at = NULL",
		"intents_settled":    "settled_by = ''",
		"intents_expired":    "expired = true",
		"intents_outcome":    "outcome_status = NULL",
	} {
		_, err := c.Exec(t.Context(), "UPDATE intents SET "+spoil)
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.ConstraintName != constraint {
			t.Errorf("%s: %v, want a violation of %s", spoil, err, constraint)
		}
	}
	var n int
	must(t, c.QueryRow(t.Context(), "SELECT count(*) FROM pg_constraint WHERE conrelid = 'intents'::regclass AND contype = 'c'").Scan(&n))
	if n != 18 {
		t.Errorf("intents has %d CHECK constraints, and the test breaks 18", n)
	}
	_, err := c.Exec(t.Context(), "INSERT INTO executions SELECT key, 0, claim_id, started_at, settled_at, 'rejected', retry, reason, 0, '', '', '' FROM intents")
	if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "23514" {
		t.Errorf("an execution without a fence: %v", err)
	}
	if err := c.QueryRow(t.Context(), "SELECT 1 FROM executions").Scan(&n); !errors.Is(err, pgx.ErrNoRows) {
		t.Error(err)
	}
}
