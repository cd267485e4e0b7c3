package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// List implements intentstore.Store. The statement is planned for the values it is given,
// so that a filter that is not used costs nothing and the one that is finds its index.
func (s *Store) List(ctx context.Context, q intentstore.Query) ([]intent.Receipt, string, error) {
	if err := intentstore.CheckQuery(&q); err != nil {
		return nil, "", err
	}
	after, paged, err := intentstore.ParseCursor(q.Cursor)
	if err != nil {
		return nil, "", err
	}
	args := []any{pgx.QueryExecModeExec, q.Tenant, narrow(q.RunID), narrow(q.StepID), narrow(q.Tool), nil,
		bound(q.Since), bound(q.Until), nil, nil, nil, nil, nil, nil, intentstore.PageLimit(q.Limit) + 1, nil}
	if q.Status != 0 {
		args[5] = q.Status.String()
	}
	if q.Attention {
		args[15] = true
	}
	if paged {
		args[8], args[9] = after.At, after.Key[:]
	}
	if search := intentstore.ParseSearch(q.Q); len(search.Words) > 0 {
		args[10], args[13] = search.Words, narrow(search.TraceID)
		if search.KeyLow != nil {
			args[11], args[12] = search.KeyLow, search.KeyHigh
		}
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	var rows []intent.Receipt
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, boundedSQL, s.milliseconds()); err != nil {
			return err
		}
		rows, err = receipts(tx.Query(ctx, listSQL, args...))
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("intentstore/postgres: list: %w", err)
	}
	rows, next := intentstore.Page(rows, q.Limit)
	return rows, next, nil
}

func narrow(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// milliseconds is a little less than the client's own time-out, so that the server's comes
// first and the connection lives on.
func (s *Store) milliseconds() string {
	return strconv.FormatInt((s.options.Timeout * 7 / 20).Milliseconds(), 10)
}

// Overdue implements intentstore.Keeper.
func (s *Store) Overdue(ctx context.Context, startedBefore time.Time, limit int) ([]intent.Receipt, error) {
	rows, err := s.read(ctx, overdueSQL, intent.Micros(startedBefore), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("intentstore/postgres: overdue: %w", err)
	}
	return rows, nil
}

// Expire implements intentstore.Keeper.
func (s *Store) Expire(_ context.Context, settledBefore time.Time, limit int) (int, error) {
	return s.inSlices(limit, "expire", func(n int) (changed int, err error) {
		_, err = s.acknowledged(func(ctx context.Context, c *pgxpool.Conn) error {
			tag, err := c.Exec(ctx, expireSQL, intent.Micros(settledBefore), n)
			changed = int(tag.RowsAffected())
			return err
		})
		return changed, err
	})
}

// Forget implements intentstore.Keeper. Intents go first: where the role may not delete
// them, nothing else goes either.
func (s *Store) Forget(_ context.Context, settledBefore time.Time, limit int) (int, error) {
	n, err := s.inSlices(limit, "forget", func(n int) (int, error) {
		var keys [][]byte
		_, err := s.acknowledged(func(ctx context.Context, c *pgxpool.Conn) error {
			return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
				rows, err := tx.Query(ctx, forgetSQL, intent.Micros(settledBefore), n)
				if err != nil {
					return err
				}
				if keys, err = pgx.CollectRows(rows, pgx.RowTo[[]byte]); err != nil {
					return err
				}
				if _, err := tx.Exec(ctx, forgetExecutionsSQL, keys); err != nil {
					return err
				}
				if _, err := tx.Exec(ctx, forgetAttemptsSQL, keys); err != nil {
					return err
				}
				return forgetAudit(ctx, tx, keys)
			})
		})
		if err != nil {
			return 0, err
		}
		return len(keys), nil
	})
	if sqlState(err) == insufficientPrivilege {
		return n, nil
	}
	return n, err
}

// forgetAudit deletes the entries of forgotten keys, behind a savepoint: where the role may
// not, the audit stays, and the intents go all the same.
func forgetAudit(ctx context.Context, tx pgx.Tx, keys [][]byte) error {
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, forgetAuditSQL, keys)
		return err
	})
	if sqlState(err) == insufficientPrivilege {
		return nil
	}
	return err
}

// slice is how many rows of housekeeping one transaction holds locked.
const slice = 200

// inSlices works through up to limit rows in short transactions, until one finds fewer than
// it asked for.
func (s *Store) inSlices(limit int, what string, f func(n int) (int, error)) (int, error) {
	total := 0
	for limit > 0 {
		n := min(limit, slice)
		changed, err := f(n)
		for try := 1; transient(err) && try < 5; try++ {
			changed, err = f(n)
		}
		if err != nil {
			return total, fmt.Errorf("intentstore/postgres: %s: %w", what, err)
		}
		total += changed
		limit -= n
		if changed < n {
			break
		}
	}
	return total, nil
}

var errNotPrimary = errors.New("intentstore/postgres: the server is a standby or has no heartbeat row")

// Ready implements intentstore.Keeper with a real write that must be acknowledged, also by
// a synchronous standby where there is one.
func (s *Store) Ready(context.Context) error {
	var written int64
	_, err := s.acknowledged(func(ctx context.Context, c *pgxpool.Conn) error {
		tag, err := c.Exec(ctx, heartbeatSQL)
		written = tag.RowsAffected()
		return err
	})
	if err != nil {
		return fmt.Errorf("intentstore/postgres: ready: %w", err)
	}
	if written == 0 {
		return errNotPrimary
	}
	return nil
}
