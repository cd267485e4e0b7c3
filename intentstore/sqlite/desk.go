package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// Replace implements intentstore.Desk: one transaction of the connection that writes reads,
// compares and changes.
func (s *Store) Replace(ctx context.Context, was, now intent.Receipt, entry *intent.Entry) (intent.Receipt, error) {
	if err := intentstore.CheckReplace(&was, &now, entry); err != nil {
		return intent.Receipt{}, err
	}
	was, now = intentstore.Kept(was), intentstore.Replacement(was, now)
	var row intent.Receipt
	var result error
	weight := len(now.Evidence)
	if now.Outcome != nil {
		weight += len(now.Outcome.Body)
	}
	err := s.do(ctx, "replace", weight, func(tx *sql.Tx) (err error) {
		result = nil
		row, err = one(tx.Stmt(s.get).Query(was.Key[:]))
		switch {
		case errors.Is(err, intent.ErrNone):
			result = err
			return nil
		case err != nil:
			return err
		case !intentstore.Stands(&row, &was):
			if !intentstore.Replaced(&row, &was, &now, false) {
				result = intent.ErrStale
			}
			return nil
		}
		row = now
		return s.replace(tx, &was, &now, entry)
	})
	if err != nil {
		return intent.Receipt{}, err
	}
	return row, result
}

func (s *Store) replace(tx *sql.Tx, was, now *intent.Receipt, entry *intent.Entry) error {
	if err := s.apply(tx, was, now); err != nil {
		return err
	}
	if e, ended := intentstore.Superseded(was, now); ended {
		if _, err := tx.Stmt(s.ended).Exec(executionColumns(&e)...); err != nil {
			return err
		}
	}
	if entry == nil {
		return nil
	}
	_, err := tx.Exec(enterSQL, entry.Key[:], entry.Tenant, entry.Tool, stamp(entry.At), entry.Actor, entry.Action.String(), entry.Reason,
		entry.Before, entry.After, blob(entry.Evidence), entry.Traceparent)
	if err != nil {
		return err
	}
	return s.addCounts(tx, intentstore.CountOfEntry(entry))
}

func (s *Store) addCounts(tx *sql.Tx, counts ...intentstore.MinuteCount) error {
	for _, c := range counts {
		if _, err := tx.Stmt(s.count).Exec(c.Tenant, c.Minute, c.Tool, c.Kind, c.Word, c.N); err != nil {
			return err
		}
	}
	return nil
}

// Due implements intentstore.Desk.
func (s *Store) Due(ctx context.Context, now time.Time, limit int) ([]intent.Receipt, error) {
	rows, err := receipts(s.reads.QueryContext(context.WithoutCancel(ctx), dueSQL, now.UnixMicro(), max(limit, 0)))
	if err != nil {
		return nil, fmt.Errorf("intentstore/sqlite: due: %w", err)
	}
	return rows, nil
}

// snapshot runs reads that belong together.
func (s *Store) snapshot(what string, f func(*sql.Tx) error) error {
	tx, err := s.reads.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	if err == nil {
		err = errors.Join(f(tx), tx.Rollback())
	}
	if err != nil {
		return fmt.Errorf("intentstore/sqlite: %s: %w", what, err)
	}
	return nil
}

// Audit implements intentstore.Desk.
func (s *Store) Audit(_ context.Context, k intent.Key, limit int) (entries []intent.Entry, err error) {
	err = s.snapshot("audit", func(tx *sql.Tx) error {
		entries, err = collect(tx, scanEntry, auditSQL, k[:], max(limit, 0))
		return err
	})
	slices.Reverse(entries)
	return entries, err
}

func scanEntry(rows *sql.Rows) (e intent.Entry, err error) {
	var key []byte
	var at sql.NullInt64
	var action string
	if err := rows.Scan(&e.ID, &key, &e.Tenant, &e.Tool, &at, &e.Actor, &action, &e.Reason, &e.Before, &e.After, &e.Evidence, &e.Traceparent); err != nil {
		return e, err
	}
	copy(e.Key[:], key)
	e.At = moment(at)
	e.Action, err = intent.ParseAction(action)
	return e, err
}

// Changes implements intentstore.Desk.
func (s *Store) Changes(_ context.Context, tenant string, after intentstore.Mark, limit int) (changes []intentstore.Change, mark intentstore.Mark, err error) {
	mark = after
	err = s.snapshot("changes", func(tx *sql.Tx) error {
		var attempts, entries intentstore.Tail
		if err := tx.QueryRow(settledSQL).Scan(&attempts.Settled, &entries.Settled); err != nil {
			return err
		}
		if after != (intentstore.Mark{}) {
			n := intentstore.PageLimit(limit)
			if err := tail(tx, &attempts, intentstore.CountAttempt, arrivalsSQL, tenant, after.Attempt, n); err != nil {
				return err
			}
			if err := tail(tx, &entries, intentstore.CountAudit, entriesSQL, tenant, after.Entry, n); err != nil {
				return err
			}
		}
		changes, mark = intentstore.MergeChanges(after, attempts, entries, limit)
		return nil
	})
	return changes, mark, err
}

func tail(tx *sql.Tx, t *intentstore.Tail, kind, query string, args ...any) error {
	_, err := collect(tx, func(rows *sql.Rows) (struct{}, error) {
		var id int64
		var at sql.NullInt64
		var key []byte
		c := intentstore.Change{Kind: kind}
		if err := rows.Scan(&id, &at, &key, &c.Tool, &c.Word); err != nil {
			return struct{}{}, err
		}
		copy(c.Key[:], key)
		c.At = moment(at)
		t.Add(id, c)
		return struct{}{}, nil
	}, query, args...)
	return err
}

// Stats implements intentstore.Desk.
func (s *Store) Stats(_ context.Context, q intentstore.StatsQuery) (stats intentstore.Stats, err error) {
	if err := intentstore.CheckStats(&q); err != nil {
		return stats, err
	}
	since, until, step := q.Minutes()
	err = s.snapshot("stats", func(tx *sql.Tx) error {
		stats.Counts, err = collect(tx, func(rows *sql.Rows) (c intentstore.Count, err error) {
			var minute int64
			err = rows.Scan(&minute, &c.Tool, &c.Kind, &c.Word, &c.N)
			c.At = time.Unix(minute*60, 0).UTC()
			return c, err
		}, countsSQL, q.Tenant, since, until, step)
		if err != nil {
			return err
		}
		stats.Open, err = collect(tx, func(rows *sql.Rows) (o intentstore.Open, err error) {
			var since sql.NullInt64
			err = rows.Scan(&o.Tool, &o.What, &o.N, &since)
			o.Oldest = moment(since)
			return o, err
		}, openSQL, q.Tenant)
		return err
	})
	return stats, err
}
