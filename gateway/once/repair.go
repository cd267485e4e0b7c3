package once

import (
	"context"
	"errors"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/lock"
)

// Repair brings a record that nobody tends any more in line with the store. Readers who
// meet one call it, and so does the sweeper; doing it twice, or side by side, is harmless.
//
//	lease lives                         nothing to do: somebody may be acting
//	settled, not in the store           store it, then tell Redis
//	started, no row                     died between claim and write-ahead: nothing was sent, release
//	started, no row, hot                the record was all there is: unknown
//	started, row started by this claim  the holder is gone: unknown
//	anything else                       the store knows better: copy the row
//
// It never starts an effect and never frees a key that has a row.
func (e *Engine) Repair(ctx context.Context, rec lock.Record) error {
	if rec.Status == intent.Started && rec.Lease > 0 {
		return nil
	}
	if rec.Status != intent.Started && !rec.Durable {
		receipt, err := intent.DecodeReceipt(rec.Receipt)
		if err != nil {
			return err
		}
		row, err := e.Keep(ctx, receipt)
		if err == nil {
			e.copy(ctx, row)
		}
		return err
	}
	row, err := e.Store.Get(ctx, rec.Key)
	switch {
	case errors.Is(err, intent.ErrNone) && rec.Hot && rec.Status == intent.Started:
		started, err := intent.DecodeReceipt(rec.Receipt)
		if err != nil {
			return err
		}
		started.Fence, started.ClaimID = rec.Fence, rec.ClaimID
		e.settle(ctx, started, e.lose(&started, time.Now()))
		return nil
	case errors.Is(err, intent.ErrNone):
		return e.Lock.Release(ctx, rec.Guard, rec.ClaimID)
	case err != nil:
		return err
	}
	return e.RepairRow(ctx, row, rec.ClaimID)
}

// RepairRow does the same from a row's side: claim is the one whose lease has run out. A
// row that this claim started is lost; any other replaces the claim's record.
func (e *Engine) RepairRow(ctx context.Context, row intent.Receipt, claim intent.ClaimID) error {
	if row.Status == intent.Started && row.ClaimID == claim {
		after, err := e.settleRow(ctx, row, e.lose(&row, time.Now()))
		if err != nil {
			return err // the store is down; the next sweep finds it again
		}
		row = after
	} else if err := e.Lock.Release(ctx, row.Guard, claim); err != nil {
		return err
	}
	e.copy(ctx, row)
	return nil
}

// lose is the move of a key whose holder is gone.
func (e *Engine) lose(r *intent.Receipt, at time.Time) intent.Settlement {
	t, _ := e.Tools(r.Tool)
	return r.LoseMove("lease_expired", nil, e.plan(t, r, at), at)
}
