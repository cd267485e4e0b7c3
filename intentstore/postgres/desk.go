package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// Replace implements intentstore.Desk. After an ambiguous commit the same statement runs
// again: it waits for the first if that is still under way, and changes nothing if that was
// committed. Then the row reads as this call made it, and a barrier write makes that durable
// before it is called success.
func (s *Store) Replace(ctx context.Context, was, now intent.Receipt, entry *intent.Entry) (intent.Receipt, error) {
	if err := intentstore.CheckReplace(&was, &now, entry); err != nil {
		return intent.Receipt{}, err
	}
	was, now = intentstore.Kept(was), intentstore.Replacement(was, now)
	doubted := false
	a, err := resolve(s, "replace", func() (f found[standsAs], _ error) {
		moved := 0
		f.doubt, f.err = s.acknowledged(func(ctx context.Context, c *pgxpool.Conn) error {
			return c.QueryRow(ctx, replaceSQL, replaceParameters(&was, &now, entry)...).Scan(&moved)
		})
		doubted = doubted || f.doubt
		switch {
		case transient(f.err):
			f.err = nil // rolled back: again
			return f, nil
		case f.doubt || f.err != nil:
			return f, nil
		case moved == 1:
			f.known, f.answer.row = true, now
			return f, nil
		}
		row, err := s.Get(ctx, was.Key)
		switch {
		case errors.Is(err, intent.ErrNone):
			f.known, f.answer.result = true, err
		case err != nil:
			f.err = err
		case intentstore.Replaced(&row, &was, &now, doubted):
			f.answer.row = row
			f.known, f.doubt, f.err = s.barrier(&row)
		default:
			f.known, f.answer = true, standsAs{row, intent.ErrStale}
		}
		return f, nil
	})
	return a.row, errors.Join(err, a.result)
}

// countLosses counts the executions of a batch that ended unknown, in a commit of its own
// that does not wait for the disk: replicas would otherwise queue for one row of counts while
// they hold intents locked. It is a number for people; one that cannot be written is lost.
func (s *Store) countLosses(ops []*op) {
	var lost []intentstore.MinuteCount
	for _, o := range ops {
		if o.settle == nil || !o.applied || o.doubt {
			continue
		}
		if c, ok := intentstore.CountOfLoss(o.settle.Of, o.settle); ok {
			lost = append(lost, c)
		}
	}
	if len(lost) == 0 {
		return
	}
	var b pgx.Batch
	b.Queue(offSQL)
	b.Queue(countSQL, countColumns(intentstore.Summed(lost))...)
	_, _ = s.acknowledged(func(ctx context.Context, c *pgxpool.Conn) error { return c.SendBatch(ctx, &b).Close() })
}

// Due implements intentstore.Desk.
func (s *Store) Due(ctx context.Context, now time.Time, limit int) ([]intent.Receipt, error) {
	rows, err := s.read(ctx, dueSQL, intent.Micros(now), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("intentstore/postgres: due: %w", err)
	}
	return rows, nil
}

// Audit implements intentstore.Desk.
func (s *Store) Audit(ctx context.Context, k intent.Key, limit int) ([]intent.Entry, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	rows, err := s.pool.Query(ctx, auditSQL, k[:], max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("intentstore/postgres: audit: %w", err)
	}
	entries, err := pgx.CollectRows(rows, scanEntry)
	if err != nil {
		return nil, fmt.Errorf("intentstore/postgres: audit: %w", err)
	}
	slices.Reverse(entries)
	return entries, nil
}

func scanEntry(r pgx.CollectableRow) (e intent.Entry, err error) {
	var key []byte
	var action string
	if err := r.Scan(&e.ID, &key, &e.Tenant, &e.Tool, &e.At, &e.Actor, &action, &e.Reason, &e.Before, &e.After, &e.Evidence, &e.Traceparent); err != nil {
		return e, err
	}
	copy(e.Key[:], key)
	e.At = e.At.UTC()
	e.Action, err = intent.ParseAction(action)
	return e, err
}

// Changes implements intentstore.Desk.
func (s *Store) Changes(ctx context.Context, tenant string, after intentstore.Mark, limit int) ([]intentstore.Change, intentstore.Mark, error) {
	var attempts, entries intentstore.Tail
	var b pgx.Batch
	// First of all, so that what is not settled yet is looked for afterwards.
	b.Queue(settledSQL).QueryRow(func(r pgx.Row) error { return r.Scan(&attempts.Settled, &entries.Settled) })
	if after != (intentstore.Mark{}) {
		n := intentstore.PageLimit(limit)
		b.Queue(arrivalsSQL, tenant, after.Attempt, n).Query(tail(&attempts, intentstore.CountAttempt))
		b.Queue(entriesSQL, tenant, after.Entry, n).Query(tail(&entries, intentstore.CountAudit))
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.pool.SendBatch(ctx, &b).Close(); err != nil {
		return nil, after, fmt.Errorf("intentstore/postgres: changes: %w", err)
	}
	changes, mark := intentstore.MergeChanges(after, attempts, entries, limit)
	return changes, mark, nil
}

func tail(t *intentstore.Tail, kind string) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for rows.Next() {
			var id int64
			var key []byte
			c := intentstore.Change{Kind: kind}
			if err := rows.Scan(&id, &c.At, &key, &c.Tool, &c.Word); err != nil {
				return err
			}
			copy(c.Key[:], key)
			c.At = c.At.UTC()
			t.Add(id, c)
		}
		return rows.Err()
	}
}

// Stats implements intentstore.Desk.
func (s *Store) Stats(ctx context.Context, q intentstore.StatsQuery) (stats intentstore.Stats, err error) {
	if err := intentstore.CheckStats(&q); err != nil {
		return stats, err
	}
	since, until, step := q.Minutes()
	var b pgx.Batch
	b.Queue(countsSQL, q.Tenant, since, until, step).Query(func(rows pgx.Rows) (err error) {
		stats.Counts, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (c intentstore.Count, err error) {
			var minute int64
			err = r.Scan(&minute, &c.Tool, &c.Kind, &c.Word, &c.N)
			c.At = time.Unix(minute*60, 0).UTC()
			return c, err
		})
		return err
	})
	b.Queue(openSQL, q.Tenant).Query(func(rows pgx.Rows) (err error) {
		stats.Open, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (o intentstore.Open, err error) {
			var oldest pgtype.Timestamptz
			err = r.Scan(&o.Tool, &o.What, &o.N, &oldest)
			o.Oldest = moment(oldest)
			return o, err
		})
		return err
	})
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.pool.SendBatch(ctx, &b).Close(); err != nil {
		return intentstore.Stats{}, fmt.Errorf("intentstore/postgres: stats: %w", err)
	}
	return stats, nil
}
