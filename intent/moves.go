package intent

import (
	"slices"
	"time"
)

// Verb names a move between statuses. Stores and Lua scripts apply these and no others.
type Verb uint8

const (
	_         Verb = iota
	Begin          // write ahead of a first execution
	Hold           // write ahead, waiting for a person; the claim's fence waits with it
	Approve        // a person approved these exact arguments
	Decline        // a person declined, or nobody answered in time
	Complete       // evidence: it happened
	Reject         // evidence: it did not happen
	Lose           // the lease ran out, or the answer does not tell
	Again          // a rejected key acts again: same call where retry is same_key, or corrected
	Reexecute      // an unknown key acts again: only with a reason that makes it safe (DESIGN §5)
)

var verbNames = names{"", "begin", "hold", "approve", "decline", "complete", "reject", "lose", "again", "reexecute"}

// String returns the verb's word.
func (v Verb) String() string { return verbNames.text(uint8(v)) }

// Rule is one row of the moves table.
type Rule struct {
	Verb     Verb
	From     []Status // empty: the key must not exist
	To       Status
	NewFence bool // the move is a new claim's: fence + 1
}

// Moves is the whole table of DESIGN §3. The SQL stores take their FROM lists from it, the
// CHECK constraints and the Lua scripts repeat it, and tests compare all of them with it.
var Moves = []Rule{
	{Verb: Begin, To: Started, NewFence: true},
	{Verb: Hold, To: AwaitingApproval, NewFence: true},
	{Verb: Approve, From: []Status{AwaitingApproval}, To: Started},
	{Verb: Decline, From: []Status{AwaitingApproval}, To: Rejected},
	{Verb: Complete, From: []Status{Started, Unknown}, To: Completed},
	{Verb: Reject, From: []Status{Started, Unknown}, To: Rejected},
	{Verb: Lose, From: []Status{Started}, To: Unknown},
	{Verb: Again, From: []Status{Rejected}, To: Started, NewFence: true},
	{Verb: Reexecute, From: []Status{Unknown}, To: Started, NewFence: true},
}

// RuleOf returns the table's row for a verb.
func RuleOf(v Verb) Rule {
	i := slices.IndexFunc(Moves, func(r Rule) bool { return r.Verb == v })
	if i < 0 {
		panic("intent: no such verb")
	}
	return Moves[i]
}

// MayRunAgain says whether a call with fingerprint f may act on a rejected key: the same
// call where the rejection said same_key, a corrected one always (DESIGN §3).
func MayRunAgain(status Status, retry Retry, stored, f Fingerprint) bool {
	return status == Rejected && (retry == RetrySameKey || stored != f)
}

// Settlement is a move out of started or unknown. Only the constructors below make one, so
// nobody sets a status by hand. A store applies it only if the row's fence is Fence and its
// status is in the rule's From list; else it changes nothing and returns ErrStale.
type Settlement struct {
	Verb       Verb
	Key        Key
	Guard      Guard
	Fence      uint64
	Status     Status
	Retry      Retry
	RetryAfter time.Duration
	Reason     string
	Outcome    *Outcome
	SettledBy  string
	Evidence   []byte
	At         time.Time
	Unsent     bool // proven not sent: the execution is not counted
	Plan       Plan // what happens next, where the move leads to unknown

	// Of is the receipt that the move was made of. A store that finds the row still at its
	// version may answer with Of.Apply instead of reading the row back.
	Of *Receipt
}

// CompleteMove: the downstream's answer says that it happened.
func (r *Receipt) CompleteMove(by string, out *Outcome, at time.Time) Settlement {
	return Settlement{Verb: Complete, Of: r, Key: r.Key, Guard: r.Guard, Fence: r.Fence, Status: Completed, Retry: RetryNever,
		Outcome: out, SettledBy: by, At: Micros(at)}
}

// RejectMove: it did not happen. retry is same_key or corrected; unsent says that provably
// no byte of the request was written, and then by is "gateway" and out nil.
func (r *Receipt) RejectMove(by string, retry Retry, after time.Duration, reason string, out *Outcome, unsent bool, at time.Time) Settlement {
	return Settlement{Verb: Reject, Of: r, Key: r.Key, Guard: r.Guard, Fence: r.Fence, Status: Rejected, Retry: retry, RetryAfter: after,
		Reason: reason, Outcome: out, SettledBy: by, Unsent: unsent, At: Micros(at)}
}

// LoseMove: nobody can say. out holds the answer that did not tell, if there was one, and
// next says how it will be found out.
func (r *Receipt) LoseMove(reason string, out *Outcome, next Plan, at time.Time) Settlement {
	return Settlement{Verb: Lose, Of: r, Key: r.Key, Guard: r.Guard, Fence: r.Fence, Status: Unknown, Retry: RetryNever,
		Reason: reason, Outcome: out, Plan: next, At: Micros(at)}
}

// Apply returns the receipt after the move, or ErrStale when fence or status moved
// meanwhile. It is the one meaning of a settlement; the stores' SQL says the same.
func (r Receipt) Apply(s Settlement) (Receipt, error) {
	if r.Fence != s.Fence || r.Key != s.Key || !slices.Contains(RuleOf(s.Verb).From, r.Status) {
		return r, ErrStale
	}
	r.Version++
	r.Status, r.Retry, r.RetryAfter, r.Reason = s.Status, s.Retry, s.RetryAfter, s.Reason
	r.Outcome, r.SettledBy, r.Evidence = s.Outcome, s.SettledBy, s.Evidence
	r.Recovery = r.Recovery.then(s.Plan)
	if s.Status == Unknown {
		r.UnknownSince = s.At
	} else {
		r.SettledAt, r.Sealed = s.At, nil
	}
	if s.Unsent {
		r.Executions--
	}
	return r, nil
}

// ApplyAgain returns the receipt that begins another execution of a rejected key, on
// behalf of the caller described by next (its claim, arguments and trace), or ErrStale when
// the key is not rejected or its rejection does not allow this call.
func (r Receipt) ApplyAgain(next Receipt) (Receipt, error) {
	if r.Key != next.Key || !MayRunAgain(r.Status, r.Retry, r.Fingerprint, next.Fingerprint) {
		return r, ErrStale
	}
	next.Fence, next.Version = r.Fence+1, r.Version+1
	next.Executions, next.Attempts, next.CreatedAt, next.Doubt = r.Executions, r.Attempts, r.CreatedAt, r.Doubt
	if next.Status == Started {
		next.Executions++
	}
	return next, nil
}

// RestateMove repeats the move that made this settled or unknown copy, to be applied to a
// row that has not heard of it yet.
func (r *Receipt) RestateMove() Settlement {
	switch r.Status {
	case Completed:
		s := r.CompleteMove(r.SettledBy, r.Outcome, r.SettledAt)
		s.Evidence = r.Evidence
		return s
	case Rejected:
		// Fewer executions than fences alone would also be true of a sent execution that
		// follows an unsent one; but only the gateway itself knows that it sent nothing.
		unsent := r.SettledBy == "gateway" && r.Outcome == nil && r.Executions < int(r.Fence)
		s := r.RejectMove(r.SettledBy, r.Retry, r.RetryAfter, r.Reason, r.Outcome, unsent, r.SettledAt)
		s.Evidence = r.Evidence
		return s
	}
	return r.LoseMove(r.Reason, r.Outcome, r.Plan, r.UnknownSince)
}

// Beginning is the receipt as it was when its current execution began.
func (r Receipt) Beginning() Receipt {
	r.Status, r.Retry, r.RetryAfter, r.Reason = Started, RetrySameKey, 0, ""
	r.Outcome, r.Evidence, r.SettledBy = nil, nil, ""
	r.UnknownSince, r.SettledAt = time.Time{}, time.Time{}
	r.Recovery = Recovery{}
	return r
}
