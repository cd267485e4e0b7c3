package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore/intentstoretest"
	"github.com/latchkey-gateway/latchkey/intentstore/postgres"
)

// TestDecisionOfACallerThatLeft: whoever asked for a change and went away ends neither the
// statement nor the wait for its acknowledgement, so what follows from it is not left undone.
func TestDecisionOfACallerThatLeft(t *testing.T) {
	t.Parallel()
	dsn := intentstoretest.Postgres(t)
	if err := postgres.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	s := open(t, postgres.Options{DSN: dsn, Timeout: 20 * time.Second})
	was := awaiting(started(1, 1))
	must(t, mine(s.Begin(t.Context(), was)))
	now, err := was.Approve("ann", intent.Opening{ClaimID: intent.ClaimID{7}, At: at, SettleBy: at})
	must(t, err)

	blocker := connect(t, dsn)
	exec(t, blocker, "BEGIN")
	exec(t, blocker, "UPDATE intents SET barriers = barriers + 1")
	ctx, leave := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() { answer <- second(s.Replace(ctx, was, now, entry(intent.ActionApprove, was, now))) }()
	watch := connect(t, dsn)
	until(t, watch, "the change waits", blocked)
	leave()
	for range 20 { // round trips in which a statement that heard of it would be given up
		until(t, watch, "the change still waits", blocked)
	}
	exec(t, blocker, "COMMIT")
	if err := <-answer; err != nil {
		t.Errorf("the change was given up with its caller: %v", err)
	}
	if row, err := s.Get(t.Context(), was.Key); err != nil || row.Status != intent.Started || row.ClaimID != (intent.ClaimID{7}) {
		t.Errorf("%s, %v", row.Status, err)
	}
}
