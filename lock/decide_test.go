package lock_test

import (
	"testing"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/lock"
)

// Every move of the table grows (fence, rank), so that Settle lets its copy through; and no
// copy of what a move came from is let through after it.
func TestEveryMoveSupersedes(t *testing.T) {
	t.Parallel()
	for _, move := range intent.Moves {
		for _, from := range move.From {
			for _, durable := range []bool{false, true} {
				old := lock.Record{Key: intent.Key{1}, Fence: 3, Status: from, Durable: durable}
				next := lock.Record{Key: old.Key, Fence: old.Fence, Status: move.To, Durable: durable}
				if move.NewFence {
					next.Fence++
				}
				if !lock.Supersedes(&old, next) {
					t.Errorf("%v from %v (durable: %v): the copy would not be written", move.Verb, from, durable)
				}
				if lock.Supersedes(&next, old) {
					t.Errorf("%v from %v (durable: %v): a late copy would undo it", move.Verb, from, durable)
				}
			}
		}
	}
}

// A result that only Redis has is superseded by its durable copy, and by nothing of its
// fence that is weaker.
func TestRankOfDurability(t *testing.T) {
	t.Parallel()
	for _, status := range []intent.Status{intent.Completed, intent.Rejected} {
		hot := lock.Record{Key: intent.Key{1}, Fence: 1, Status: status}
		stored := hot
		stored.Durable = true
		if !lock.Supersedes(&hot, stored) || lock.Supersedes(&stored, hot) || lock.Supersedes(&stored, stored) {
			t.Errorf("%v: durable does not outrank", status)
		}
		if !hot.Open() || stored.Open() {
			t.Errorf("%v: open %v, stored open %v", status, hot.Open(), stored.Open())
		}
	}
}

// What a claim meets, row by row. The conformance suite runs the same against the stores.
func TestJudge(t *testing.T) {
	t.Parallel()
	ask := lock.Ask{Key: intent.Key{1}, Fingerprint: intent.Fingerprint{1}, ClaimID: intent.ClaimID{1}}
	holds := func(change func(*lock.Record)) *lock.Record {
		r := lock.Record{Key: ask.Key, Fingerprint: ask.Fingerprint, ClaimID: intent.ClaimID{9}, Fence: 4,
			Status: intent.Started, Retry: intent.RetrySameKey, Durable: true}
		change(&r)
		return &r
	}
	status := func(s intent.Status) *lock.Record { return holds(func(r *lock.Record) { r.Status = s }) }
	for _, c := range []struct {
		name     string
		standing *lock.Record
		code     lock.Code
		fence    uint64
		fresh    bool
	}{
		{"nothing", nil, lock.Claimed, 1, true},
		{"its own", holds(func(r *lock.Record) { r.ClaimID = ask.ClaimID }), lock.Claimed, 4, false},
		{"its own, lease run out", holds(func(r *lock.Record) { r.ClaimID, r.Lease = ask.ClaimID, -1 }), lock.Claimed, 4, false},
		{"another's", holds(func(*lock.Record) {}), lock.Held, 0, false},
		{"another's, lease run out", holds(func(r *lock.Record) { r.Lease = -1 }), lock.Held, 0, false},
		{"another's, other arguments", holds(func(r *lock.Record) { r.Fingerprint[0] = 2 }), lock.Mismatch, 0, false},
		{"its own claim id, other arguments", holds(func(r *lock.Record) { r.ClaimID, r.Fingerprint[0] = ask.ClaimID, 2 }), lock.Mismatch, 0, false},
		{"another key", holds(func(r *lock.Record) { r.Key[0] = 2 }), lock.StepConflict, 0, false},
		{"its own claim id, another key", holds(func(r *lock.Record) { r.ClaimID, r.Key[0] = ask.ClaimID, 2 }), lock.StepConflict, 0, false},
		{"awaiting", status(intent.AwaitingApproval), lock.Awaiting, 0, false},
		{"unknown", status(intent.Unknown), lock.Unknown, 0, false},
		{"completed", status(intent.Completed), lock.Settled, 0, false},
		{"rejected, same key", status(intent.Rejected), lock.Claimed, 5, true},
		{"rejected, same key, known here alone", holds(func(r *lock.Record) { r.Status, r.Durable = intent.Rejected, false }), lock.Settled, 0, false},
		{"rejected, same key, hot", holds(func(r *lock.Record) { r.Status, r.Durable, r.Hot = intent.Rejected, false, true }), lock.Claimed, 5, true},
		{"rejected, corrected only", holds(func(r *lock.Record) { r.Status, r.Retry = intent.Rejected, intent.RetryCorrected }), lock.Settled, 0, false},
		{"rejected, and this is corrected", holds(func(r *lock.Record) {
			r.Status, r.Retry, r.Fingerprint[0] = intent.Rejected, intent.RetryCorrected, 2
		}), lock.Claimed, 5, true},
		{"rejected, another key", holds(func(r *lock.Record) { r.Status, r.Key[0] = intent.Rejected, 2 }), lock.Claimed, 1, true},
	} {
		code, fence, fresh := lock.Judge(c.standing, ask)
		if code != c.code || fresh != c.fresh || code == lock.Claimed && fence != c.fence {
			t.Errorf("%s: code %d, fence %d, fresh %v; want %d, %d, %v", c.name, code, fence, fresh, c.code, c.fence, c.fresh)
		}
	}
}
