package console

import (
	"context"
	"time"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// Reader answers what is on record. Errors are *intent.Error, or intent.ErrNone,
// intent.ErrBadCursor and failures of the store.
type Reader interface {
	Receipt(ctx context.Context, tenant string, key intent.Key) (intent.Receipt, error)
	List(ctx context.Context, q intentstore.Query) ([]intent.Receipt, string, error)
	// Attempts MUST only be asked for a key whose receipt the tenant may read.
	Attempts(ctx context.Context, key intent.Key, limit int) ([]intent.Attempt, int, []intent.Execution, error)
	Audit(ctx context.Context, tenant string, key intent.Key, limit int) ([]intent.Entry, error)
}

// Watcher answers how things go.
type Watcher interface {
	Stats(ctx context.Context, q intentstore.StatsQuery) (intentstore.Stats, error)
	Changes(ctx context.Context, tenant string, after intentstore.Mark, limit int) ([]intentstore.Change, intentstore.Mark, error)
	Degraded() bool // Redis cannot be asked
}

// Decider carries out what a person decided. Each MUST refuse with PreconditionFailed when
// the order names another version than the one that stands, with StateConflict when the
// status does not allow it, and MUST take the same order of the same person twice as one.
type Decider interface {
	Approve(ctx context.Context, o once.Order, f intent.Fingerprint, wait time.Duration) (intent.Receipt, error)
	Decline(ctx context.Context, o once.Order) (intent.Receipt, error)
	Resolve(ctx context.Context, o once.Order, how once.Resolution) (intent.Receipt, error)
	KeepWaiting(ctx context.Context, o once.Order, next time.Duration) (intent.Receipt, error)
	Reexecute(ctx context.Context, o once.Order, wait time.Duration) (intent.Receipt, error)
	Reconcile(ctx context.Context, o once.Order) (intent.Receipt, error)
	Acknowledge(ctx context.Context, o once.Order) (intent.Receipt, error)
}

// Engine is what *once.Engine has for the console.
type Engine interface {
	Reader
	Watcher
	Decider
}

// Breakers is what *downstream.Client has for the console.
type Breakers interface {
	BreakerState(downstream string) string // closed, half-open or open
	InFlight(downstream string) int
}

var (
	_ Engine   = (*once.Engine)(nil)
	_ Breakers = (*downstream.Client)(nil)
)
