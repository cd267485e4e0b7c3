package memstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// List implements intentstore.Store.
func (s *Store) List(_ context.Context, q intentstore.Query) ([]intent.Receipt, string, error) {
	if err := intentstore.CheckQuery(&q); err != nil {
		return nil, "", err
	}
	after, paged, err := intentstore.ParseCursor(q.Cursor)
	if err != nil {
		return nil, "", err
	}
	search := intentstore.ParseSearch(q.Q)
	leave, err := s.enter(List, intent.Key{})
	if err != nil {
		return nil, "", err
	}
	rows := s.sorted(func(r *intent.Receipt) bool {
		return q.Narrows(r) && (!paged || after.Before(r)) && search.Matches(r, s.traced(r.Key, search.TraceID))
	}, newestFirst)
	if err := leave(); err != nil {
		return nil, "", err
	}
	rows, next := intentstore.Page(rows, q.Limit)
	return rows, next, nil
}

func (s *Store) traced(k intent.Key, id string) bool {
	return id != "" && slices.ContainsFunc(s.attempts[k], func(a intent.Attempt) bool { return a.TraceID == id })
}

// sorted returns copies of the rows that match.
func (s *Store) sorted(match func(*intent.Receipt) bool, order func(a, b intent.Receipt) int) []intent.Receipt {
	var rows []intent.Receipt
	for _, r := range s.rows {
		if match(&r) {
			rows = append(rows, copied(r))
		}
	}
	slices.SortFunc(rows, order)
	return rows
}

func newestFirst(a, b intent.Receipt) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), bytes.Compare(a.Key[:], b.Key[:]))
}

func longestSettledFirst(a, b intent.Receipt) int {
	return cmp.Or(a.SettledAt.Compare(b.SettledAt), bytes.Compare(a.Key[:], b.Key[:]))
}

// Overdue implements intentstore.Keeper.
func (s *Store) Overdue(_ context.Context, startedBefore time.Time, limit int) ([]intent.Receipt, error) {
	leave, err := s.enter(Overdue, intent.Key{})
	if err != nil {
		return nil, err
	}
	rows := s.sorted(func(r *intent.Receipt) bool {
		return r.Status == intent.Started && r.StartedAt.Before(startedBefore)
	}, func(a, b intent.Receipt) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), bytes.Compare(a.Key[:], b.Key[:]))
	})
	if err := leave(); err != nil {
		return nil, err
	}
	return rows[:min(len(rows), max(limit, 0))], nil
}

// Expire implements intentstore.Keeper.
func (s *Store) Expire(_ context.Context, settledBefore time.Time, limit int) (int, error) {
	leave, err := s.enter(Expire, intent.Key{})
	if err != nil {
		return 0, err
	}
	rows := s.sorted(func(r *intent.Receipt) bool {
		return r.Status.Settled() && !r.Expired && r.Doubt == 0 && r.SettledAt.Before(settledBefore)
	}, longestSettledFirst)
	rows = rows[:min(len(rows), max(limit, 0))]
	for _, r := range rows {
		s.put(intentstore.Tombstone(r))
	}
	return len(rows), leave()
}

// Forget implements intentstore.Keeper.
func (s *Store) Forget(_ context.Context, settledBefore time.Time, limit int) (int, error) {
	leave, err := s.enter(Forget, intent.Key{})
	if err != nil {
		return 0, err
	}
	rows := s.sorted(func(r *intent.Receipt) bool {
		return r.Expired && r.SettledAt.Before(settledBefore)
	}, longestSettledFirst)
	rows = rows[:min(len(rows), max(limit, 0))]
	for _, r := range rows {
		if s.guards[r.Guard] == r.Key {
			delete(s.guards, r.Guard)
		}
		delete(s.rows, r.Key)
		delete(s.ended, r.Key)
		delete(s.attempts, r.Key)
		s.entries = slices.DeleteFunc(s.entries, func(e intent.Entry) bool { return e.Key == r.Key })
	}
	return len(rows), leave()
}

// Ready implements intentstore.Keeper.
func (s *Store) Ready(context.Context) error {
	leave, err := s.enter(Ready, intent.Key{})
	if err != nil {
		return err
	}
	return leave()
}

// Close implements intentstore.Keeper; later calls fail.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// Record implements intentstore.Journal.
func (s *Store) Record(_ context.Context, attempts []intent.Attempt) error {
	var bad []error
	leave, err := s.enter(Record, intent.Key{})
	if err != nil {
		return err
	}
	var good []*intent.Attempt
	for _, a := range attempts {
		if err := intentstore.CheckAttempt(&a); err != nil {
			bad = append(bad, err)
			continue
		}
		a.At = intent.Micros(a.At)
		s.attempts[a.Key] = append(s.attempts[a.Key], a)
		s.arrivals = append(s.arrivals, a)
		good = append(good, &a)
	}
	s.count(intentstore.CountsOf(good)...)
	if err := leave(); err != nil {
		return err
	}
	return errors.Join(bad...)
}

// Attempts implements intentstore.Journal.
func (s *Store) Attempts(_ context.Context, k intent.Key, limit int) ([]intent.Attempt, int, []intent.Execution, error) {
	leave, err := s.enter(Attempts, k)
	if err != nil {
		return nil, 0, nil, err
	}
	attempts := slices.Clone(s.attempts[k])
	executions := slices.Clone(s.ended[k])
	if row, ok := s.rows[k]; ok {
		executions = intentstore.Executions(&row, executions)
	}
	if err := leave(); err != nil {
		return nil, 0, nil, err
	}
	slices.SortStableFunc(attempts, func(a, b intent.Attempt) int { return a.At.Compare(b.At) })
	total := len(attempts)
	return attempts[total-min(total, max(limit, 0)):], total, executions, nil
}
