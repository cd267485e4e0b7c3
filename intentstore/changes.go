package intentstore

import (
	"cmp"
	"slices"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
)

// Tail is what one table has after a mark: changes in the order of their ids, at most limit
// of them, and the id up to which nothing can turn up any more.
type Tail struct {
	IDs     []int64
	Changes []Change
	Settled int64
}

// Add appends one change.
func (t *Tail) Add(id int64, c Change) {
	t.IDs, t.Changes = append(t.IDs, id), append(t.Changes, c)
}

// ChangeOfAttempt is an arrival as people see it who watch.
func ChangeOfAttempt(a *intent.Attempt) Change {
	return Change{At: a.At, Key: a.Key, Tool: a.Tool, Kind: CountAttempt, Word: a.Decision.String()}
}

// ChangeOfEntry is an entry of the audit as people see it who watch.
func ChangeOfEntry(e *intent.Entry) Change {
	return Change{At: e.At, Key: e.Key, Tool: e.Tool, Kind: CountAudit, Word: e.Action.String()}
}

// MergeChanges makes one stream of the arrivals' and the entries' tails, at most limit
// changes, and the mark to go on from: behind what nothing can be added to any more, so that
// later changes come twice rather than never. A full page goes on behind itself all the
// same, because who watches must not fall behind for ever.
func MergeChanges(after Mark, attempts, entries Tail, limit int) ([]Change, Mark) {
	limit = PageLimit(limit)
	attempts.Settled, entries.Settled = place(attempts.Settled), place(entries.Settled)
	if after == (Mark{}) {
		return nil, Mark{attempts.Settled, entries.Settled}
	}
	var all []Change
	i, j := 0, 0
	for len(all) < limit && (i < len(attempts.IDs) || j < len(entries.IDs)) {
		if j == len(entries.IDs) || i < len(attempts.IDs) && !entries.Changes[j].At.Before(attempts.Changes[i].At) {
			all = append(all, attempts.Changes[i])
			i++
		} else {
			all = append(all, entries.Changes[j])
			j++
		}
	}
	full := len(all) == limit
	return all, Mark{attempts.goOn(after.Attempt, i, full), entries.goOn(after.Entry, j, full)}
}

// place is a settled id as part of a mark; before the first row it is not zero, because the
// zero mark means "from now on".
func place(settled int64) int64 {
	if settled == 0 {
		return -1
	}
	return settled
}

// goOn is the mark after the first taken changes.
func (t *Tail) goOn(after int64, taken int, full bool) int64 {
	switch {
	case !full:
		return max(after, t.Settled)
	case taken == 0:
		return after
	}
	last := t.IDs[taken-1]
	if sure := min(last, t.Settled); sure > after {
		return sure
	}
	return last
}

// CountsOf counts attempts by the minute, in the order in which their rows are to be written:
// two batches that count the same things then wait for each other and never in a circle.
func CountsOf(attempts []*intent.Attempt) []MinuteCount {
	var counts []MinuteCount
	for _, a := range attempts {
		counts = append(counts, MinuteCount{a.Tenant, MinuteOf(a.At), a.Tool, CountAttempt, a.Decision.String(), 1})
	}
	return Summed(counts)
}

// CountOfEntry counts one entry.
func CountOfEntry(e *intent.Entry) MinuteCount {
	return MinuteCount{e.Tenant, MinuteOf(e.At), e.Tool, CountAudit, e.Action.String(), 1}
}

// CountOfLoss counts an execution that ended unknown; ok is false for any other settlement.
func CountOfLoss(row *intent.Receipt, s *intent.Settlement) (c MinuteCount, ok bool) {
	if s.Verb != intent.Lose || row == nil {
		return c, false
	}
	return MinuteCount{row.Tenant, MinuteOf(s.At), row.Tool, CountExecution, s.Status.String(), 1}, true
}

// MinuteCount is a row of the counts table.
type MinuteCount struct {
	Tenant string
	Minute int64 // since 1970
	Tool   string
	Kind   string
	Word   string
	N      int64
}

// Summed adds up counts of the same thing and sorts them.
func Summed(counts []MinuteCount) []MinuteCount {
	slices.SortFunc(counts, MinuteCount.compare)
	kept := counts[:0]
	for _, c := range counts {
		if n := len(kept); n > 0 && kept[n-1].compare(c) == 0 {
			kept[n-1].N += c.N
		} else {
			kept = append(kept, c)
		}
	}
	return kept
}

func (c MinuteCount) compare(d MinuteCount) int {
	return cmp.Or(cmp.Compare(c.Tenant, d.Tenant), cmp.Compare(c.Minute, d.Minute), cmp.Compare(c.Tool, d.Tool),
		cmp.Compare(c.Kind, d.Kind), cmp.Compare(c.Word, d.Word))
}

// MinuteOf is the minute of a time, since 1970.
func MinuteOf(t time.Time) int64 { return floor(t.Unix(), 60) }

// Minutes are the query's times in minutes: since, cut down; until, made up; and the step.
func (q *StatsQuery) Minutes() (since, until, step int64) {
	since, until = MinuteOf(q.Since), MinuteOf(q.Until)
	if q.Until.After(time.Unix(until*60, 0)) {
		until++
	}
	return since, until, max(int64(q.Step/time.Minute), 1)
}

func floor(n, by int64) int64 {
	if n < 0 {
		return -((-n + by - 1) / by)
	}
	return n / by
}
