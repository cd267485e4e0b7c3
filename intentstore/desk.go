package intentstore

import (
	"context"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
)

// Desk is the side of a store that turns unknown into knowledge: for the reconciler and for
// the people who decide. It is slower than Store, and every change is audited.
type Desk interface {
	// Replace writes now in the place of was, and the entry with it (nil: none), in one
	// transaction, if the row still has was's status, fence, version and Recovery (NextCheck
	// and NotifyAt above all); else nothing changes and the answer is the row that stands with
	// intent.ErrStale. intent.ErrNone when there is no such row, a *RowError for what
	// intent.MayReplace refuses or no row can hold. What names the intent, from fingerprint to
	// arguments, stays as was has it, and without a move (the same version) so does all but
	// Recovery and Evidence. A current execution of was that now is another one is
	// kept in the executions table. Nil MUST only be answered for an acknowledged commit; an
	// ambiguous one is resolved as for Begin (the row reads as now does: it was ours), so that
	// a caller may act on it. Taking NextCheck on is how a reconciler takes a row: whoever
	// wins has until then.
	//
	// Asked again after a lost reply, a move is success and its entry is not written twice. A
	// change of the recovery alone is then ErrStale: it could just as well be that another
	// took the row, and there must be one winner.
	Replace(ctx context.Context, was, now intent.Receipt, entry *intent.Entry) (intent.Receipt, error)

	// Due returns rows whose NextCheck or NotifyAt is at or before the given time, the
	// longest overdue first.
	Due(ctx context.Context, now time.Time, limit int) ([]intent.Receipt, error)

	// Audit returns a key's entries, oldest first, at most limit of the newest.
	Audit(ctx context.Context, k intent.Key, limit int) ([]intent.Entry, error)

	// Changes returns what has happened to a tenant's receipts after the mark, in order, and
	// the mark to go on from. The zero mark is "from now on": no changes and a mark. It is
	// for people who watch: what two replicas commit out of order may come late or twice.
	Changes(ctx context.Context, tenant string, after Mark, limit int) ([]Change, Mark, error)

	// Stats counts a tenant's arrivals, decisions and open receipts.
	Stats(ctx context.Context, q StatsQuery) (Stats, error)
}

// Mark is a place in the stream of changes.
type Mark struct{ Attempt, Entry int64 }

// Change is one arrival or one entry of the audit.
type Change struct {
	At   time.Time
	Key  intent.Key
	Tool string
	Kind string // "attempt" or "audit"
	Word string // the attempt's decision or the entry's action
}

// StatsQuery asks for counts from Since (inclusive) to Until (exclusive), in steps.
type StatsQuery struct {
	Tenant       string // MUST be set
	Since, Until time.Time
	Step         time.Duration // whole minutes, 1 minute at least
}

// Stats are numbers for people. What happened is counted by the minute of its arrival or
// entry, in a table of its own that the journal and the audit keep up, so that reading it
// costs nothing that grows with the calls.
type Stats struct {
	Counts []Count
	Open   []Open // as it is now, whatever the query's times
}

// Kinds of counts.
const (
	CountAttempt   = "attempt"   // an arrival, by its decision; at the time of the arrival
	CountAudit     = "audit"     // an entry, by its action
	CountExecution = "execution" // one that ended unknown; counted by Settle when it is lost
)

// Count is how often a word (an attempt's decision, an entry's action, or "unknown" for an
// execution that ended so) was counted in the step that begins at At. Steps are counted from
// the minute of StatsQuery.Since. A store that loses a reply may miss a count or count twice.
type Count struct {
	At   time.Time
	Tool string
	Kind string // of those above
	Word string
	N    int64
}

// Open are receipts of a tool that wait. Oldest is since when: unknown_since of unknown and
// parked ones, created_at of the others.
type Open struct {
	Tool   string
	What   string // "unknown", "parked" (also counted under unknown), "awaiting_approval", "doubt"
	N      int64
	Oldest time.Time
}
