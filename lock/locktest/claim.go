package locktest

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/lock"
)

var claimClauses = []clause{
	{"claim/no record is taken with fence 1", func(x *exercise) {
		a := NewAsk()
		got := x.wantClaim(a, lock.Claimed, 1, a)
		r := got.Record
		if r.Status != intent.Started || r.Durable || r.Hot || r.Receipt != nil || r.Traceparent != a.Traceparent {
			x.Fatalf("record after the claim: %+v", r)
		}
		if r.Lease <= 0 || r.Lease > a.Lease {
			x.Fatalf("lease %v of %v", r.Lease, a.Lease)
		}
		x.wantSame(x.get(a.Guard), r)
	}},
	{"claim/a hot claim carries its started receipt, another does not", func(x *exercise) {
		for _, hot := range []bool{true, false} {
			a := NewAsk()
			a.Hot, a.Receipt = hot, []byte("started\x00")
			want := record(a, 1, intent.Started, false)
			want.Retry = 0
			if hot {
				want.Receipt = a.Receipt
			}
			x.wantSame(x.wantClaim(a, lock.Claimed, 1, a).Record, want)
			x.wantSame(x.wantClaim(a, lock.Claimed, 1, a).Record, want)
			x.wantSame(x.wantClaim(another(a), lock.Held, 1, a).Record, want)
			x.renew(lock.Lease{Guard: a.Guard, Ask: a, Fence: 1})
			x.wantSame(x.get(a.Guard), want)
		}
	}},
	{"claim/asked twice by one claimant is claimed twice, lease unchanged", func(x *exercise) {
		a := NewAsk()
		first := x.wantClaim(a, lock.Claimed, 1, a)
		x.advance(beyond)
		second := x.wantClaim(a, lock.Claimed, 1, a)
		if second.Record.Lease > first.Record.Lease-short {
			x.Fatalf("the lease began anew: %v after %v", second.Record.Lease, first.Record.Lease)
		}
	}},
	{"claim/the same call is held", func(x *exercise) {
		a := NewAsk()
		x.claim(a)
		if got := x.wantClaim(another(a), lock.Held, 1, a); got.Record.Lease <= 0 {
			x.Fatalf("lease is %v", got.Record.Lease)
		}
	}},
	{"claim/a lease that ran out frees nothing", func(x *exercise) {
		a := NewAsk()
		a.Lease = short
		x.claim(a)
		x.advance(beyond)
		for range 2 {
			if got := x.wantClaim(another(a), lock.Held, 1, a); got.Record.Lease > 0 {
				x.Fatalf("lease is %v, want it run out", got.Record.Lease)
			}
		}
		if r := x.get(a.Guard); r.Status != intent.Started || r.Lease > 0 || r.ClaimID != a.ClaimID {
			x.Fatalf("record: %+v", r)
		}
		x.wantClaim(a, lock.Claimed, 1, a) // its holder may still ask
	}},
	{"claim/other arguments mismatch", func(x *exercise) {
		a := NewAsk()
		x.claim(a)
		x.wantClaim(corrected(a), lock.Mismatch, 1, a)
		changed := a // even the same claimant
		changed.Fingerprint = NewAsk().Fingerprint
		x.wantClaim(changed, lock.Mismatch, 1, a)
		for _, s := range []intent.Status{intent.Unknown, intent.Completed} {
			x.settle(record(a, 1, s, false), long, true)
			x.wantClaim(corrected(a), lock.Mismatch, 1, a)
		}
	}},
	{"claim/another key conflicts", func(x *exercise) {
		a := NewAsk()
		x.claim(a)
		x.wantClaim(otherKey(a), lock.StepConflict, 1, a)
		for _, s := range []intent.Status{intent.Unknown, intent.Completed} {
			x.settle(record(a, 1, s, true), long, true)
			x.wantClaim(otherKey(a), lock.StepConflict, 1, a)
		}
	}},
	{"claim/awaiting, unknown and completed are answered with the record", func(x *exercise) {
		for status, code := range map[intent.Status]lock.Code{
			intent.AwaitingApproval: lock.Awaiting, intent.Unknown: lock.Unknown, intent.Completed: lock.Settled,
		} {
			a := NewAsk()
			want := record(a, 1, status, true)
			x.settle(want, long, true)
			x.wantSame(x.wantClaim(another(a), code, 1, a).Record, want)
			x.wantSame(x.wantClaim(a, code, 1, a).Record, want) // even for its own claimant
		}
	}},
	{"claim/rejected, same key allowed: again with fence + 1", func(x *exercise) {
		a := NewAsk()
		x.claim(a)
		for fence := range uint64(12) {
			x.settle(rejected(a, fence+1, intent.RetrySameKey, true), long, true)
			a = another(a)
			if r := x.wantClaim(a, lock.Claimed, fence+2, a).Record; r.Status != intent.Started || r.Durable || r.Receipt != nil {
				x.Fatalf("record after the claim: %+v", r)
			}
			x.wantClaim(a, lock.Claimed, fence+2, a)
		}
	}},
	{"claim/rejected, only corrected allowed", func(x *exercise) {
		a := NewAsk()
		x.claim(a)
		want := rejected(a, 1, intent.RetryCorrected, true)
		x.settle(want, long, true)
		x.wantSame(x.wantClaim(another(a), lock.Settled, 1, a).Record, want)
		c := corrected(a)
		x.wantClaim(c, lock.Claimed, 2, c)
	}},
	{"claim/rejected and another key: replaced with fence 1", func(x *exercise) {
		for _, durable := range []bool{true, false} {
			a := NewAsk()
			x.claim(a)
			x.settle(rejected(a, 1, intent.RetryCorrected, durable), long, true)
			b := otherKey(a)
			x.wantClaim(b, lock.Claimed, 1, b)
			x.wantClaim(another(a), lock.StepConflict, 1, b)
		}
	}},
	{"claim/a rejection that only this record knows is replayed", func(x *exercise) {
		a := NewAsk()
		x.claim(a)
		want := rejected(a, 1, intent.RetrySameKey, false)
		x.settle(want, long, true)
		x.wantSame(x.wantClaim(another(a), lock.Settled, 1, a).Record, want)
		x.settle(rejected(a, 1, intent.RetrySameKey, true), long, true)
		b := another(a)
		x.wantClaim(b, lock.Claimed, 2, b)

		hot := NewAsk()
		hot.Hot = true
		x.claim(hot)
		x.settle(rejected(hot, 1, intent.RetrySameKey, false), long, true)
		b = another(hot)
		x.wantClaim(b, lock.Claimed, 2, b)
	}},
	{"claim/one of many wins", func(x *exercise) {
		a := NewAsk()
		var won atomic.Int64
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				b := another(a)
				switch got, err := x.s.Claim(x.Context(), b); {
				case err != nil:
					x.Errorf("claim: %v", err)
				case got.Code == lock.Claimed:
					won.Add(1)
				case got.Code != lock.Held:
					x.Errorf("code %d", got.Code)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			x.Fatalf("%d won", won.Load())
		}
	}},

	{"renew/extends every lease of a batch", func(x *exercise) {
		var leases []lock.Lease
		for range 5 {
			a := NewAsk()
			a.Lease = short
			x.claim(a)
			a.Lease = long
			leases = append(leases, lock.Lease{Guard: a.Guard, Ask: a, Fence: 1})
		}
		if lost := x.renew(leases...); len(lost) != 0 {
			x.Fatalf("lost: %v", lost)
		}
		x.advance(beyond)
		for _, l := range leases {
			if r := x.get(l.Guard); r.Lease <= long/2 || r.Status != intent.Started || r.Traceparent != l.Ask.Traceparent {
				x.Fatalf("record: %+v", r)
			}
		}
		if lost := x.renew(); len(lost) != 0 {
			x.Fatalf("an empty batch lost %v", lost)
		}
	}},
	{"renew/a lease that ran out is still its holder's", func(x *exercise) {
		a := NewAsk()
		a.Lease = short
		x.claim(a)
		x.advance(beyond)
		a.Lease = long
		if lost := x.renew(lock.Lease{Guard: a.Guard, Ask: a, Fence: 1}); len(lost) != 0 {
			x.Fatal("lost")
		}
		if r := x.get(a.Guard); r.Lease <= 0 {
			x.Fatalf("lease is %v", r.Lease)
		}
	}},
	{"renew/writes a record anew that is gone", func(x *exercise) {
		a := NewAsk()
		a.Hot, a.Receipt = true, []byte("started")
		if lost := x.renew(lock.Lease{Guard: a.Guard, Ask: a, Fence: 7}); len(lost) != 0 {
			x.Fatal("lost")
		}
		want := record(a, 7, intent.Started, false)
		want.Retry, want.Receipt = 0, a.Receipt
		x.wantSame(x.get(a.Guard), want)
		x.wantClaim(another(a), lock.Held, 7, a)
		x.wantClaim(a, lock.Claimed, 7, a)
		x.wantOverdue(a.Guard, true)
	}},
	{"renew/reports what is somebody else's or ended", func(x *exercise) {
		mine, theirs, ended := NewAsk(), NewAsk(), NewAsk()
		for _, a := range []lock.Ask{mine, theirs, ended} {
			x.claim(a)
		}
		x.settle(record(ended, 1, intent.Unknown, true), long, true)
		before := x.get(theirs.Guard)
		lost := x.renew(
			lock.Lease{Guard: theirs.Guard, Ask: another(theirs), Fence: 1},
			lock.Lease{Guard: mine.Guard, Ask: mine, Fence: 1},
			lock.Lease{Guard: ended.Guard, Ask: ended, Fence: 1})
		if len(lost) != 2 || lost[0] != theirs.Guard || lost[1] != ended.Guard {
			x.Fatalf("lost: %v", lost)
		}
		x.wantSame(x.get(theirs.Guard), before)
		x.wantSame(x.get(ended.Guard), record(ended, 1, intent.Unknown, true))
	}},

	{"release/only what is the claimant's own and started", func(x *exercise) {
		a := NewAsk()
		x.release(a) // nothing there
		x.claim(a)
		x.release(another(a))
		x.wantClaim(another(a), lock.Held, 1, a)
		x.release(a)
		if _, err := x.s.Get(x.Context(), a.Guard); !errors.Is(err, intent.ErrNone) {
			x.Fatalf("get after release: %v", err)
		}
		x.release(a)
		b := another(a)
		x.wantClaim(b, lock.Claimed, 1, b)
		x.release(a) // its own is gone; b's stays
		x.wantClaim(a, lock.Held, 1, b)
		x.settle(record(b, 1, intent.Completed, false), long, true)
		x.release(b)
		x.wantSame(x.get(b.Guard), record(b, 1, intent.Completed, false))
	}},

	{"get/none", func(x *exercise) {
		if _, err := x.s.Get(x.Context(), NewAsk().Guard); !errors.Is(err, intent.ErrNone) {
			x.Fatalf("get: %v", err)
		}
	}},
}
