// Package locktest holds the one suite that every implementation of lock.Store and
// lock.Keeper passes, and the servers that tests need: a real Redis to share, one of their
// own to break, and a proxy that loses replies.
package locktest

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/lock"
)

// Subject is what is exercised.
type Subject interface {
	lock.Store
	lock.Keeper
}

// Open returns an empty subject for one test, closed when the test ends, and how to let its
// clock go on: a sleep where the clock is the server's own.
type Open func(t *testing.T) (s Subject, advance func(time.Duration))

// Exercise runs every clause of the contract as its own subtest, in parallel.
func Exercise(t *testing.T, open Open) {
	ExerciseIn(t, func(t *testing.T, f func(*testing.T)) { f(t) }, open)
}

// ExerciseIn runs each subtest inside around, such as synctest.Test.
func ExerciseIn(t *testing.T, around func(*testing.T, func(*testing.T)), open Open) {
	for _, clause := range clauses {
		t.Run(clause.name, func(t *testing.T) {
			t.Parallel()
			around(t, func(t *testing.T) {
				s, advance := open(t)
				clause.test(&exercise{T: t, s: s, advance: advance})
			})
		})
	}
}

type clause struct {
	name string
	test func(*exercise)
}

var clauses = append(append(append([]clause{}, claimClauses...), settleClauses...), keeperClauses...)

// Leases and lives: long ones never end within a test, short ones are outlived by advance.
const (
	long   = time.Hour
	short  = 30 * time.Millisecond
	beyond = 60 * time.Millisecond
)

// exercise is one clause's test with its subject. Its methods fail the test by themselves.
type exercise struct {
	*testing.T
	s       Subject
	advance func(time.Duration)
}

// NewAsk returns an ask of a new claimant for a new key under a new guard.
func NewAsk() lock.Ask {
	a := lock.Ask{Lease: long, Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	for _, b := range [][]byte{a.Guard[:], a.Key[:], a.Fingerprint[:], a.ClaimID[:]} {
		_, _ = rand.Read(b) // never fails
	}
	return a
}

// another returns the same call by another claimant.
func another(a lock.Ask) lock.Ask {
	a.ClaimID = NewAsk().ClaimID
	return a
}

// corrected returns another claimant's ask for the same key with other arguments.
func corrected(a lock.Ask) lock.Ask {
	a = another(a)
	a.Fingerprint = NewAsk().Fingerprint
	return a
}

// otherKey returns another claimant's ask for another key under the same guard.
func otherKey(a lock.Ask) lock.Ask {
	g := a.Guard
	a = NewAsk()
	a.Guard = g
	return a
}

// record returns the state of the ask's key that a settle would copy.
func record(a lock.Ask, fence uint64, status intent.Status, durable bool) lock.Record {
	r := lock.Record{Guard: a.Guard, Key: a.Key, Fingerprint: a.Fingerprint, ClaimID: a.ClaimID, Fence: fence,
		Status: status, Durable: durable, Hot: a.Hot, Traceparent: a.Traceparent}
	switch status {
	case intent.Started:
		r.Retry, r.Lease = intent.RetrySameKey, a.Lease
	case intent.Rejected:
		r.Retry = intent.RetrySameKey
	default:
		r.Retry = intent.RetryNever
	}
	if status != intent.Started {
		r.Receipt = []byte("receipt of " + a.Key.Short() + "\x00\xff\r\n")
	}
	return r
}

func rejected(a lock.Ask, fence uint64, retry intent.Retry, durable bool) lock.Record {
	r := record(a, fence, intent.Rejected, durable)
	r.Retry = retry
	return r
}

func (x *exercise) claim(a lock.Ask) lock.Answer {
	x.Helper()
	answer, err := x.s.Claim(x.Context(), a)
	if err != nil {
		x.Fatalf("claim: %v", err)
	}
	return answer
}

// wantClaim claims and checks code, fence and whose record stands.
func (x *exercise) wantClaim(a lock.Ask, code lock.Code, fence uint64, holder lock.Ask) lock.Answer {
	x.Helper()
	got := x.claim(a)
	if got.Code != code || got.Record.Fence != fence {
		x.Fatalf("claim: code %d fence %d, want code %d fence %d", got.Code, got.Record.Fence, code, fence)
	}
	if r := got.Record; r.Guard != a.Guard || r.Key != holder.Key || r.Fingerprint != holder.Fingerprint || r.ClaimID != holder.ClaimID {
		x.Fatalf("claim: the record is not the holder's: %+v", r)
	}
	return got
}

func (x *exercise) settle(r lock.Record, ttl time.Duration, wrote bool) lock.Record {
	x.Helper()
	now, did, err := x.s.Settle(x.Context(), r, ttl)
	if err != nil {
		x.Fatalf("settle: %v", err)
	}
	if did != wrote {
		x.Fatalf("settle of fence %d, %v: wrote is %v, want %v; standing: %+v", r.Fence, r.Status, did, wrote, now)
	}
	if wrote {
		x.wantSame(now, r)
	}
	return now
}

func (x *exercise) release(a lock.Ask) {
	x.Helper()
	if err := x.s.Release(x.Context(), a.Guard, a.ClaimID); err != nil {
		x.Fatalf("release: %v", err)
	}
}

func (x *exercise) renew(leases ...lock.Lease) []intent.Guard {
	x.Helper()
	lost, err := x.s.Renew(x.Context(), leases)
	if err != nil {
		x.Fatalf("renew: %v", err)
	}
	return lost
}

func (x *exercise) get(g intent.Guard) lock.Record {
	x.Helper()
	r, err := x.s.Get(x.Context(), g)
	if err != nil {
		x.Fatalf("get: %v", err)
	}
	return r
}

// wantSame compares two records less their leases.
func (x *exercise) wantSame(got, want lock.Record) {
	x.Helper()
	if string(got.Receipt) != string(want.Receipt) {
		x.Fatalf("receipt is %q, want %q", got.Receipt, want.Receipt)
	}
	got.Receipt, want.Receipt, got.Lease, want.Lease = nil, nil, 0, 0
	if g, w := flat(got), flat(want); g != w {
		x.Fatalf("record is\n%+v, want\n%+v", g, w)
	}
}

type flatRecord struct {
	guard       intent.Guard
	key         intent.Key
	fingerprint intent.Fingerprint
	claim       intent.ClaimID
	fence       uint64
	status      intent.Status
	retry       intent.Retry
	durable     bool
	hot         bool
	trace       string
}

func flat(r lock.Record) flatRecord {
	return flatRecord{r.Guard, r.Key, r.Fingerprint, r.ClaimID, r.Fence, r.Status, r.Retry, r.Durable, r.Hot, r.Traceparent}
}
