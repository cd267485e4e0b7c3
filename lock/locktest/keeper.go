package locktest

import (
	"slices"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/lock"
)

var keeperClauses = []clause{
	{"overdue/claims that are neither released nor durably settled", func(x *exercise) {
		held, released, unknown, done, stored := NewAsk(), NewAsk(), NewAsk(), NewAsk(), NewAsk()
		for _, a := range []lock.Ask{held, released, unknown, done, stored} {
			x.claim(a)
			x.wantOverdue(a.Guard, true)
		}
		x.release(released)
		x.settle(record(unknown, 1, intent.Unknown, true), 0, true)
		x.settle(record(done, 1, intent.Completed, false), 0, true)
		x.settle(record(stored, 1, intent.Completed, true), long, true)
		x.wantOverdue(held.Guard, true)
		x.wantOverdue(unknown.Guard, true)
		x.wantOverdue(done.Guard, true)
		x.wantOverdue(released.Guard, false)
		x.wantOverdue(stored.Guard, false)
		x.settle(record(done, 1, intent.Completed, true), long, true)
		x.wantOverdue(done.Guard, false)
	}},
	{"overdue/by age, oldest first, up to the limit", func(x *exercise) {
		var asks []lock.Ask
		for range 3 {
			a := NewAsk()
			x.claim(a)
			x.wantOverdue(a.Guard, true)
			asks = append(asks, a)
			x.advance(beyond)
		}
		young := NewAsk()
		x.claim(young)
		x.wantOverdue(young.Guard, true)
		if got := x.overdue(beyond, 100); len(got) < 3 || got[0] != asks[0].Guard || got[1] != asks[1].Guard || got[2] != asks[2].Guard {
			x.Fatalf("overdue: %v", got)
		}
		if got := x.overdue(beyond, 2); len(got) != 2 || got[0] != asks[0].Guard || got[1] != asks[1].Guard {
			x.Fatalf("overdue, two at most: %v", got)
		}
		if got := x.overdue(long, 100); len(got) != 0 {
			x.Fatalf("overdue for an hour: %v", got)
		}
		// Asking again makes no claim younger.
		x.claim(asks[0])
		if got := x.overdue(beyond, 1); len(got) != 1 || got[0] != asks[0].Guard {
			x.Fatalf("after asking again: %v", got)
		}
	}},
	{"overdue/closed drops a guard until its next claim", func(x *exercise) {
		a := NewAsk()
		x.claim(a)
		x.wantOverdue(a.Guard, true)
		for range 2 {
			if err := x.s.Closed(x.Context(), a.Guard); err != nil {
				x.Fatal(err)
			}
			x.wantOverdue(a.Guard, false)
		}
		x.release(a)
		x.claim(a)
		x.wantOverdue(a.Guard, true)
	}},
	{"overdue/what met a record that ended is not listed", func(x *exercise) {
		a := NewAsk()
		x.claim(a)
		x.wantOverdue(a.Guard, true)
		x.settle(record(a, 1, intent.Completed, true), long, true)
		x.wantClaim(another(a), lock.Settled, 1, a)
		x.release(another(a))
		x.wantOverdue(a.Guard, false)
	}},
	{"overdue/what is not the claimant's to release stays listed", func(x *exercise) {
		a := NewAsk()
		x.claim(a)
		x.release(another(a))
		x.wantOverdue(a.Guard, true)
	}},
	{"ready", func(x *exercise) {
		if err := x.s.Ready(x.Context()); err != nil {
			x.Fatal(err)
		}
	}},
	{"close/is idempotent", func(x *exercise) {
		for range 2 {
			if err := x.s.Close(); err != nil {
				x.Fatal(err)
			}
		}
	}},
}

func (x *exercise) overdue(age time.Duration, limit int) []intent.Guard {
	x.Helper()
	got, err := x.s.Overdue(x.Context(), age, limit)
	if err != nil {
		x.Fatalf("overdue: %v", err)
	}
	return got
}

// wantOverdue asks until the index says so: an implementation may list a claim a moment
// after it answered.
func (x *exercise) wantOverdue(g intent.Guard, want bool) {
	x.Helper()
	for range 2000 {
		if slices.Contains(x.overdue(0, 1000), g) == want {
			return
		}
		time.Sleep(time.Millisecond)
	}
	x.Fatalf("overdue lists the guard: %v, want %v", !want, want)
}
