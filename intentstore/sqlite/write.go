package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// prepared are the statements of the hot path, on the connection that writes.
type prepared struct {
	insert, move, get, holder, ended, record, count *sql.Stmt
}

func (p *prepared) prepare(ctx context.Context, db *sql.DB) error {
	for _, one := range []struct {
		to  **sql.Stmt
		sql string
	}{{&p.insert, insertSQL}, {&p.move, moveSQL}, {&p.get, getSQL}, {&p.holder, holderSQL}, {&p.ended, endedSQL}, {&p.record, recordSQL}, {&p.count, countSQL}} {
		stmt, err := db.PrepareContext(ctx, one.sql)
		if err != nil {
			return err
		}
		*one.to = stmt
	}
	return nil
}

// op is one verb's part in a batch. run may be called twice: again, in a transaction of its
// own, when the batch failed. What it found counts only once the commit has succeeded.
type op struct {
	run   func(*sql.Tx) error
	bytes int
	err   error
	done  chan struct{}
}

func (o *op) weight() int { return o.bytes }

var errClosed = errors.New("intentstore/sqlite: the store is closed")

// do runs f in the next batch and waits for its commit. When the caller stops waiting, the
// batch goes on: the write may well be applied.
func (s *Store) do(ctx context.Context, what string, bytes int, f func(*sql.Tx) error) error {
	o := &op{run: f, bytes: bytes, done: make(chan struct{})}
	if !s.writer.Submit(o) {
		return errClosed
	}
	select {
	case <-o.done:
	case <-ctx.Done():
		return fmt.Errorf("intentstore/sqlite: %s: stopped waiting for the commit: %w", what, ctx.Err())
	}
	if o.err != nil {
		return fmt.Errorf("intentstore/sqlite: %s: %w", what, o.err)
	}
	return nil
}

// batch runs ops in one transaction, and where that fails each in its own, so that only the
// one to blame fails.
func (s *Store) batch(ops []*op) {
	if s.options.OnBatch != nil {
		s.options.OnBatch(len(ops))
	}
	err := s.transaction(ops)
	for i, o := range ops {
		if o.err = err; err != nil && len(ops) > 1 {
			o.err = s.transaction(ops[i : i+1])
		}
		close(o.done)
	}
}

// transaction runs under no caller's context: nothing interrupts a commit. It waits for the
// disk, and for another process's lock at most as long as busy_timeout says.
func (s *Store) transaction(ops []*op) error {
	tx, err := s.writes.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	for _, o := range ops {
		if err := o.run(tx); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

// Begin implements intentstore.Store.
func (s *Store) Begin(ctx context.Context, r intent.Receipt) (b intentstore.Begun, err error) {
	if err := intentstore.CheckBegin(&r); err != nil {
		return b, err
	}
	r = intentstore.Kept(r)
	var found intentstore.Begun
	err = s.do(ctx, "begin", len(r.Args), func(tx *sql.Tx) (err error) {
		found, err = s.begin(tx, r)
		return err
	})
	if err != nil {
		return b, err
	}
	return found, nil
}

func (s *Store) begin(tx *sql.Tx, r intent.Receipt) (b intentstore.Begun, err error) {
	written, err := affected(tx.Stmt(s.insert).Exec(columns(&r)...))
	if err != nil || written {
		return intentstore.Begun{Mine: true, Row: r}, err
	}
	row, err := one(tx.Stmt(s.get).Query(r.Key[:]))
	exists := err == nil
	switch {
	case err != nil && !errors.Is(err, intent.ErrNone):
		return b, err
	case exists && intentstore.Ours(&row, &r):
		return intentstore.Begun{Mine: true, Row: row}, nil
	case exists && !intent.MayRunAgain(row.Status, row.Retry, row.Fingerprint, r.Fingerprint):
		return intentstore.Begun{Row: row}, nil
	}
	holder, err := one(tx.Stmt(s.holder).Query(r.Guard[:]))
	if err == nil || !errors.Is(err, intent.ErrNone) {
		return intentstore.Begun{Row: holder}, err
	}
	return s.again(tx, row, r)
}

// again moves a rejected row to the next execution of its key and keeps the ended one.
func (s *Store) again(tx *sql.Tx, row, r intent.Receipt) (intentstore.Begun, error) {
	next, err := row.ApplyAgain(r)
	if err != nil {
		return intentstore.Begun{}, err
	}
	if err := s.apply(tx, &row, &next); err != nil {
		return intentstore.Begun{}, err
	}
	if e, begun := row.Execution(); begun {
		if _, err := tx.Stmt(s.ended).Exec(executionColumns(&e)...); err != nil {
			return intentstore.Begun{}, err
		}
	}
	return intentstore.Begun{Mine: true, Row: next}, nil
}

var errMoved = errors.New("a row moved within its own transaction")

// apply writes a row as a move made it, if it still is as the move found it.
func (s *Store) apply(tx *sql.Tx, before, after *intent.Receipt) error {
	args := append(columns(after), before.Status.String(), int64(before.Fence), int64(before.Version))
	moved, err := affected(tx.Stmt(s.move).Exec(args...))
	if err == nil && !moved {
		err = errMoved
	}
	return err
}

// Settle implements intentstore.Store.
func (s *Store) Settle(ctx context.Context, m intent.Settlement) (intent.Receipt, error) {
	if err := intentstore.CheckSettlement(&m); err != nil {
		return intent.Receipt{}, err
	}
	m.At = intent.Micros(m.At)
	var row intent.Receipt
	var result error
	weight := len(m.Evidence)
	if m.Outcome != nil {
		weight += len(m.Outcome.Body)
	}
	err := s.do(ctx, "settle", weight, func(tx *sql.Tx) (err error) {
		row, result = intent.Receipt{}, nil
		before, err := one(tx.Stmt(s.get).Query(m.Key[:]))
		if errors.Is(err, intent.ErrNone) {
			result = err
			return nil
		} else if err != nil {
			return err
		}
		row, result = before.Apply(m)
		if c, lost := intentstore.CountOfLoss(&before, &m); result == nil && lost {
			if err := s.addCounts(tx, c); err != nil {
				return err
			}
		}
		if result == nil {
			return s.apply(tx, &before, &row)
		}
		if intentstore.Repeats(&row, &m) {
			result = nil
		}
		return nil
	})
	if err != nil {
		return intent.Receipt{}, err
	}
	return row, result
}

// Archive implements intentstore.Store.
func (s *Store) Archive(ctx context.Context, r intent.Receipt) (intent.Receipt, error) {
	if err := intentstore.CheckReceipt(&r); err != nil {
		return intent.Receipt{}, err
	}
	r = intentstore.Kept(r)
	weight := len(r.Args)
	if r.Outcome != nil {
		weight += len(r.Outcome.Body)
	}
	var row intent.Receipt
	var result error
	err := s.do(ctx, "archive", weight, func(tx *sql.Tx) error {
		row, result = r, nil
		written, err := affected(tx.Stmt(s.insert).Exec(columns(&r)...))
		if err != nil || written {
			return err
		}
		if row, err = one(tx.Stmt(s.get).Query(r.Key[:])); errors.Is(err, intent.ErrNone) {
			result = intent.ErrStale
			row, err = one(tx.Stmt(s.holder).Query(r.Guard[:]))
		}
		return err
	})
	if err != nil {
		return intent.Receipt{}, err
	}
	return row, result
}

// Get implements intentstore.Store.
func (s *Store) Get(ctx context.Context, k intent.Key) (intent.Receipt, error) {
	r, err := one(s.reads.QueryContext(context.WithoutCancel(ctx), getSQL, k[:]))
	if err != nil && !errors.Is(err, intent.ErrNone) {
		err = fmt.Errorf("intentstore/sqlite: get: %w", err)
	}
	return r, err
}

func affected(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}
