package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// Record implements intentstore.Journal: one insert for all, and what it counts. It does not wait for the disk;
// a crash of the server may lose the last moments of the journal, never of the intents.
func (s *Store) Record(_ context.Context, attempts []intent.Attempt) error {
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
		var b pgx.Batch
		b.Queue(offSQL)
		b.Queue(recordSQL, attemptColumns(good)...)
		b.Queue(countSQL, countColumns(intentstore.CountsOf(good))...)
		_, err := s.acknowledged(func(ctx context.Context, c *pgxpool.Conn) error {
			return c.SendBatch(ctx, &b).Close()
		})
		if err != nil {
			bad = append(bad, fmt.Errorf("intentstore/postgres: record: %w", err))
		}
	}
	return errors.Join(bad...)
}

// Attempts implements intentstore.Journal.
func (s *Store) Attempts(ctx context.Context, k intent.Key, limit int) ([]intent.Attempt, int, []intent.Execution, error) {
	var (
		attempts   []intent.Attempt
		total      int
		rows       []intent.Receipt
		executions []intent.Execution
		b          pgx.Batch
	)
	b.Queue(attemptsSQL, k[:], max(limit, 0)).Query(func(r pgx.Rows) (err error) {
		attempts, err = pgx.CollectRows(r, scanAttempt)
		return err
	})
	b.Queue(attemptsCountSQL, k[:]).QueryRow(func(r pgx.Row) error { return r.Scan(&total) })
	b.Queue(getSQL, k[:]).Query(func(r pgx.Rows) (err error) {
		rows, err = receipts(r, nil)
		return err
	})
	b.Queue(executionsSQL, k[:]).Query(func(r pgx.Rows) (err error) {
		executions, err = pgx.CollectRows(r, scanExecution)
		return err
	})
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.pool.SendBatch(ctx, &b).Close(); err != nil {
		return nil, 0, nil, fmt.Errorf("intentstore/postgres: attempts: %w", err)
	}
	slices.Reverse(attempts)
	if len(rows) == 1 {
		executions = intentstore.Executions(&rows[0], executions)
	}
	return attempts, total, executions, nil
}

func scanAttempt(r pgx.CollectableRow) (a intent.Attempt, err error) {
	var key []byte
	var decision string
	if err := r.Scan(&key, &a.Tenant, &a.Tool, &a.At, &decision, &a.TraceID, &a.SpanID, &a.Replica, &a.Region, &a.Credential); err != nil {
		return a, err
	}
	copy(a.Key[:], key)
	a.At = a.At.UTC()
	a.Decision, err = intent.ParseDecision(decision)
	return a, err
}

func scanExecution(r pgx.CollectableRow) (e intent.Execution, err error) {
	var key, claim []byte
	var fence int64
	var status, retry string
	var started, ended pgtype.Timestamptz
	err = r.Scan(&key, &fence, &claim, &started, &ended, &status, &retry, &e.Reason, &e.HTTPStatus, &e.Traceparent, &e.Replica, &e.Region)
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
