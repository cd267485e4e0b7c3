package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// Begin implements intentstore.Store.
//
// Mine is answered in three cases, each an acknowledged commit of this claim's row: the
// insert wrote it; a rejected row was moved to it; or the row was found to be ours (the
// claimant asks again, or a commit was ambiguous) and a further write to it, the barrier,
// was acknowledged. After an ambiguous commit the same insert runs again, on a fresh
// connection: if the first was committed it waits for it and writes nothing, and if the
// first never was, it is committed now. Out of time is intentstore.ErrAmbiguous: the row
// may be there, nothing may be sent, and the sweeper finds it.
func (s *Store) Begin(ctx context.Context, r intent.Receipt) (intentstore.Begun, error) {
	if err := intentstore.CheckBegin(&r); err != nil {
		return intentstore.Begun{}, err
	}
	r = intentstore.Kept(r)
	return resolve(s, "begin", written(ctx, s, op{begin: &r}, func(o *op) found[intentstore.Begun] {
		if o.applied {
			return found[intentstore.Begun]{known: true, answer: intentstore.Begun{Mine: true, Row: r}}
		}
		return s.standing(ctx, r)
	}))
}

// standing says what a row that was not inserted met.
func (s *Store) standing(ctx context.Context, r intent.Receipt) (f found[intentstore.Begun]) {
	own, holder, err := s.stands(ctx, &r)
	switch {
	case err != nil:
		f.err = err
	case own != nil && intentstore.Ours(own, &r):
		f.answer = intentstore.Begun{Mine: true, Row: *own}
		f.known, f.doubt, f.err = s.barrier(own)
	case own != nil && !intent.MayRunAgain(own.Status, own.Retry, own.Fingerprint, r.Fingerprint):
		f.known, f.answer.Row = true, *own
	case holder != nil:
		f.known, f.answer.Row = true, *holder
	case own != nil:
		return s.again(*own, r)
	}
	return f // not known: what stood in the way is gone, insert again
}

// stands reads the row of the same key, and the row of another key that holds the guard.
func (s *Store) stands(ctx context.Context, r *intent.Receipt) (own, holder *intent.Receipt, err error) {
	rows, err := s.read(ctx, standsSQL, r.Key[:], r.Guard[:])
	for i := range rows {
		if rows[i].Key == r.Key {
			own = &rows[i]
		} else {
			holder = &rows[i]
		}
	}
	return own, holder, err
}

// again moves a rejected row to the next execution of its key.
func (s *Store) again(row, r intent.Receipt) (f found[intentstore.Begun]) {
	next, err := row.ApplyAgain(r)
	if err != nil {
		return found[intentstore.Begun]{err: err}
	}
	ended, _ := row.Execution()
	var moved int
	f.doubt, f.err = s.acknowledged(func(ctx context.Context, c *pgxpool.Conn) error {
		return c.QueryRow(ctx, againSQL, againParameters(&next, row.Version, ended)...).Scan(&moved)
	})
	if transient(f.err) || sqlState(f.err) == uniqueViolation {
		f.err = nil // another key took the guard meanwhile: the next look finds it
	}
	f.known, f.answer = moved == 1, intentstore.Begun{Mine: true, Row: next}
	return f
}

// barrier makes one acknowledged write to a row that was read, and says whether the row
// still was as it was read.
func (s *Store) barrier(r *intent.Receipt) (written, doubt bool, err error) {
	doubt, err = s.acknowledged(func(ctx context.Context, c *pgxpool.Conn) error {
		tag, err := c.Exec(ctx, barrierSQL, r.Key[:], int64(r.Fence), int64(r.Version), r.ClaimID[:])
		written = tag.RowsAffected() == 1
		return err
	})
	return written, doubt, err
}
