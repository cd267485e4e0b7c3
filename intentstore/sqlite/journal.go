package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

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
				_, err := record.Exec(a.Key[:], a.Tenant, a.Tool, stamp(a.At), a.Decision.String(), a.TraceID, a.SpanID, a.Replica, a.Region, a.Credential)
				if err != nil {
					return err
				}
			}
			return s.addCounts(tx, intentstore.CountsOf(good)...)
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
	if err := rows.Scan(&key, &a.Tenant, &a.Tool, &at, &decision, &a.TraceID, &a.SpanID, &a.Replica, &a.Region, &a.Credential); err != nil {
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
