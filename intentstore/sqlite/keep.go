package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// List implements intentstore.Store.
func (s *Store) List(ctx context.Context, q intentstore.Query) ([]intent.Receipt, string, error) {
	if err := intentstore.CheckQuery(&q); err != nil {
		return nil, "", err
	}
	after, paged, err := intentstore.ParseCursor(q.Cursor)
	if err != nil {
		return nil, "", err
	}
	args := []any{q.Tenant, narrow(q.RunID), narrow(q.StepID), narrow(q.Tool), nil,
		stamp(q.Since), stamp(q.Until), nil, nil, nil, nil, nil, nil, intentstore.PageLimit(q.Limit) + 1, nil}
	if q.Status != 0 {
		args[4] = q.Status.String()
	}
	if q.Attention {
		args[14] = true
	}
	if paged {
		args[7], args[8] = stamp(after.At), after.Key[:]
	}
	if search := intentstore.ParseSearch(q.Q); len(search.Words) > 0 {
		words, _ := json.Marshal(search.Words) // valid UTF-8, so it always encodes
		args[9], args[12] = string(words), narrow(search.TraceID)
		if search.KeyLow != nil {
			args[10], args[11] = search.KeyLow, search.KeyHigh
		}
	}
	rows, err := receipts(s.reads.QueryContext(context.WithoutCancel(ctx), listSQL, args...))
	if err != nil {
		return nil, "", fmt.Errorf("intentstore/sqlite: list: %w", err)
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

// Overdue implements intentstore.Keeper.
func (s *Store) Overdue(ctx context.Context, startedBefore time.Time, limit int) ([]intent.Receipt, error) {
	rows, err := receipts(s.reads.QueryContext(context.WithoutCancel(ctx), overdueSQL, startedBefore.UnixMicro(), max(limit, 0)))
	if err != nil {
		return nil, fmt.Errorf("intentstore/sqlite: overdue: %w", err)
	}
	return rows, nil
}

// slice is how many rows of housekeeping one transaction changes, so that calls need not
// wait long behind it.
const slice = 200

// inSlices works through up to limit rows, until one step changes fewer than it was asked.
func inSlices(limit int, step func(n int) (int, error)) (int, error) {
	total := 0
	for limit > 0 {
		n := min(limit, slice)
		changed, err := step(n)
		if err != nil {
			return total, err
		}
		total += changed
		limit -= n
		if changed < n {
			break
		}
	}
	return total, nil
}

// Expire implements intentstore.Keeper.
func (s *Store) Expire(ctx context.Context, settledBefore time.Time, limit int) (int, error) {
	return inSlices(limit, func(n int) (int, error) {
		var changed int64
		err := s.do(ctx, "expire", 0, func(tx *sql.Tx) error {
			result, err := tx.Exec(expireSQL, settledBefore.UnixMicro(), n)
			if err != nil {
				return err
			}
			changed, err = result.RowsAffected()
			return err
		})
		if err != nil {
			return 0, err
		}
		return int(changed), nil
	})
}

// Forget implements intentstore.Keeper.
func (s *Store) Forget(ctx context.Context, settledBefore time.Time, limit int) (int, error) {
	return inSlices(limit, func(n int) (int, error) {
		var keys [][]byte
		err := s.do(ctx, "forget", 0, func(tx *sql.Tx) (err error) {
			if keys, err = forgettable(tx, settledBefore, n); err != nil {
				return err
			}
			for _, k := range keys {
				for _, statement := range []string{forgetSQL, forgetExecutionsSQL, forgetAttemptsSQL, forgetAuditSQL} {
					if _, err := tx.Exec(statement, k); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		return len(keys), nil
	})
}

func forgettable(tx *sql.Tx, settledBefore time.Time, n int) (keys [][]byte, err error) {
	rows, err := tx.Query(forgettableSQL, settledBefore.UnixMicro(), n)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var k []byte
		if err := rows.Scan(&k); err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, rows.Err()
}

// Ready implements intentstore.Keeper with a write that reaches the disk.
func (s *Store) Ready(ctx context.Context) error {
	return s.do(ctx, "ready", 0, func(tx *sql.Tx) error {
		_, err := tx.Exec(heartbeatSQL)
		return err
	})
}
