package intentstore

import (
	"bytes"
	"errors"
	"maps"
	"slices"

	"github.com/latchkey-gateway/latchkey/intent"
)

// Repeats says whether the row is what the settlement made of it: then the settlement is a
// repeat whose first reply was lost, and repeating it is success. Status, fence and outcome
// decide; a tombstone has lost its outcome and is told by the time of the settlement.
func Repeats(row *intent.Receipt, s *intent.Settlement) bool {
	if row.Key != s.Key || row.Fence != s.Fence || row.Status != s.Status || row.Retry != s.Retry {
		return false
	}
	if row.Expired {
		return row.SettledAt.Equal(intent.Micros(s.At))
	}
	return SameOutcome(row.Outcome, s.Outcome)
}

// SameOutcome compares two answers byte for byte; nil and an empty body are the same bytes.
func SameOutcome(a, b *intent.Outcome) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.HTTPStatus == b.HTTPStatus && bytes.Equal(a.Body, b.Body) && maps.Equal(a.Headers, b.Headers) &&
		a.Truncated == b.Truncated && a.Length == b.Length && a.SHA256 == b.SHA256
}

// Kept returns the receipt as a store keeps it: times in UTC, cut to microseconds, and
// durable, because whoever reads it from a store reads an acknowledged row.
func Kept(r intent.Receipt) intent.Receipt {
	r.CreatedAt, r.StartedAt, r.SettleBy = intent.Micros(r.CreatedAt), intent.Micros(r.StartedAt), intent.Micros(r.SettleBy)
	r.UnknownSince, r.SettledAt = intent.Micros(r.UnknownSince), intent.Micros(r.SettledAt)
	r.NextCheck, r.NotifyAt = intent.Micros(r.NextCheck), intent.Micros(r.NotifyAt)
	r.Durable = true
	return r
}

// Tombstone returns what is left of a settled row once its result is no longer retained:
// key, fingerprint and status stay for as long as a very late retry may come (DESIGN §4).
func Tombstone(r intent.Receipt) intent.Receipt {
	r.Args, r.Outcome, r.Evidence = []byte("null"), nil, nil
	r.Sealed = nil
	r.Expired = true
	r.Version++
	return r
}

// Ours says whether the row is the one that this Begin asked for, still as it asked: then
// asking again (a lost reply, a resolved commit) is one ask, and the answer is Mine.
func Ours(row, asked *intent.Receipt) bool {
	return row.Key == asked.Key && row.ClaimID == asked.ClaimID && row.Status == asked.Status
}

// Stands says whether the row still is as was: then it may be replaced. A change of its
// recovery leaves the version alone, so the recovery is compared as well; whoever changed it
// meanwhile has not been overwritten by somebody who did not know.
func Stands(row, was *intent.Receipt) bool {
	return row.Status == was.Status && row.Fence == was.Fence && row.Version == was.Version && sameRecovery(&row.Recovery, &was.Recovery)
}

// Replaced says whether the row is what this very replacement made of it: then the
// replacement is a repeat whose first reply was lost. A move tells itself by its claim, its
// version and its time. A change of the recovery alone does not: another may have made the
// same one, which counts only for whoever knows that its own may have been committed.
func Replaced(row, was, now *intent.Receipt, doubted bool) bool {
	return Stands(row, now) && row.ClaimID == now.ClaimID && row.SettledAt.Equal(now.SettledAt) && row.SettledBy == now.SettledBy &&
		row.Reason == now.Reason && (doubted || now.Version != was.Version)
}

func sameRecovery(a, b *intent.Recovery) bool {
	return a.NextCheck.Equal(b.NextCheck) && a.NotifyAt.Equal(b.NotifyAt) && a.Parked == b.Parked && a.Checks == b.Checks &&
		a.Notices == b.Notices && a.Doubt == b.Doubt && slices.Equal(a.ApprovedBy, b.ApprovedBy)
}

// Replacement is now as a store keeps it in the place of was: what names the intent, and
// when it came, never changes, and without a move nothing but recovery and evidence does.
func Replacement(was, now intent.Receipt) intent.Receipt {
	now = Kept(now)
	if now.Version == was.Version {
		recovery, evidence := now.Recovery, now.Evidence
		now = Kept(was)
		now.Recovery, now.Evidence = recovery, evidence
		return now
	}
	now.Fingerprint, now.Args, now.Attempts, now.CreatedAt = was.Fingerprint, was.Args, was.Attempts, intent.Micros(was.CreatedAt)
	now.Tool, now.Class, now.Durability = was.Tool, was.Class, was.Durability
	now.RunID, now.StepID, now.Occurrence = was.RunID, was.StepID, was.Occurrence
	return now
}

// Superseded returns the execution of was that now no longer is about; false when there is
// none.
func Superseded(was, now *intent.Receipt) (intent.Execution, bool) {
	e, ok := was.Execution()
	return e, ok && now.Fence != was.Fence
}

// Executions returns a key's executions, oldest first: those that ended before the current
// one was begun, then the row's own.
func Executions(row *intent.Receipt, ended []intent.Execution) []intent.Execution {
	if current, ok := row.Execution(); ok {
		return append(ended, current)
	}
	return ended
}

// ErrAmbiguous: a commit was neither acknowledged nor refused, and asking again did not
// tell within the time-out. Begin's caller sends nothing; Settle's asks again later.
var ErrAmbiguous = errors.New("the outcome of the commit is not known")
