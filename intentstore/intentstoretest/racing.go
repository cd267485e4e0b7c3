package intentstoretest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

const racers = 32

// race runs f for each racer at the same time.
func race(n int, f func(i int)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	all.Wait()
}

// beginAll begins all the rows at once and returns what each was answered.
func (b *bench) beginAll(rows []intent.Receipt) []intentstore.Begun {
	b.Helper()
	got := make([]intentstore.Begun, len(rows))
	errs := make([]error, len(rows))
	race(len(rows), func(i int) { got[i], errs[i] = b.s.Begin(b.ctx, rows[i]) })
	if err := errors.Join(errs...); err != nil {
		b.Fatal(err)
	}
	return got
}

// winner is the one that is Mine; every other must have been shown its row.
func (b *bench) winner(got []intentstore.Begun) intent.Receipt {
	b.Helper()
	var won []intent.Receipt
	for _, g := range got {
		if g.Mine {
			won = append(won, g.Row)
		}
	}
	if len(won) != 1 {
		b.Fatalf("%d claims were answered Mine, want 1", len(won))
	}
	for _, g := range got {
		if !g.Mine {
			b.same("row shown to a loser", g.Row, won[0])
		}
	}
	b.same("Get", b.get(won[0].Key), won[0])
	return won[0]
}

var racingTests = []test{
	{"one of many claims of a key wins", func(b *bench) {
		like := b.started()
		var rows []intent.Receipt
		for range racers {
			r := like
			r.ClaimID = b.claim()
			rows = append(rows, r)
		}
		b.winner(b.beginAll(rows))
	}},
	{"one claim asked many times at once wins every time", func(b *bench) {
		r := b.started()
		rows := make([]intent.Receipt, racers)
		for i := range rows {
			rows[i] = r
		}
		for _, g := range b.beginAll(rows) {
			if !g.Mine {
				b.Error("the same claim was answered not mine")
			}
			b.same("row", g.Row, r)
		}
	}},
	{"one of many keys under a guard wins", func(b *bench) {
		guard := b.started().Guard
		var rows []intent.Receipt
		for range racers {
			r := b.started()
			r.Guard = guard
			rows = append(rows, r)
		}
		b.winner(b.beginAll(rows))
	}},
	{"one of many claims acts again", func(b *bench) {
		row := b.rejected(intent.RetrySameKey)
		var rows []intent.Receipt
		for range racers {
			r := b.started()
			r.Key, r.Guard, r.Fingerprint = row.Key, row.Guard, row.Fingerprint
			rows = append(rows, r)
		}
		won := b.winner(b.beginAll(rows))
		if won.Fence != 2 {
			b.Errorf("fence %d, want 2", won.Fence)
		}
		b.executions(row.Key, row, won)
	}},
	{"a rejected key and new keys race for the guard", func(b *bench) {
		row := b.rejected(intent.RetrySameKey)
		var rows []intent.Receipt
		for i := range racers {
			r := b.started()
			r.Guard = row.Guard
			if i%2 == 0 {
				r.Key, r.Fingerprint = row.Key, row.Fingerprint
			}
			rows = append(rows, r)
		}
		got := b.beginAll(rows)
		mine := 0
		for _, g := range got {
			if g.Mine {
				mine++
			}
		}
		if mine != 1 {
			b.Errorf("%d claims were answered Mine, want 1", mine)
		}
	}},
	{"one of many settlements is applied", func(b *bench) {
		r := b.begin(b.started())
		errs := make([]error, racers)
		race(racers, func(i int) {
			_, errs[i] = b.s.Settle(b.ctx, r.CompleteMove("downstream", outcome(fmt.Sprint(i)), epoch))
		})
		applied := -1
		for i, err := range errs {
			if err == nil && applied >= 0 {
				b.Errorf("settlements %d and %d were both applied", applied, i)
			}
			if err == nil {
				applied = i
			} else if !errors.Is(err, intent.ErrStale) {
				b.Errorf("settlement %d: %v, want ErrStale", i, err)
			}
		}
		if got := b.get(r.Key); applied < 0 || string(got.Outcome.Body) != fmt.Sprint(applied) || got.Version != r.Version+1 {
			b.Errorf("applied %d, but the row is %+v, version %d", applied, got.Outcome, got.Version)
		}
	}},
	{"an early and a late settlement are both applied", func(b *bench) {
		for range 20 {
			r := b.begin(b.started())
			moves := []intent.Settlement{r.LoseMove("lease_lost", nil, intent.Plan{}, epoch), r.CompleteMove("downstream", outcome("1"), epoch)}
			errs := make([]error, 2)
			race(2, func(i int) { _, errs[i] = b.s.Settle(b.ctx, moves[i]) })
			if errs[1] != nil || errs[0] != nil && !errors.Is(errs[0], intent.ErrStale) {
				b.Fatalf("lose: %v, complete: %v", errs[0], errs[1])
			}
			if got := b.get(r.Key); got.Status != intent.Completed {
				b.Fatalf("status %s, want completed", got.Status)
			}
		}
	}},
	{"many keys at once", func(b *bench) {
		rows := make([]intent.Receipt, 8*racers)
		for i := range rows {
			rows[i] = b.started()
		}
		race(len(rows), func(i int) {
			r, o := rows[i], outcome(fmt.Sprint(i))
			if got, err := b.s.Begin(b.ctx, r); err != nil || !got.Mine {
				b.Errorf("Begin %d: mine %v, %v", i, got.Mine, err)
				return
			}
			want, _ := r.Apply(r.CompleteMove("downstream", o, epoch))
			got, err := b.s.Settle(b.ctx, r.CompleteMove("downstream", o, epoch))
			if err != nil || got.Key != r.Key || got.Version != want.Version || string(got.Outcome.Body) != fmt.Sprint(i) {
				b.Errorf("Settle %d: %+v, %v", i, got.Outcome, err)
			}
		})
	}},
	{"receipts are archived while their guard is taken", func(b *bench) {
		like, guard := b.rejected(intent.RetrySameKey), b.started().Guard
		rows := make([]intent.Receipt, racers)
		for i := range rows {
			rows[i] = b.started()
			if i%2 == 0 {
				key := rows[i].Key
				rows[i] = like
				rows[i].Key = key
			}
			rows[i].Guard = guard
		}
		race(racers, func(i int) {
			if i%2 == 1 {
				if _, err := b.s.Begin(b.ctx, rows[i]); err != nil {
					b.Errorf("Begin: %v", err)
				}
			} else if got, err := b.s.Archive(b.ctx, rows[i]); err != nil || got.Key != rows[i].Key {
				b.Errorf("Archive: %v", err)
			}
		})
	}},
}
