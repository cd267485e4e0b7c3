package locktest

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/lock"
)

var settleClauses = []clause{
	{"settle/every pair of states obeys (fence, rank)", func(x *exercise) {
		// Exhaustive: what stands x what comes, of one key.
		type state struct {
			fence   uint64
			status  intent.Status
			durable bool
		}
		var states []state
		for _, fence := range []uint64{1, 2, 10} { // 10 and 2 compare as numbers, not as text
			for status := intent.AwaitingApproval; status <= intent.Rejected; status++ {
				states = append(states, state{fence, status, false}, state{fence, status, true})
			}
		}
		for _, old := range states {
			for _, next := range states {
				a := NewAsk()
				standing := record(a, old.fence, old.status, old.durable)
				coming := record(another(a), next.fence, next.status, next.durable)
				x.settle(standing, long, true)
				grows := old.fence < next.fence || old.fence == next.fence &&
					lock.Rank(old.status, old.durable) < lock.Rank(next.status, next.durable)
				now := x.settle(coming, long, grows)
				want := standing
				if grows {
					want = coming
				}
				x.wantSame(now, want)
				x.wantSame(x.get(a.Guard), want)
			}
		}
	}},
	{"settle/repeated or late changes nothing", func(x *exercise) {
		a := NewAsk()
		x.claim(a)
		done := record(a, 1, intent.Completed, false)
		x.settle(done, long, true)
		x.wantSame(x.settle(done, long, false), done)
		stored := record(a, 1, intent.Completed, true)
		stored.Receipt = []byte("stored")
		x.settle(stored, long, true)
		late := record(a, 1, intent.Unknown, true)
		x.wantSame(x.settle(late, long, false), stored)
		x.wantSame(x.get(a.Guard), stored)
	}},
	{"settle/a late answer of the same fence settles unknown", func(x *exercise) {
		a := NewAsk()
		x.claim(a)
		x.settle(record(a, 1, intent.Unknown, true), long, true)
		x.settle(record(a, 1, intent.Completed, true), long, true)
	}},
	{"settle/an old fence is stale", func(x *exercise) {
		a := NewAsk()
		x.claim(a)
		x.settle(rejected(a, 1, intent.RetrySameKey, true), long, true)
		b := another(a)
		x.wantClaim(b, lock.Claimed, 2, b)
		now := x.settle(record(a, 1, intent.Completed, true), long, false)
		if now.Fence != 2 || now.Status != intent.Started || now.ClaimID != b.ClaimID || now.Lease <= 0 {
			x.Fatalf("standing: %+v", now)
		}
		x.wantOverdue(a.Guard, true) // b's claim is still watched over
	}},
	{"settle/another key's record stays unless it is rejected", func(x *exercise) {
		for status := intent.AwaitingApproval; status <= intent.Rejected; status++ {
			a := NewAsk()
			standing := record(a, 1, status, true)
			x.settle(standing, long, true)
			coming := record(otherKey(a), 9, intent.Completed, true)
			now := x.settle(coming, long, status == intent.Rejected)
			if status != intent.Rejected {
				x.wantSame(now, standing)
			}
		}
		a := NewAsk() // and a lower fence is no obstacle: fences count per key
		x.settle(record(a, 5, intent.Rejected, true), long, true)
		x.settle(record(otherKey(a), 1, intent.Started, false), long, true)
	}},
	{"settle/started by another claim, with what is left of its lease", func(x *exercise) {
		a := NewAsk()
		x.settle(record(a, 3, intent.Started, true), 0, true)
		if got := x.wantClaim(another(a), lock.Held, 3, a); got.Record.Lease <= 0 || got.Record.Lease > long || !got.Record.Durable {
			x.Fatalf("record: %+v", got.Record)
		}
		b := NewAsk()
		lapsed := record(b, 1, intent.Started, true)
		lapsed.Lease = -time.Minute
		x.settle(lapsed, 0, true)
		if got := x.wantClaim(another(b), lock.Held, 1, b); got.Record.Lease > -time.Minute {
			x.Fatalf("lease: %v", got.Record.Lease)
		}
	}},
	{"settle/a durable settled record lives for its ttl, everything else stays", func(x *exercise) {
		var stays, goes []lock.Record
		for status := intent.AwaitingApproval; status <= intent.Rejected; status++ {
			stays = append(stays, record(NewAsk(), 1, status, false))
			if !status.Settled() {
				stays = append(stays, record(NewAsk(), 1, status, true))
				continue
			}
			goes = append(goes, record(NewAsk(), 1, status, true))
		}
		for _, r := range append(stays, goes...) {
			x.settle(r, short, true)
		}
		x.advance(beyond)
		for _, r := range goes {
			if _, err := x.s.Get(x.Context(), r.Guard); !errors.Is(err, intent.ErrNone) {
				x.Errorf("%v, durable, outlived its ttl: %v", r.Status, err)
			}
		}
		for _, r := range stays {
			x.wantSame(x.get(r.Guard), r)
		}
		// A claim on a rejected record takes the ttl away with it.
		a := NewAsk()
		x.settle(rejected(a, 1, intent.RetrySameKey, true), short, true)
		b := another(a)
		x.claim(b)
		x.advance(beyond)
		x.wantClaim(another(a), lock.Held, x.get(b.Guard).Fence, b)
	}},
	{"settle/receipts come back byte for byte", func(x *exercise) {
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		for _, body := range [][]byte{nil, {0}, []byte("\r\n"), all, bytes.Repeat(all, 4096)} {
			a := NewAsk()
			r := record(a, 1, intent.Completed, false)
			r.Receipt = body
			x.settle(r, long, true)
			x.wantSame(x.get(a.Guard), r)
			x.wantSame(x.wantClaim(another(a), lock.Settled, 1, a).Record, r)
		}
	}},

	{"watch/settle and release wake every watch of the guard", func(x *exercise) {
		a := NewAsk()
		x.claim(a)
		one, stop1 := x.s.Watch(a.Guard)
		two, stop2 := x.s.Watch(a.Guard)
		other, stop3 := x.s.Watch(NewAsk().Guard)
		defer stop3()
		x.settle(record(a, 1, intent.Unknown, true), 0, true)
		x.wantWake(one)
		x.wantWake(two)
		stop1()
		stop1()
		x.settle(record(a, 1, intent.Completed, true), long, true)
		x.wantWake(two)
		stop2()

		b := NewAsk()
		x.claim(b)
		three, stop4 := x.s.Watch(b.Guard)
		defer stop4()
		x.release(b)
		x.wantWake(three)
		for name, ch := range map[string]<-chan struct{}{"stopped": one, "another guard's": other} {
			select {
			case <-ch:
				x.Errorf("the %s watch got a value", name)
			default:
			}
		}
	}},
	{"watch/a value nobody takes blocks nobody", func(x *exercise) {
		a := NewAsk()
		changed, stop := x.s.Watch(a.Guard)
		defer stop()
		for fence := range uint64(20) {
			x.settle(record(a, fence+1, intent.Started, true), 0, true)
		}
		x.wantWake(changed)
	}},
	{"watch/ends and begins again", func(x *exercise) {
		a := NewAsk()
		for fence := range uint64(20) {
			changed, stop := x.s.Watch(a.Guard)
			x.settle(record(a, fence+1, intent.Started, true), 0, true)
			x.wantWake(changed)
			stop()
		}
	}},
}

// wantWake waits for a value; the bound is for a test that would hang.
func (x *exercise) wantWake(changed <-chan struct{}) {
	x.Helper()
	select {
	case <-changed:
	case <-time.After(10 * time.Second):
		x.Fatal("the watch got no value")
	}
}

var _ testing.TB = (*exercise)(nil)
