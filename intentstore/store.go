// Package intentstore answers "what was meant, and what came of it?". It is the arbiter:
// a row written here ahead of the effect is the only permission to act, and a result
// acknowledged here is never lost. Redis (package lock) only makes it fast.
package intentstore

import (
	"context"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
)

// Begun is what the write-ahead found.
type Begun struct {
	// Mine: the row is this claim's, in started (or awaiting_approval), durable, and
	// nobody else may act. Otherwise Row is what stands in the way.
	Mine bool
	// Row is the row as it is now. Row.Key differs from the asked key when another key
	// holds the guard: a step conflict.
	Row intent.Receipt
}

// Store keeps one row per key. Intent and settle statements MUST NOT run under a context
// that a caller can cancel (pgx would send a CancelRequest, and PostgreSQL then stops
// waiting for its synchronous standby); implementations bound them by their own timeout,
// and ctx carries values only; a caller that stops waiting stops nothing. What no row can
// hold is refused with a *RowError and costs no other row its place in a batch. Any other
// error means that the store could not be asked, or that the outcome stayed ambiguous until
// the time-out (ErrAmbiguous): the caller MUST then treat Begin as "not mine" and send
// nothing.
type Store interface {
	// Begin writes r (made by the caller, status started or awaiting_approval, with claim
	// id and fence) ahead of the effect. Keys are unique; guards are unique among rows that
	// are not rejected. A rejected row that allows this call (intent.MayRunAgain) is moved
	// with intent.Receipt.ApplyAgain: fence + 1, and its ended execution is kept in the
	// executions table. Begin MUST be idempotent per claim id: asked again with the same
	// one it answers Mine while the row is still started by that claim. Mine MUST only be
	// answered for an acknowledged commit; an ambiguous one is resolved, never guessed.
	Begin(ctx context.Context, r intent.Receipt) (Begun, error)

	// Settle applies a move conditionally on (status, fence), with the meaning of
	// intent.Receipt.Apply, and returns the row that stands afterwards. When the row moved
	// meanwhile it changes nothing and returns the row with intent.ErrStale; a repeat of a
	// settlement that was applied (same fence, status and outcome: a lost reply) is
	// success. intent.ErrNone when there is no such row.
	Settle(ctx context.Context, s intent.Settlement) (intent.Receipt, error)

	// Archive stores a receipt that had no row (a hot tool's) if there is none, and returns
	// the row that stands. It never changes an existing row. Where another key holds the
	// guard nothing is stored, and the answer is that key's row with intent.ErrStale.
	Archive(ctx context.Context, r intent.Receipt) (intent.Receipt, error)

	// Get reads a row; intent.ErrNone when there is none.
	Get(ctx context.Context, k intent.Key) (intent.Receipt, error)

	// List returns rows newest first and the cursor of the next page, "" at the end.
	// intent.ErrBadCursor when the cursor is not one of ours, a *RowError when the query
	// names no tenant or holds text that no row can.
	List(ctx context.Context, q Query) (rows []intent.Receipt, next string, err error)
}

// Query narrows List. Empty fields do not narrow.
type Query struct {
	Tenant        string // MUST be set
	RunID, StepID string
	Tool          string
	Status        intent.Status
	Since, Until  time.Time // by CreatedAt, since inclusive, until exclusive
	Attention     bool      // only what a person may have to see to (intent.Receipt.Attention)
	Q             string    // words of the arguments, result, run or step; a key or its prefix; a trace id
	Limit         int       // 1..200
	Cursor        string
}

// Keeper is the housekeeping side of an implementation.
type Keeper interface {
	// Overdue returns started rows begun before the given time, oldest first.
	Overdue(ctx context.Context, startedBefore time.Time, limit int) ([]intent.Receipt, error)
	// Expire turns terminal rows settled before the given time into tombstones (result,
	// arguments and evidence go; key, fingerprint and status stay) and says how many.
	Expire(ctx context.Context, settledBefore time.Time, limit int) (int, error)
	// Forget deletes tombstones settled before the given time. A database role that may
	// not delete keeps them: that is no error, and the count is 0.
	Forget(ctx context.Context, settledBefore time.Time, limit int) (int, error)
	// Ready reports whether an intent could be written now.
	Ready(ctx context.Context) error
	// Close ends the connections after pending batches; idempotent.
	Close() error
}

// Journal keeps the arrivals. It is written in batches off the hot path.
type Journal interface {
	// Record stores attempts; repeating a batch after an error may store some twice.
	Record(ctx context.Context, attempts []intent.Attempt) error
	// Attempts returns a key's arrivals, oldest first (at most limit of the newest), how
	// many there are in all, and its executions, oldest first, the current one last.
	Attempts(ctx context.Context, k intent.Key, limit int) ([]intent.Attempt, int, []intent.Execution, error)
}
