package once

import (
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/lock"
)

// Answer is what an arrival gets: a receipt or a problem, never both.
type Answer struct {
	Receipt    intent.Receipt
	Replayed   bool
	Decision   intent.Decision
	RetryAfter time.Duration
	Err        *intent.Error
	Arrival    int    // which one of the key this is, at least, as far as this replica knows; 0: none
	Execution  string // traceparent of the execution that was made, joined or met; "": none
	rendered   []byte // the receipt as a replay shows it, where the near cache has it
}

// AppendJSON writes the receipt as this arrival sees it.
func (a *Answer) AppendJSON(b []byte) []byte {
	if a.Replayed && a.rendered != nil {
		return append(b, a.rendered...)
	}
	return a.Receipt.AppendJSON(b, a.Replayed)
}

// notSent is an answer without a receipt: provably nothing was sent and nothing is stored.
func notSent(why, public string, retryAfter time.Duration) Answer {
	err := intent.Errorf(intent.NotSent, nil, public+" Nothing was sent; the same call again is safe.")
	err.Reason = why
	return Answer{Decision: intent.Refused, RetryAfter: max(retryAfter, time.Second), Err: err}
}

// meet answers a call for which something stands on record. joined says that the call
// waited for it while it ran.
func (f *flight) meet(s standing, joined bool) Answer {
	switch s.code {
	case lock.Settled:
		a := Answer{Receipt: *s.receipt, Replayed: true, Decision: intent.Replayed, RetryAfter: s.receipt.RetryAfter}
		if joined {
			a.Decision = intent.Collapsed
		}
		if s.receipt.Expired {
			a.Err = intent.Errorf(intent.ResultExpired, nil, "This action was settled as "+s.receipt.Status.String()+
				" and its result is no longer retained. It is not done again.")
			a.Err.Earlier = s.key
		}
		return a
	case lock.Unknown, lock.Awaiting:
		return Answer{Receipt: *s.receipt, Decision: intent.Pending}
	case lock.Held:
		return f.pending()
	case lock.Mismatch:
		err := intent.Errorf(intent.ConflictArguments, nil, "This key was already used with other arguments. Nothing ran.")
		err.Earlier = s.key
		return Answer{Decision: intent.Mismatch, Err: err, Execution: s.trace}
	case lock.StepConflict:
		err := intent.Errorf(intent.ConflictStep, nil, "This step already used "+f.req.Tool.Name+
			" with other identifying arguments. Nothing ran. If a second action is really meant, the host program sets occurrence.")
		err.Earlier = s.key
		return Answer{Decision: intent.StepConflict, Err: err, Execution: s.trace}
	case lost:
		return s.problem
	}
	panic("once: no such code") // codes are an enumeration of this package and lock
}

// pending is the answer of an arrival that stops waiting: what is known now.
func (f *flight) pending() Answer {
	return Answer{Receipt: *f.latest.Load(), Decision: intent.Pending}
}

// follow is the leader's answer as a follower sees it.
func (a Answer) follow() Answer {
	a.Replayed = a.Err == nil && a.Decision != intent.Pending
	if a.Decision == intent.Executed {
		a.Decision = intent.Collapsed
		if a.Receipt.Status == intent.Unknown {
			a.Replayed = false
		}
	}
	return a
}
