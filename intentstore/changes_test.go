package intentstore_test

import (
	"slices"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// TestMergeChanges follows marks through tails of which the newest ids are not settled yet.
func TestMergeChanges(t *testing.T) {
	t.Parallel()
	type mark = intentstore.Mark
	at := func(n int64) intentstore.Change {
		return intentstore.Change{At: time.Unix(n, 0), Word: string(rune('a' + n))}
	}
	tail := func(settled int64, ids ...int64) (tail intentstore.Tail) { // change n comes at second n
		for _, id := range ids {
			tail.Add(id, at(id))
		}
		tail.Settled = settled
		return tail
	}
	for name, c := range map[string]struct {
		after             mark
		attempts, entries intentstore.Tail
		limit             int
		want              []intentstore.Change
		next              mark
	}{
		"from now on":                     {mark{}, tail(5), tail(3), 10, nil, mark{5, 3}},
		"from now on, nothing there":      {mark{}, tail(0), tail(0), 10, nil, mark{-1, -1}},
		"still nothing there":             {mark{-1, -1}, tail(0), tail(0), 10, nil, mark{-1, -1}},
		"the first ones, not yet settled": {mark{-1, -1}, tail(0, 1), tail(0, 2), 10, []intentstore.Change{at(1), at(2)}, mark{-1, -1}},
		"all settled":                     {mark{1, 1}, tail(5, 3, 5), tail(4, 2, 4), 10, []intentstore.Change{at(2), at(3), at(4), at(5)}, mark{5, 4}},
		"others' ids are passed":          {mark{1, 1}, tail(9), tail(8, 2), 10, []intentstore.Change{at(2)}, mark{9, 8}},
		"the newest come again":           {mark{1, 1}, tail(3, 3, 5), tail(1, 4), 10, []intentstore.Change{at(3), at(4), at(5)}, mark{3, 1}},
		"a full page":                     {mark{1, 1}, tail(9, 3, 5), tail(9, 2, 4), 3, []intentstore.Change{at(2), at(3), at(4)}, mark{3, 4}},
		"a full page of one table":        {mark{1, 1}, tail(9, 2, 3), tail(9, 8), 2, []intentstore.Change{at(2), at(3)}, mark{3, 1}},
		"a full page, part of it settled": {mark{1, 1}, tail(3, 3, 5), tail(1), 2, []intentstore.Change{at(3), at(5)}, mark{3, 1}},
		"a full page of new ones goes on": {mark{1, 1}, tail(1, 3, 5), tail(1), 2, []intentstore.Change{at(3), at(5)}, mark{5, 1}},
	} {
		got, next := intentstore.MergeChanges(c.after, c.attempts, c.entries, c.limit)
		if !slices.Equal(got, c.want) || next != c.next {
			t.Errorf("%s: %v, %+v; want %v, %+v", name, got, next, c.want, c.next)
		}
	}
}

func TestMinutes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		since, until       time.Duration
		step               time.Duration
		first, after, each int64
	}{
		{0, time.Minute, 0, 0, 1, 1},
		{59 * time.Second, 61 * time.Second, time.Minute, 0, 2, 1},
		{-time.Second, time.Second, 90 * time.Second, -1, 1, 1},
		{-time.Minute, 0, 5 * time.Minute, -1, 0, 5},
		{0, 2*time.Minute + 1, time.Hour, 0, 3, 60},
	} {
		q := intentstore.StatsQuery{Since: time.Unix(0, 0).Add(c.since), Until: time.Unix(0, 0).Add(c.until), Step: c.step}
		if first, after, each := q.Minutes(); first != c.first || after != c.after || each != c.each {
			t.Errorf("from %v to %v by %v: %d, %d, %d; want %d, %d, %d", c.since, c.until, c.step, first, after, each, c.first, c.after, c.each)
		}
	}
}

// TestSummed: batches that count the same things write their rows in one order, each once.
func TestSummed(t *testing.T) {
	t.Parallel()
	a := func(tenant, tool string, minute int, d intent.Decision) *intent.Attempt {
		return &intent.Attempt{Tenant: tenant, Tool: tool, At: time.Unix(int64(60*minute+59), 0), Decision: d}
	}
	attempts := []*intent.Attempt{a("b", "x", 1, intent.Replayed), a("a", "y", 2, intent.Executed), a("a", "x", 2, intent.Executed),
		a("a", "x", 1, intent.Replayed), a("b", "x", 1, intent.Replayed), a("a", "x", 1, intent.Executed)}
	want := []intentstore.MinuteCount{
		{"a", 1, "x", "attempt", "executed", 1}, {"a", 1, "x", "attempt", "replayed", 1}, {"a", 2, "x", "attempt", "executed", 1},
		{"a", 2, "y", "attempt", "executed", 1}, {"b", 1, "x", "attempt", "replayed", 2},
	}
	for range len(attempts) {
		attempts = append(attempts[1:], attempts[0])
		if got := intentstore.CountsOf(attempts); !slices.Equal(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

func TestReplaced(t *testing.T) {
	t.Parallel()
	was := intent.Receipt{Status: intent.Unknown, Fence: 1, Version: 2, ClaimID: intent.ClaimID{1}}
	moved, err := was.Reexecute(intent.Opening{ClaimID: intent.ClaimID{2}, At: time.Unix(1, 0)})
	if err != nil {
		t.Fatal(err)
	}
	planned := was.Wait(intent.Plan{NextCheck: time.Unix(9, 0)})
	other := moved
	other.ClaimID = intent.ClaimID{3}
	for name, c := range map[string]struct {
		row, now intent.Receipt
		doubted  bool
		want     bool
	}{
		"the move":                    {moved, moved, false, true},
		"another's move":              {other, moved, true, false},
		"not yet":                     {was, moved, true, false},
		"a plan, and mine was sent":   {planned, planned, true, true},
		"a plan, perhaps another's":   {planned, planned, false, false},
		"a plan that is not there":    {was, planned, true, false},
		"a plan with a doubt by then": {planned.Suspect(intent.DoubtLateAnswer, time.Time{}), planned, true, false},
	} {
		if got := intentstore.Replaced(&c.row, &was, &c.now, c.doubted); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
