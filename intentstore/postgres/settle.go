package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// standsAs is a row and the typed result that goes with it.
type standsAs struct {
	row    intent.Receipt
	result error
}

// Settle implements intentstore.Store. After an ambiguous commit the same settlement runs
// again: applied before, it finds the row as itself made it, and a barrier write makes that
// durable before it is called success.
func (s *Store) Settle(ctx context.Context, m intent.Settlement) (intent.Receipt, error) {
	if err := intentstore.CheckSettlement(&m); err != nil {
		return intent.Receipt{}, err
	}
	a, err := resolve(s, "settle", written(ctx, s, op{settle: &m}, func(o *op) (f found[standsAs]) {
		if o.applied && m.Of != nil {
			row, err := intentstore.Kept(*m.Of).Apply(m)
			if err == nil && keptOf(&row) == o.written {
				return found[standsAs]{known: true, answer: standsAs{row: row}}
			}
		}
		row, err := s.Get(ctx, m.Key)
		switch {
		case o.applied && err == nil: // it was lost meanwhile, say, and this is the late answer
			f.known, f.answer.row = true, row
		case errors.Is(err, intent.ErrNone):
			f.known, f.answer.result = true, err
		case err != nil:
			f.err = err
		case intentstore.Repeats(&row, &m):
			f.answer.row = row
			f.known, f.doubt, f.err = s.barrier(&row)
		default:
			f.known, f.answer = true, standsAs{row, intent.ErrStale}
		}
		return f
	}))
	return a.row, errors.Join(err, a.result)
}

// Archive implements intentstore.Store.
func (s *Store) Archive(ctx context.Context, r intent.Receipt) (intent.Receipt, error) {
	if err := intentstore.CheckReceipt(&r); err != nil {
		return intent.Receipt{}, err
	}
	r = intentstore.Kept(r)
	a, err := resolve(s, "archive", written(ctx, s, op{archive: &r}, func(o *op) (f found[standsAs]) {
		if o.applied {
			return found[standsAs]{known: true, answer: standsAs{row: r}}
		}
		own, holder, err := s.stands(ctx, &r)
		switch {
		case err != nil:
			f.err = err
		case own != nil:
			f.answer.row = *own
			f.known, f.doubt, f.err = s.barrier(own)
		case holder != nil && r.Status != intent.Rejected: // a rejected row needs no guard
			f.known, f.answer = true, standsAs{*holder, intent.ErrStale}
		}
		return f
	}))
	return a.row, errors.Join(err, a.result)
}

// Get implements intentstore.Store.
func (s *Store) Get(ctx context.Context, k intent.Key) (intent.Receipt, error) {
	rows, err := s.read(ctx, getSQL, k[:])
	if err != nil {
		return intent.Receipt{}, fmt.Errorf("intentstore/postgres: get: %w", err)
	}
	if len(rows) == 0 {
		return intent.Receipt{}, intent.ErrNone
	}
	return rows[0], nil
}
