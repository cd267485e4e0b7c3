// Package lock answers "who may act now?". It is the fast, forgetful half of the promise:
// a claim here lets one caller go on to the write-ahead, where the durable store decides.
// Nothing in this package is proof; losing all of it costs time and never an effect.
//
// One record per guard (intent.Guard), always one Redis key, so that a cluster reshard
// cannot split it and every script touches one key.
package lock

import (
	"context"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
)

// Code is what a claim was answered.
type Code uint8

const (
	_            Code = iota
	Claimed           // you may act; asked twice by the same claim id, claimed both times
	Held              // somebody else may be acting; Record.Lease says for how long still
	Settled           // completed, or rejected in a way this call may not repeat
	Unknown           // it may have happened: do not act
	Awaiting          // waits for a person's approval
	Mismatch          // same key, other fingerprint, and the key is not rejected
	StepConflict      // another key holds the guard and is not rejected
)

// Ask is what a caller claims.
type Ask struct {
	Guard       intent.Guard
	Key         intent.Key
	Fingerprint intent.Fingerprint
	ClaimID     intent.ClaimID
	Lease       time.Duration
	Traceparent string // of the execution that would follow
	Hot         bool   // there will be no row in the durable store to ask
	Receipt     []byte // the started receipt, only when Hot: it stands in for the row
}

// Record is what is kept under a guard.
type Record struct {
	Guard       intent.Guard
	Key         intent.Key
	Fingerprint intent.Fingerprint
	ClaimID     intent.ClaimID
	Fence       uint64
	Status      intent.Status
	Retry       intent.Retry
	Durable     bool          // the durable store has acknowledged this state
	Hot         bool          // never was to be in the durable store before it settles
	Lease       time.Duration // what is left; zero or less: it ran out. Only while started
	Traceparent string
	Receipt     []byte // encoded receipt, opaque here; nil while started, unless Hot
}

// Answer is a claim's code and the record as it is after the claim.
type Answer struct {
	Code   Code
	Record Record
}

// Lease names one claim to be renewed.
type Lease struct {
	Guard intent.Guard
	Ask   Ask    // written again if the record is gone (flushed, failed over)
	Fence uint64 // as known to the holder
}

// Store keeps claims. Every method MUST be safe to repeat: the reply of a verb that was
// applied may be lost. An error means that nothing is known about whether it was applied;
// typed results (intent.ErrNone) are answers. Methods MUST return within the
// implementation's own timeout and MUST NOT retry by themselves in a way the caller sees.
type Store interface {
	// Claim takes the guard for the ask, atomically:
	//   no record, or a rejected one that allows this call -> started, Claimed
	//     (fence 1, or the record's fence + 1 when it holds the same key)
	//   rejected, the same call, and the durable store has
	//     not acknowledged the rejection (unless hot)       -> Settled: it is replayed, not lost
	//   same claim id, still started                        -> Claimed again, lease unchanged
	//   other key, record not rejected                      -> StepConflict
	//   same key, other fingerprint, record not rejected    -> Mismatch
	//   same key and fingerprint                            -> Held | Unknown | Awaiting | Settled
	// A lease that ran out frees nothing: the answer is Held with Record.Lease <= 0.
	Claim(ctx context.Context, ask Ask) (Answer, error)

	// Renew extends the leases of all given claims in one batch, and writes a record anew
	// where it is gone. It returns the guards whose record belongs to somebody else or has
	// left started: their holders must not begin an effect any more.
	Renew(ctx context.Context, leases []Lease) (lost []intent.Guard, err error)

	// Settle copies a state (started by another claim, awaiting, unknown, completed,
	// rejected) into the record, and publishes it to watchers. It MUST apply only if there
	// is no record, or the record holds the same key and (fence, rank) grows, where rank is
	// started < awaiting... in Rank's order; so a late or repeated copy changes nothing.
	// A rejected record of another key is replaced. A durable settled record lives for ttl;
	// everything else lives until it is settled durably. Returns the record that stands
	// afterwards and whether this call wrote it.
	Settle(ctx context.Context, r Record, ttl time.Duration) (Record, bool, error)

	// Release removes a started record if it still belongs to the claim id: nothing was
	// sent and no row says otherwise. Releasing twice, or what is not ours, is no error.
	Release(ctx context.Context, g intent.Guard, id intent.ClaimID) error

	// Get reads a record; intent.ErrNone when there is none.
	Get(ctx context.Context, g intent.Guard) (Record, error)

	// Watch returns a channel that gets a value after the guard's record was settled or
	// released, at most once per event, possibly never (publish is fire and forget: poll
	// as well). Watch MAY wait a moment, 100 ms at most, so that a change that happens after
	// it returned is seen: watch first, then read the record, then wait. stop ends the watch,
	// may be called twice and MUST be called.
	Watch(g intent.Guard) (changed <-chan struct{}, stop func())
}

// Keeper is the housekeeping side of an implementation.
type Keeper interface {
	// Overdue returns up to limit guards whose claim is older than age and was neither
	// released nor durably settled. It may return too many, and after a failover too few:
	// what it misses is found by the next caller of the key.
	Overdue(ctx context.Context, age time.Duration, limit int) ([]intent.Guard, error)
	// Closed drops a guard from what Overdue returns.
	Closed(ctx context.Context, g intent.Guard) error
	// Ready reports whether a claim could be written now.
	Ready(ctx context.Context) error
	// Close ends the connections; idempotent.
	Close() error
}
