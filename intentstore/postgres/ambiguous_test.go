package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore/intentstoretest"
	"github.com/latchkey-gateway/latchkey/intentstore/postgres"
)

var at = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// started is the write-ahead of key n by the given claim.
func started(n, claim byte) intent.Receipt {
	return intent.Receipt{
		Key: intent.Key{0: n, 31: 1}, Guard: intent.Guard{0: n, 31: 1}, Fingerprint: intent.Fingerprint{1}, ClaimID: intent.ClaimID{0: n, 1: claim, 15: 1},
		Tenant: "acme", Tool: "send_invoice_email", Class: intent.Effectful, Durability: intent.Durable, RunID: "run", StepID: "1", Args: []byte(`{}`),
		Status: intent.Started, Retry: intent.RetrySameKey, Fence: 1, Version: 1, Executions: 1, CreatedAt: at, StartedAt: at,
	}
}

// awaiting is r before anybody approved it.
func awaiting(r intent.Receipt) intent.Receipt {
	r.Status, r.Retry, r.Executions, r.StartedAt = intent.AwaitingApproval, intent.RetryNever, 0, time.Time{}
	return r
}

func entry(a intent.Action, was, now intent.Receipt) *intent.Entry {
	return &intent.Entry{Key: was.Key, Tenant: was.Tenant, Tool: was.Tool, At: at, Actor: "ann", Action: a, Before: was.Standing(), After: now.Standing()}
}

func done(r intent.Receipt) intent.Settlement {
	return r.CompleteMove("downstream", &intent.Outcome{HTTPStatus: 200, Body: []byte("done")}, at)
}

// TestAmbiguousCommit breaks the connection at every statement of every verb, before it
// reaches the server and after, and wants the right answer all the same.
func TestAmbiguousCommit(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dsn := intentstoretest.Postgres(t)
	if err := postgres.Migrate(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	direct := open(t, postgres.Options{DSN: dsn})
	p, through := newProxy(t, dsn)
	s := open(t, postgres.Options{DSN: through, Timeout: 20 * time.Second})

	audits := map[string]bool{"approve": true, "reexecute": true, "check": true}
	n := byte(0)
	for v, verb := range []struct {
		name string
		// prepare makes the row that the verb meets, run is the verb through the proxy.
		prepare func(intent.Receipt) error
		run     func(intent.Receipt) error
		want    intent.Status
		fence   uint64
	}{
		{"begin", nil, func(r intent.Receipt) error { return mine(s.Begin(ctx, r)) }, intent.Started, 1},
		{"begin again", func(r intent.Receipt) error { return mine(direct.Begin(ctx, r)) },
			func(r intent.Receipt) error { return mine(s.Begin(ctx, r)) }, intent.Started, 1},
		{"again", func(r intent.Receipt) error {
			r.ClaimID = intent.ClaimID{9}
			return errors.Join(mine(direct.Begin(ctx, r)),
				second(direct.Settle(ctx, r.RejectMove("downstream", intent.RetrySameKey, 0, "no", nil, false, at))))
		}, func(r intent.Receipt) error { return mine(s.Begin(ctx, r)) }, intent.Started, 2},
		{"settle", func(r intent.Receipt) error { return mine(direct.Begin(ctx, r)) },
			func(r intent.Receipt) error { return second(s.Settle(ctx, done(r))) }, intent.Completed, 1},
		{"settle again", func(r intent.Receipt) error {
			return errors.Join(mine(direct.Begin(ctx, r)), second(direct.Settle(ctx, done(r))))
		}, func(r intent.Receipt) error { return second(s.Settle(ctx, done(r))) }, intent.Completed, 1},
		{"archive", nil, func(r intent.Receipt) error {
			r, _ = r.Apply(done(r))
			return second(s.Archive(ctx, r))
		}, intent.Completed, 1},
		{"approve", func(r intent.Receipt) error { return mine(direct.Begin(ctx, awaiting(r))) }, func(r intent.Receipt) error {
			was := awaiting(r)
			now, err := was.Approve("ann", intent.Opening{ClaimID: r.ClaimID, At: at, SettleBy: at})
			return errors.Join(err, second(s.Replace(ctx, was, now, entry(intent.ActionApprove, was, now))))
		}, intent.Started, 1},
		{"reexecute", func(r intent.Receipt) error {
			r.ClaimID = intent.ClaimID{9}
			return errors.Join(mine(direct.Begin(ctx, r)), second(direct.Settle(ctx, r.LoseMove("timeout", nil, intent.Plan{}, at))))
		}, func(r intent.Receipt) error {
			was, err := direct.Get(ctx, r.Key)
			now, err2 := was.Reexecute(intent.Opening{ClaimID: r.ClaimID, At: at, SettleBy: at})
			return errors.Join(err, err2, second(s.Replace(ctx, was, now, entry(intent.ActionRetry, was, now))))
		}, intent.Started, 2},
		{"check", func(r intent.Receipt) error {
			return errors.Join(mine(direct.Begin(ctx, r)), second(direct.Settle(ctx, r.LoseMove("timeout", nil, intent.Plan{}, at))))
		}, func(r intent.Receipt) error {
			was, err := direct.Get(ctx, r.Key)
			now := was.Checked(nil, intent.Plan{NextCheck: at})
			return errors.Join(err, second(s.Replace(ctx, was, now, entry(intent.ActionLookup, was, now))))
		}, intent.Unknown, 1},
	} {
		for _, how := range []cut{asked, answered, unanswered} {
			for statement := 1; ; statement++ {
				n++
				r := started(n, 1)
				r.Key[1], r.Guard[1] = byte(v), byte(v)
				if verb.prepare != nil {
					must(t, verb.prepare(r))
				}
				// Warm the statements up on a whole connection, so that counting them means
				// the same every time.
				n++
				warm := started(n, 1)
				warm.Key[1], warm.Guard[1] = byte(v), byte(v)
				if verb.prepare != nil {
					must(t, verb.prepare(warm))
				}
				must(t, verb.run(warm))

				p.cutAt(statement, how)
				err := verb.run(r)
				cut := !p.armed()
				p.cutAt(0, how)
				what := fmt.Sprintf("%s, %s at statement %d", verb.name, cutNames[how], statement)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				row, err := direct.Get(ctx, r.Key)
				if err != nil || row.Status != verb.want || row.Fence != verb.fence || row.ClaimID != r.ClaimID {
					t.Errorf("%s: the row is %s, fence %d, by %s, %v", what, row.Status, row.Fence, row.ClaimID, err)
				}
				if _, _, executions, err := direct.Attempts(ctx, r.Key, 1); err != nil || len(executions) != int(verb.fence) {
					t.Errorf("%s: %d executions, %v; want %d", what, len(executions), err, verb.fence)
				}
				if entries, err := direct.Audit(ctx, r.Key, 10); err != nil || len(entries) > 1 || len(entries) == 0 && audits[verb.name] {
					t.Errorf("%s: %d entries, %v; want each once", what, len(entries), err)
				}
				if cut && how == answered && statement == 1 && barriers(t, dsn, r.Key) == 0 && verb.name != "again" {
					t.Errorf("%s: answered without a barrier write", what)
				}
				if !cut { // the verb has fewer statements than that
					break
				}
			}
		}
	}
	if n := p.cancelled(); n != 0 {
		t.Errorf("%d cancel requests were sent", n)
	}
}

func second[T any](_ T, err error) error { return err }

func barriers(t *testing.T, dsn string, k intent.Key) (n int) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := c.QueryRow(t.Context(), "SELECT barriers FROM intents WHERE key = $1", k[:]).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
