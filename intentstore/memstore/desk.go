package memstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// Replace implements intentstore.Desk.
func (s *Store) Replace(_ context.Context, was, now intent.Receipt, entry *intent.Entry) (intent.Receipt, error) {
	if err := intentstore.CheckReplace(&was, &now, entry); err != nil {
		return intent.Receipt{}, err
	}
	leave, err := s.enter(Replace, was.Key)
	if err != nil {
		return intent.Receipt{}, err
	}
	row, err := s.replace(intentstore.Kept(was), intentstore.Replacement(was, now), entry)
	if lost := leave(); lost != nil {
		return intent.Receipt{}, lost
	}
	return row, err
}

func (s *Store) replace(was, now intent.Receipt, entry *intent.Entry) (intent.Receipt, error) {
	row, ok := s.rows[was.Key]
	switch {
	case !ok:
		return intent.Receipt{}, intent.ErrNone
	case !intentstore.Stands(&row, &was):
		if intentstore.Replaced(&row, &was, &now, false) {
			return copied(row), nil
		}
		return copied(row), intent.ErrStale
	}
	if e, ended := intentstore.Superseded(&was, &now); ended {
		s.end(e)
	}
	s.put(now)
	if entry != nil {
		e := *entry
		s.lastID++
		e.ID, e.At, e.Evidence = s.lastID, intent.Micros(e.At), bytes.Clone(e.Evidence)
		s.entries = append(s.entries, e)
		s.count(intentstore.CountOfEntry(&e))
	}
	return copied(now), nil
}

// Due implements intentstore.Desk.
func (s *Store) Due(_ context.Context, now time.Time, limit int) ([]intent.Receipt, error) {
	leave, err := s.enter(Due, intent.Key{})
	if err != nil {
		return nil, err
	}
	rows := s.sorted(func(r *intent.Receipt) bool {
		at := dueAt(r)
		return !at.IsZero() && !at.After(now)
	}, func(a, b intent.Receipt) int {
		return cmp.Or(dueAt(&a).Compare(dueAt(&b)), bytes.Compare(a.Key[:], b.Key[:]))
	})
	if err := leave(); err != nil {
		return nil, err
	}
	return rows[:min(len(rows), max(limit, 0))], nil
}

// dueAt is the earlier of the two times that are set.
func dueAt(r *intent.Receipt) time.Time {
	if r.NextCheck.IsZero() || !r.NotifyAt.IsZero() && r.NotifyAt.Before(r.NextCheck) {
		return r.NotifyAt
	}
	return r.NextCheck
}

// Audit implements intentstore.Desk.
func (s *Store) Audit(_ context.Context, k intent.Key, limit int) ([]intent.Entry, error) {
	leave, err := s.enter(Audit, k)
	if err != nil {
		return nil, err
	}
	var entries []intent.Entry
	for _, e := range s.entries {
		if e.Key == k {
			e.Evidence = bytes.Clone(e.Evidence)
			entries = append(entries, e)
		}
	}
	if err := leave(); err != nil {
		return nil, err
	}
	return entries[len(entries)-min(len(entries), max(limit, 0)):], nil
}

// Changes implements intentstore.Desk.
func (s *Store) Changes(_ context.Context, tenant string, after intentstore.Mark, limit int) ([]intentstore.Change, intentstore.Mark, error) {
	leave, err := s.enter(Changes, intent.Key{})
	if err != nil {
		return nil, after, err
	}
	attempts := intentstore.Tail{Settled: int64(len(s.arrivals))}
	entries := intentstore.Tail{Settled: s.lastID}
	for i, a := range s.arrivals {
		if id := int64(i + 1); id > after.Attempt && a.Tenant == tenant {
			attempts.Add(id, intentstore.ChangeOfAttempt(&a))
		}
	}
	for _, e := range s.entries {
		if e.ID > after.Entry && e.Tenant == tenant {
			entries.Add(e.ID, intentstore.ChangeOfEntry(&e))
		}
	}
	changes, mark := intentstore.MergeChanges(after, attempts, entries, limit)
	if err := leave(); err != nil {
		return nil, after, err
	}
	return changes, mark, nil
}

// count adds to the counts.
func (s *Store) count(counts ...intentstore.MinuteCount) {
	s.counts = intentstore.Summed(append(s.counts, counts...))
}

// Stats implements intentstore.Desk.
func (s *Store) Stats(_ context.Context, q intentstore.StatsQuery) (intentstore.Stats, error) {
	if err := intentstore.CheckStats(&q); err != nil {
		return intentstore.Stats{}, err
	}
	leave, err := s.enter(Stats, intent.Key{})
	if err != nil {
		return intentstore.Stats{}, err
	}
	since, until, step := q.Minutes()
	var steps []intentstore.MinuteCount
	for _, c := range s.counts {
		if c.Tenant == q.Tenant && c.Minute >= since && c.Minute < until {
			c.Minute = since + (c.Minute-since)/step*step
			steps = append(steps, c)
		}
	}
	var stats intentstore.Stats
	for _, c := range intentstore.Summed(steps) {
		stats.Counts = append(stats.Counts, intentstore.Count{At: time.Unix(c.Minute*60, 0).UTC(), Tool: c.Tool, Kind: c.Kind, Word: c.Word, N: c.N})
	}
	for _, r := range s.rows {
		if r.Tenant == q.Tenant && r.Attention() {
			stats.Open = open(stats.Open, &r)
		}
	}
	slices.SortFunc(stats.Open, func(a, b intentstore.Open) int {
		return cmp.Or(cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.What, b.What))
	})
	if err := leave(); err != nil {
		return intentstore.Stats{}, err
	}
	return stats, nil
}

// open adds a row to the numbers of what waits.
func open(all []intentstore.Open, r *intent.Receipt) []intentstore.Open {
	add := func(what string, since time.Time) {
		i := slices.IndexFunc(all, func(o intentstore.Open) bool { return o.Tool == r.Tool && o.What == what })
		if i < 0 {
			all = append(all, intentstore.Open{Tool: r.Tool, What: what, Oldest: since})
			i = len(all) - 1
		}
		all[i].N++
		if since.Before(all[i].Oldest) {
			all[i].Oldest = since
		}
	}
	if r.Status == intent.Unknown || r.Status == intent.AwaitingApproval {
		since := r.CreatedAt
		if r.Status == intent.Unknown {
			since = r.UnknownSince
		}
		add(r.Status.String(), since)
	}
	if r.Parked != 0 {
		add("parked", r.UnknownSince)
	}
	if r.Doubt != 0 {
		add("doubt", r.CreatedAt)
	}
	return all
}
