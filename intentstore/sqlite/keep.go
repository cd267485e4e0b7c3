package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
		stamp(q.Since), stamp(q.Until), nil, nil, nil, nil, nil, nil, intentstore.PageLimit(q.Limit) + 1}
	if q.Status != 0 {
		args[4] = q.Status.String()
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
				for _, statement := range []string{forgetSQL, forgetExecutionsSQL, forgetAttemptsSQL} {
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

// Record implements intentstore.Journal.
func (s *Store) Record(ctx context.Context, attempts []intent.Attempt) error {
	var bad []error
	good := make([]*intent.Attempt, 0, len(attempts))
	for i := range attempts {
		if err := intentstore.CheckAttempt(&attempts[i]); err != nil {
			bad = append(bad, err)
			continue
		}
		good = append(good, &attempts[i])
	}
	if len(good) > 0 {
		bad = append(bad, s.do(ctx, "record", 0, func(tx *sql.Tx) error {
			record := tx.Stmt(s.record)
			for _, a := range good {
				_, err := record.Exec(a.Key[:], a.Tenant, stamp(a.At), a.Decision.String(), a.TraceID, a.SpanID, a.Replica, a.Region, a.Credential)
				if err != nil {
					return err
				}
			}
			return nil
		}))
	}
	return errors.Join(bad...)
}

// Attempts implements intentstore.Journal.
func (s *Store) Attempts(ctx context.Context, k intent.Key, limit int) (_ []intent.Attempt, total int, _ []intent.Execution, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("intentstore/sqlite: attempts: %w", err)
		}
	}()
	ctx = context.WithoutCancel(ctx)
	tx, err := s.reads.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // one moment's view
	if err != nil {
		return nil, 0, nil, err
	}
	defer tx.Rollback()
	if err := tx.QueryRowContext(ctx, attemptsCountSQL, k[:]).Scan(&total); err != nil {
		return nil, 0, nil, err
	}
	attempts, err := collect(tx, scanAttempt, attemptsSQL, k[:], max(limit, 0))
	if err != nil {
		return nil, 0, nil, err
	}
	slices.Reverse(attempts)
	executions, err := collect(tx, scanExecution, executionsSQL, k[:])
	if err != nil {
		return nil, 0, nil, err
	}
	row, err := one(tx.QueryContext(ctx, getSQL, k[:]))
	if err == nil {
		executions = intentstore.Executions(&row, executions)
	} else if !errors.Is(err, intent.ErrNone) {
		return nil, 0, nil, err
	}
	return attempts, total, executions, nil
}

func collect[T any](tx *sql.Tx, scan func(*sql.Rows) (T, error), query string, args ...any) (out []T, err error) {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

func scanAttempt(rows *sql.Rows) (a intent.Attempt, err error) {
	var key []byte
	var at sql.NullInt64
	var decision string
	if err := rows.Scan(&key, &a.Tenant, &at, &decision, &a.TraceID, &a.SpanID, &a.Replica, &a.Region, &a.Credential); err != nil {
		return a, err
	}
	copy(a.Key[:], key)
	a.At = moment(at)
	a.Decision, err = intent.ParseDecision(decision)
	return a, err
}

func scanExecution(rows *sql.Rows) (e intent.Execution, err error) {
	var key, claim []byte
	var fence int64
	var started, ended sql.NullInt64
	var status, retry string
	err = rows.Scan(&key, &fence, &claim, &started, &ended, &status, &retry, &e.Reason, &e.HTTPStatus, &e.Traceparent, &e.Replica, &e.Region)
	if err != nil {
		return e, err
	}
	copy(e.Key[:], key)
	copy(e.ClaimID[:], claim)
	e.Fence, e.StartedAt, e.EndedAt = uint64(fence), moment(started), moment(ended)
	if e.Status, err = intent.ParseStatus(status); err != nil {
		return e, err
	}
	e.Retry, err = intent.ParseRetry(retry)
	return e, err
}
