package lock

import "github.com/latchkey-gateway/latchkey/intent"

// Judge says what a claim meets: the code, and the fence to start with when the code is
// Claimed and fresh. standing is nil when there is no record. It is the one meaning of
// Store.Claim; claim.lua says the same.
func Judge(standing *Record, ask Ask) (code Code, fence uint64, fresh bool) {
	if standing == nil {
		return Claimed, 1, true
	}
	r := standing
	same := r.Key == ask.Key && r.Fingerprint == ask.Fingerprint
	if r.Status == intent.Rejected {
		switch {
		case r.Key != ask.Key:
			return Claimed, 1, true
		case same && !r.Durable && !r.Hot:
			// Nobody but this record knows of the rejection yet. A new claim that then
			// failed to begin would be released, and a reported result with it.
			return Settled, 0, false
		case intent.MayRunAgain(r.Status, r.Retry, r.Fingerprint, ask.Fingerprint):
			return Claimed, r.Fence + 1, true
		}
		return Settled, 0, false
	}
	switch {
	case r.Key != ask.Key:
		return StepConflict, 0, false
	case !same:
		return Mismatch, 0, false
	case r.Status == intent.Started && r.ClaimID == ask.ClaimID:
		return Claimed, r.Fence, false
	case r.Status == intent.Started:
		return Held, 0, false
	case r.Status == intent.Unknown:
		return Unknown, 0, false
	case r.Status == intent.AwaitingApproval:
		return Awaiting, 0, false
	}
	return Settled, 0, false
}

// Supersedes says whether a copy of a state may replace the standing record, nil for none.
// It is the one meaning of Store.Settle; settle.lua says the same.
func Supersedes(standing *Record, next Record) bool {
	switch {
	case standing == nil:
		return true
	case standing.Key != next.Key:
		return standing.Status == intent.Rejected
	case standing.Fence != next.Fence:
		return standing.Fence < next.Fence
	}
	return Rank(standing.Status, standing.Durable) < Rank(next.Status, next.Durable)
}

// Rank orders the states of one fence. A record only ever moves to a higher (fence, rank).
func Rank(s intent.Status, durable bool) int {
	switch s {
	case intent.AwaitingApproval:
		return 0
	case intent.Started:
		return 1
	case intent.Unknown:
		return 2
	default:
		if durable {
			return 4
		}
		return 3
	}
}

// Open says whether the record still has a place in the list of Keeper.Overdue: until the
// durable store has acknowledged how it ended.
func (r Record) Open() bool { return !(r.Durable && r.Status.Settled()) }
