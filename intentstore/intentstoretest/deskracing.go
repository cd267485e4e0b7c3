package intentstoretest

import (
	"errors"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
)

// decide replaces one row by all the others at once and returns the one that won; the
// losers must have been told.
func (b *bench) decide(was intent.Receipt, now []intent.Receipt, a intent.Action) intent.Receipt {
	b.Helper()
	errs := make([]error, len(now))
	race(len(now), func(i int) { _, errs[i] = b.s.Replace(b.ctx, was, now[i], entry(a, was, now[i])) })
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won >= 0:
			b.Fatalf("replacements %d and %d both won", won, i)
		case err == nil:
			won = i
		case !errors.Is(err, intent.ErrStale):
			b.Fatalf("replacement %d: %v, want ErrStale", i, err)
		}
	}
	if won < 0 {
		b.Fatal("nobody won")
	}
	b.same("Get", b.get(was.Key), now[won])
	return now[won]
}

const deciders = 8

var deskRacingTests = []test{
	{"one of many approvals wins", func(b *bench) {
		r := b.begin(b.awaiting())
		var all []intent.Receipt
		for range deciders {
			all = append(all, must[intent.Receipt](b)(r.Approve("ann", b.opening())))
		}
		won := b.decide(r, all, intent.ActionApprove)
		b.audited(r.Key, intent.ActionApprove)
		b.executions(r.Key, won)
	}},
	{"approved or declined, not both", func(b *bench) {
		for range 10 {
			r := b.begin(b.awaiting())
			yes := must[intent.Receipt](b)(r.Approve("ann", b.opening()))
			no := must[intent.Receipt](b)(r.Decline("operator", intent.ReasonDeclined, nil, epoch))
			b.decide(r, []intent.Receipt{yes, no}, intent.ActionApprove)
			b.audited(r.Key, intent.ActionApprove)
		}
	}},
	{"one of many takes a row, though all would have it as long", func(b *bench) {
		r := b.unknown(soon)
		all := make([]intent.Receipt, deciders)
		for i := range all {
			all[i] = r.Wait(intent.Plan{NextCheck: epoch.Add(time.Hour), NotifyAt: soon.NotifyAt})
		}
		b.decide(r, all, intent.ActionLookup)
		b.audited(r.Key, intent.ActionLookup)
	}},
	{"one of many executes again", func(b *bench) {
		r := b.unknown(soon)
		var all []intent.Receipt
		for range deciders {
			all = append(all, must[intent.Receipt](b)(r.Reexecute(b.opening())))
		}
		won := b.decide(r, all, intent.ActionRetry)
		b.executions(r.Key, r, won)
	}},
	{"an answer that comes late meets an execution that begins", func(b *bench) {
		for range 20 {
			r := b.unknown(soon)
			again := must[intent.Receipt](b)(r.Reexecute(b.opening()))
			late := r.CompleteMove("downstream", outcome("late"), epoch.Add(time.Minute))
			var settled, replaced error
			race(2, func(i int) {
				if i == 0 {
					_, settled = b.s.Settle(b.ctx, late)
				} else {
					_, replaced = b.s.Replace(b.ctx, r, again, entry(intent.ActionRetry, r, again))
				}
			})
			done, _ := r.Apply(late)
			switch {
			case settled == nil && errors.Is(replaced, intent.ErrStale):
				b.same("settled", b.get(r.Key), done)
				b.audited(r.Key)
				b.executions(r.Key, done)
			case replaced == nil && errors.Is(settled, intent.ErrStale):
				b.same("executed again", b.get(r.Key), again)
				b.audited(r.Key, intent.ActionRetry)
				b.executions(r.Key, r, again)
			default:
				b.Fatalf("settle: %v, replace: %v; want one of them", settled, replaced)
			}
		}
	}},
	{"an answer that comes late meets a lookup that found nothing", func(b *bench) {
		for range 20 { // the answer is applied whatever the lookup does
			r := b.unknown(soon)
			checked := r.Checked([]byte("{}"), intent.Plan{NextCheck: epoch.Add(time.Hour)})
			late := r.CompleteMove("downstream", outcome("late"), epoch.Add(time.Minute))
			var got intent.Receipt
			var settled, replaced error
			race(2, func(i int) {
				if i == 0 {
					got, settled = b.s.Settle(b.ctx, late)
				} else {
					_, replaced = b.s.Replace(b.ctx, r, checked, nil)
				}
			})
			want, _ := r.Apply(late)
			if replaced == nil {
				want, _ = checked.Apply(late)
			} else if !errors.Is(replaced, intent.ErrStale) {
				b.Fatal(replaced)
			}
			if settled != nil {
				b.Fatalf("settle: %v", settled)
			}
			b.same("Settle", got, want)
			b.same("Get", b.get(r.Key), want)
		}
	}},
}
