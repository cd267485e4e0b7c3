package intent

import (
	"slices"
	"time"
)

// Recovery is what goes on with a receipt that waits: for a lookup, for a safe retry, or
// for a person. A change of it alone is no move: it leaves status, fence and version as they
// are, so that a person's decision is not refused because a lookup found nothing meanwhile.
type Recovery struct {
	Plan
	Checks     int      // lookups and retries since it became unknown
	ApprovedBy []string // credential ids, while more than one person must approve
	Doubt      Doubt    // it may have happened twice, or otherwise than the status says
	Notices    int      // tries made to tell people
}

// Plan is what happens next.
type Plan struct {
	NextCheck time.Time // unknown: the next lookup or retry; awaiting approval: it expires. Zero: none
	Parked    Parking   // why only a person can go on; 0: not parked
	NotifyAt  time.Time // when people are told; zero: there is nothing to tell them
}

// then is the recovery after a move with this plan.
func (c Recovery) then(p Plan) Recovery {
	c.Plan, c.Notices = p, 0
	return c
}

// Parking is why nobody but a person goes on with an unknown key.
type Parking uint8

const (
	_              Parking = iota
	ParkedByPolicy         // the tool says so: on_unknown: park
	ParkedGaveUp           // give_up_after passed, and no lookup proved anything
	ParkedTries            // re-executed as often as it may be
	ParkedWindow           // the downstream may have forgotten the key that it dedupes on
	ParkedChanged          // the tool's request is not what it was: a retry would not be the same bytes
	ParkedNoTool           // the tool is not in the config any more, or has no policy any more
	ParkedNoArgs           // its arguments were redacted and not kept
)

var parkingNames = names{"", "policy", "gave_up", "tries", "window_passed", "request_changed", "no_tool", "arguments_not_kept"}

// String returns the word used in receipts and notifications; "" while not parked.
func (p Parking) String() string { return optional(parkingNames, uint8(p)) }

// ParseParking reads Parking.String.
func ParseParking(s string) (Parking, error) {
	return parseOptional[Parking](parkingNames, "parked", s)
}

// Doubt is why a person should look at a receipt that may not be what it says.
type Doubt uint8

const (
	_                 Doubt = iota
	DoubtLateAnswer         // an execution answered "done" after a later one had been started: possibly a double
	DoubtContradicted       // the downstream's late answer says the opposite of how it was settled
)

var doubtNames = names{"", "possible_double", "contradicted"}

// String returns the word used in receipts and notifications; "" where there is no doubt.
func (d Doubt) String() string { return optional(doubtNames, uint8(d)) }

// ParseDoubt reads Doubt.String.
func ParseDoubt(s string) (Doubt, error) { return parseOptional[Doubt](doubtNames, "doubt", s) }

// Attention says whether a person may have to do something about it.
func (r *Receipt) Attention() bool {
	return !r.Expired && (r.Status == Unknown || r.Status == AwaitingApproval || r.Doubt != 0)
}

// Opening is who begins an execution, and until when it should have ended.
type Opening struct {
	ClaimID         ClaimID
	At, SettleBy    time.Time
	Template        string
	Traceparent     string
	Replica, Region string
}

func (r Receipt) open(o Opening) Receipt {
	r.Status, r.Retry, r.RetryAfter, r.Reason = Started, RetrySameKey, 0, ""
	r.Outcome, r.Evidence, r.SettledBy, r.UnknownSince = nil, nil, "", time.Time{}
	r.Plan, r.Notices = Plan{}, 0
	r.ClaimID, r.StartedAt, r.SettleBy = o.ClaimID, Micros(o.At), Micros(o.SettleBy)
	r.Template, r.Traceparent, r.Replica, r.Region = o.Template, o.Traceparent, o.Replica, o.Region
	r.Executions++
	r.Version++
	return r
}

// Approve returns the receipt whose execution begins because a person approved it; ErrStale
// when it does not await approval.
func (r Receipt) Approve(by string, o Opening) (Receipt, error) {
	if r.Status != AwaitingApproval {
		return r, ErrStale
	}
	r.ApprovedBy = append(slices.Clip(r.ApprovedBy), by)
	return r.open(o), nil
}

// Endorse returns the receipt with one of several approvals; ErrStale when it does not await
// approval or the same person endorsed it before.
func (r Receipt) Endorse(by string) (Receipt, error) {
	if r.Status != AwaitingApproval || slices.Contains(r.ApprovedBy, by) {
		return r, ErrStale
	}
	r.ApprovedBy = append(slices.Clip(r.ApprovedBy), by)
	r.Version++
	return r, nil
}

// Reasons of a receipt that was declined.
const (
	ReasonDeclined = "declined"
	ReasonExpired  = "approval_expired"
)

// Decline returns the receipt that a person declined (reason ReasonDeclined, by "operator"),
// or that nobody approved in time (ReasonExpired, by "gateway"). Nothing was sent.
func (r Receipt) Decline(by, reason string, evidence []byte, at time.Time) (Receipt, error) {
	if r.Status != AwaitingApproval {
		return r, ErrStale
	}
	r.Status, r.Retry, r.Reason = Rejected, RetryCorrected, reason
	r.SettledBy, r.SettledAt, r.Evidence, r.Sealed = by, Micros(at), evidence, nil
	r.Plan, r.Notices = Plan{}, 0
	r.Version++
	return r, nil
}

// Reexecute returns the receipt of an unknown key that acts again, at the next fence. The
// caller MUST have one of the reasons of DESIGN §5.
func (r Receipt) Reexecute(o Opening) (Receipt, error) {
	if r.Status != Unknown {
		return r, ErrStale
	}
	r.Fence++
	r.Checks++
	return r.open(o), nil
}

// Wait returns the receipt with another plan: a check taken, put off, or given up.
func (r Receipt) Wait(p Plan) Receipt {
	r.Plan = p
	r.NextCheck, r.NotifyAt = Micros(p.NextCheck), Micros(p.NotifyAt)
	return r
}

// Checked returns the receipt after a lookup that proved nothing.
func (r Receipt) Checked(evidence []byte, p Plan) Receipt {
	r.Checks++
	r.Evidence = evidence
	return r.Wait(p)
}

// Suspect returns the receipt with a doubt about it, and with none for doubt 0. People are
// told at notify; zero: they are not.
func (r Receipt) Suspect(d Doubt, notify time.Time) Receipt {
	r.Doubt, r.NotifyAt, r.Notices = d, Micros(notify), 0
	return r
}

// MayReplace says whether now may take the place of was: a move of the table, or the same
// status, fence and version with another recovery. A store refuses anything else.
func MayReplace(was, now *Receipt) bool {
	if was.Key != now.Key || was.Guard != now.Guard || was.Tenant != now.Tenant {
		return false
	}
	if was.Status == now.Status && was.Fence == now.Fence {
		return now.Version == was.Version || now.Version == was.Version+1 && now.Status == AwaitingApproval
	}
	if now.Version != was.Version+1 {
		return false
	}
	return slices.ContainsFunc(Moves, func(m Rule) bool {
		fence := was.Fence
		if m.NewFence {
			fence++
		}
		return m.Verb != Again && slices.Contains(m.From, was.Status) && m.To == now.Status && now.Fence == fence
	})
}
