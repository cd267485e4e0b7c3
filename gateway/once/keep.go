package once

import (
	"context"
	"errors"

	"github.com/latchkey-gateway/latchkey/intent"
)

// Keep stores a state that is known here or in Redis but not in the store, and returns the
// row that stands: an unarchived hot result, or a result that the store was down for.
// Repeating it is harmless.
func (e *Engine) Keep(ctx context.Context, r intent.Receipt) (intent.Receipt, error) {
	if r.Durability == intent.Hot {
		return e.keepHot(ctx, r)
	}
	row, err := e.Store.Settle(ctx, r.RestateMove())
	switch {
	case errors.Is(err, intent.ErrStale):
		return row, nil
	case errors.Is(err, intent.ErrNone): // a store restored from before this intent
		return e.Store.Archive(ctx, r)
	}
	return row, err
}

// keepHot archives a hot tool's state. Usually there is no row; there may be a started one
// (a caller was given the receipt's address), a rejected one of an earlier execution, or,
// once the hot window has passed, one that Redis no longer spoke of.
func (e *Engine) keepHot(ctx context.Context, r intent.Receipt) (intent.Receipt, error) {
	row, err := e.Store.Archive(ctx, r)
	if errors.Is(err, intent.ErrStale) {
		// Another key of the step is on record from before the hot window. Both happened.
		r.Guard = intent.Guard(r.Key)
		row, err = e.Store.Archive(ctx, r)
	}
	if err != nil {
		return row, err
	}
	if row.Status == intent.Rejected && row.Fence < r.Fence {
		begun, err := e.Store.Begin(ctx, r.Beginning())
		if err != nil {
			return row, err
		}
		row = begun.Row
	}
	if row.ClaimID == r.ClaimID && !row.Status.Settled() && row.Status != r.Status {
		s := r.RestateMove()
		s.Fence = row.Fence // executions in between may have gone unarchived
		if row, err = e.Store.Settle(ctx, s); err != nil && !errors.Is(err, intent.ErrStale) {
			return row, err
		}
	}
	if row.ClaimID != r.ClaimID || row.Status != r.Status {
		e.Log.Error("a hot key acted again after its window; the store keeps what came first", "key", r.Key.Short(),
			"status", r.Status.String(), "row_status", row.Status.String())
	}
	// Redis counts the fences of a hot key: what is stored is told there under its own.
	r.Durable = true
	return r, nil
}
