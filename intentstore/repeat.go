package intentstore

import (
	"bytes"
	"errors"
	"maps"

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
	r.Durable = true
	return r
}

// Tombstone returns what is left of a settled row once its result is no longer retained:
// key, fingerprint and status stay for as long as a very late retry may come (DESIGN §4).
func Tombstone(r intent.Receipt) intent.Receipt {
	r.Args, r.Outcome, r.Evidence = []byte("null"), nil, nil
	r.Expired = true
	r.Version++
	return r
}

// Ours says whether the row is the one that this Begin asked for, still as it asked: then
// asking again (a lost reply, a resolved commit) is one ask, and the answer is Mine.
func Ours(row, asked *intent.Receipt) bool {
	return row.Key == asked.Key && row.ClaimID == asked.ClaimID && row.Status == asked.Status
}

// Executions returns a key's executions, oldest first: those that ended before the current
// one was begun, then the row's own.
func Executions(row *intent.Receipt, ended []intent.Execution) []intent.Execution {
	current, ok := row.Execution()
	for _, e := range ended {
		if e.Fence == current.Fence { // waiting for approval to act again: not begun yet
			ok = false
		}
	}
	if !ok {
		return ended
	}
	return append(ended, current)
}

// ErrAmbiguous: a commit was neither acknowledged nor refused, and asking again did not
// tell within the time-out. Begin's caller sends nothing; Settle's asks again later.
var ErrAmbiguous = errors.New("the outcome of the commit is not known")
