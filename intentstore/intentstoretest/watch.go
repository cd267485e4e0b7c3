package intentstoretest

import (
	"fmt"
	"slices"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

var watchTests = []test{
	{"the audit is kept in order", func(b *bench) {
		r := b.unknown(soon)
		var want []intent.Entry
		for i := range 5 {
			now := r.Checked([]byte("{}"), intent.Plan{NextCheck: soon.NextCheck.Add(time.Duration(i+1) * time.Second)})
			e := entry(intent.ActionLookup, r, now)
			e.At = epoch.Add(-time.Duration(i) * time.Hour) // by id, not by a replica's clock
			if i == 0 {
				e.Evidence, e.Traceparent, e.Reason = nil, "", ""
			}
			r = b.replace(r, now, e)
			want = append(want, *e)
		}
		for _, limit := range []int{5, 100, 2, 1, 0} {
			got, err := b.s.Audit(b.ctx, r.Key, limit)
			if err != nil || len(got) != min(limit, 5) {
				b.Fatalf("Audit(%d): %d entries, %v", limit, len(got), err)
			}
			for i, w := range want[5-len(got):] {
				if i > 0 && got[i].ID <= got[i-1].ID {
					b.Errorf("id %d after %d", got[i].ID, got[i-1].ID)
				}
				w.ID = got[i].ID
				if g := got[i]; fmt.Sprintf("%+v", g) != fmt.Sprintf("%+v", w) || (g.Evidence == nil) != (w.Evidence == nil) {
					b.Errorf("entry %d: %+v, want %+v", i, g, w)
				}
			}
		}
		if got, err := b.s.Audit(b.ctx, b.digest("none", 0), 10); err != nil || len(got) != 0 {
			b.Errorf("Audit of no key: %d entries, %v", len(got), err)
		}
	}},
	{"numbers are counted by the minute", func(b *bench) {
		minute := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
		r := b.completed()
		at := func(d time.Duration, decision intent.Decision, tool string) intent.Attempt {
			return intent.Attempt{Key: r.Key, Tenant: b.tenant, Tool: tool, At: minute.Add(d), Decision: decision}
		}
		for _, batch := range [][]intent.Attempt{
			{at(0, intent.Executed, "mail"), at(59*time.Second, intent.Replayed, "mail"), at(61*time.Second, intent.Replayed, "mail")},
			{at(30*time.Second, intent.Replayed, "mail"), at(10*time.Minute, intent.Replayed, "mail"), at(0, intent.Replayed, "charge"),
				at(-time.Second, intent.Executed, "mail")},
		} {
			if err := b.s.Record(b.ctx, batch); err != nil {
				b.Fatal(err)
			}
		}
		lost := b.begin(b.started())
		lost = b.settle(lost.LoseMove("timeout", nil, soon, minute.Add(70*time.Second)))
		b.settle(lost.LoseMove("timeout", nil, soon, minute.Add(70*time.Second))) // a repeat is not another one
		now := lost.Checked(nil, intent.Plan{Parked: intent.ParkedGaveUp})
		e := entry(intent.ActionPark, lost, now)
		e.At = minute.Add(2 * time.Minute)
		b.replace(lost, now, e)

		count := func(d time.Duration, tool, kind, word string, n int64) intentstore.Count {
			return intentstore.Count{At: minute.Add(d), Tool: tool, Kind: kind, Word: word, N: n}
		}
		for _, c := range []struct {
			since, until, step time.Duration
			want               []intentstore.Count
		}{
			{0, 5 * time.Minute, time.Minute, []intentstore.Count{
				count(0, "charge", intentstore.CountAttempt, "replayed", 1),
				count(0, "mail", intentstore.CountAttempt, "executed", 1),
				count(0, "mail", intentstore.CountAttempt, "replayed", 2),
				count(time.Minute, "mail", intentstore.CountAttempt, "replayed", 1),
				count(time.Minute, lost.Tool, intentstore.CountExecution, "unknown", 1),
				count(2*time.Minute, lost.Tool, intentstore.CountAudit, "park", 1),
			}},
			{30 * time.Second, 11 * time.Minute, 5 * time.Minute, []intentstore.Count{
				count(0, "charge", intentstore.CountAttempt, "replayed", 1),
				count(0, "mail", intentstore.CountAttempt, "executed", 1),
				count(0, "mail", intentstore.CountAttempt, "replayed", 3),
				count(0, lost.Tool, intentstore.CountAudit, "park", 1),
				count(0, lost.Tool, intentstore.CountExecution, "unknown", 1),
				count(10*time.Minute, "mail", intentstore.CountAttempt, "replayed", 1),
			}},
			{-time.Minute, 0, 0, []intentstore.Count{count(-time.Minute, "mail", intentstore.CountAttempt, "executed", 1)}},
			{20 * time.Minute, 40 * time.Minute, time.Hour, nil},
		} {
			stats, err := b.s.Stats(b.ctx, intentstore.StatsQuery{Tenant: b.tenant, Since: minute.Add(c.since), Until: minute.Add(c.until), Step: c.step})
			if err != nil || !slices.Equal(stats.Counts, c.want) {
				b.Errorf("Stats from %v to %v by %v: %v\n%+v, want\n%+v", c.since, c.until, c.step, err, stats.Counts, c.want)
			}
		}
		if _, err := b.s.Stats(b.ctx, intentstore.StatsQuery{}); err == nil {
			b.Error("Stats without a tenant gives no error")
		}
	}},
	{"numbers of what waits, and the attention list", func(b *bench) {
		young, old := b.unknown(intent.Plan{}), b.begin(b.started())
		old = b.settle(old.LoseMove("timeout", nil, intent.Plan{Parked: intent.ParkedByPolicy}, epoch.Add(-time.Hour)))
		waiting := b.begin(b.awaiting())
		other := b.awaiting()
		other.Tool = "charge"
		other = b.begin(other)
		done := b.completed()
		done = b.replace(done, done.Suspect(intent.DoubtContradicted, epoch), nil)
		running := b.begin(b.started())
		running = b.replace(running, running.Suspect(intent.DoubtLateAnswer, epoch), nil)
		b.begin(b.started())
		b.completed()
		b.rejected(intent.RetryCorrected)
		seen := b.completed()
		seen = b.replace(seen, seen.Suspect(intent.DoubtContradicted, epoch), nil)
		b.replace(seen, seen.Suspect(0, time.Time{}), nil)

		stats, err := b.s.Stats(b.ctx, intentstore.StatsQuery{Tenant: b.tenant})
		want := []intentstore.Open{
			{Tool: "charge", What: "awaiting_approval", N: 1, Oldest: other.CreatedAt},
			{Tool: done.Tool, What: "awaiting_approval", N: 1, Oldest: waiting.CreatedAt},
			{Tool: done.Tool, What: "doubt", N: 2, Oldest: done.CreatedAt},
			{Tool: done.Tool, What: "parked", N: 1, Oldest: old.UnknownSince},
			{Tool: done.Tool, What: "unknown", N: 2, Oldest: old.UnknownSince},
		}
		if err != nil || !slices.Equal(stats.Open, want) {
			b.Errorf("Stats: %v\n%+v, want\n%+v", err, stats.Open, want)
		}
		b.lists(intentstore.Query{Attention: true}, running.Key, done.Key, other.Key, waiting.Key, old.Key, young.Key)
		b.lists(intentstore.Query{Attention: true, Limit: 2}, running.Key, done.Key, other.Key, waiting.Key, old.Key, young.Key)
		b.lists(intentstore.Query{Attention: true, Tool: "charge"}, other.Key)
		b.lists(intentstore.Query{Attention: true, Status: intent.Unknown}, old.Key, young.Key)
		b.lists(intentstore.Query{Attention: true, Q: running.Key.String()}, running.Key)
	}},
	{"whoever watches sees every change", func(b *bench) {
		none, mark, err := b.s.Changes(b.ctx, b.tenant, intentstore.Mark{}, 100)
		if err != nil || len(none) != 0 || mark == (intentstore.Mark{}) {
			b.Fatalf("Changes from now on: %d, mark %+v, %v", len(none), mark, err)
		}
		r := b.unknown(soon)
		var want []intentstore.Change
		for i := range 4 {
			a := intent.Attempt{Key: r.Key, Tenant: b.tenant, Tool: r.Tool, At: epoch.Add(time.Duration(2*i) * time.Second), Decision: intent.Collapsed}
			stranger := a
			stranger.Tenant += "/other"
			if err := b.s.Record(b.ctx, []intent.Attempt{stranger, a}); err != nil {
				b.Fatal(err)
			}
			now := r.Checked(nil, intent.Plan{NextCheck: soon.NextCheck.Add(time.Duration(i+1) * time.Second)})
			e := entry(intent.ActionLookup, r, now)
			e.At = epoch.Add(time.Duration(2*i+1) * time.Second)
			r = b.replace(r, now, e)
			want = append(want, intentstore.ChangeOfAttempt(&a), intentstore.ChangeOfEntry(e))
		}
		got, _, err := b.s.Changes(b.ctx, b.tenant, mark, 100)
		if err != nil || !slices.Equal(got, want) {
			b.Errorf("Changes: %v\n%+v, want\n%+v", err, got, want)
		}
		// In pages, some may come twice but none is left out, and it goes on.
		var seen []intentstore.Change
		at := mark
		for pages := 0; len(seen) == 0 || seen[len(seen)-1] != want[len(want)-1]; pages++ {
			if got, at, err = b.s.Changes(b.ctx, b.tenant, at, 3); err != nil || len(got) > 3 || pages > 100 {
				b.Fatalf("Changes in pages: %d, page %d, %v", len(got), pages, err)
			}
			seen = append(seen, got...)
		}
		for _, w := range want {
			if !slices.Contains(seen, w) {
				b.Errorf("in pages, %+v was left out", w)
			}
		}
	}},
}

// wholeDeskTests look at the whole store.
var wholeDeskTests = []test{
	{"due finds what is to be checked or told, the longest overdue first", func(b *bench) {
		at := func(minutes int) time.Time { return epoch.Add(time.Duration(minutes) * time.Minute) }
		told := b.completed()
		told = b.replace(told, told.Suspect(intent.DoubtContradicted, at(1)), nil)
		check := b.unknown(intent.Plan{NextCheck: at(2)})
		both := b.unknown(intent.Plan{NextCheck: at(30), NotifyAt: at(3)})
		expires := b.awaiting()
		expires.Plan = intent.Plan{NextCheck: at(4), NotifyAt: at(60)}
		expires = b.begin(expires)
		later := b.unknown(intent.Plan{NextCheck: at(50)})
		b.unknown(intent.Plan{Parked: intent.ParkedGaveUp})
		b.begin(b.started())
		b.completed()
		settled := b.unknown(intent.Plan{NextCheck: at(0), NotifyAt: at(0)})
		b.settle(settled.CompleteMove("lookup", nil, epoch))
		for _, c := range []struct {
			now   time.Time
			limit int
			want  []intent.Receipt
		}{
			{at(4), 10, []intent.Receipt{told, check, both, expires}},
			{at(4).Add(-time.Microsecond), 10, []intent.Receipt{told, check, both}},
			{at(100), 10, []intent.Receipt{told, check, both, expires, later}},
			{at(100), 2, []intent.Receipt{told, check}},
			{at(100), 0, nil},
			{at(0), 10, nil},
		} {
			got, err := b.s.Due(b.ctx, c.now, c.limit)
			if err != nil || len(got) != len(c.want) {
				b.Fatalf("Due(%v, %d): %d rows, %v; want %d", c.now, c.limit, len(got), err, len(c.want))
			}
			for i := range got {
				b.same("due row", got[i], c.want[i])
			}
		}
	}},
	{"from now on is also from an empty store", func(b *bench) {
		_, mark, err := b.s.Changes(b.ctx, b.tenant, intentstore.Mark{}, 10)
		if err != nil || mark == (intentstore.Mark{}) {
			b.Fatalf("mark %+v, %v", mark, err)
		}
		a := intent.Attempt{Key: b.started().Key, Tenant: b.tenant, At: epoch, Decision: intent.Refused}
		if err := b.s.Record(b.ctx, []intent.Attempt{a}); err != nil {
			b.Fatal(err)
		}
		if got, _, err := b.s.Changes(b.ctx, b.tenant, mark, 10); err != nil || len(got) != 1 {
			b.Errorf("Changes: %d, %v; want the first arrival of all", len(got), err)
		}
	}},
	{"a doubt keeps a result, and what is forgotten has no audit", func(b *bench) {
		limit := epoch.Add(24 * time.Hour)
		doubted, plain := b.completed(), b.completed()
		now := doubted.Suspect(intent.DoubtLateAnswer, epoch)
		doubted = b.replace(doubted, now, entry(intent.ActionLateAnswer, doubted, now))
		if n, err := b.s.Expire(b.ctx, limit, 10); n != 1 || err != nil {
			b.Fatalf("Expire: %d, %v; want 1", n, err)
		}
		b.same("with a doubt", b.get(doubted.Key), doubted)
		b.same("without", b.get(plain.Key), intentstore.Tombstone(plain))
		now = doubted.Suspect(0, time.Time{})
		b.replace(doubted, now, entry(intent.ActionAcknowledge, doubted, now))
		if n, err := b.s.Expire(b.ctx, limit, 10); n != 1 || err != nil {
			b.Fatalf("Expire of what was seen to: %d, %v; want 1", n, err)
		}
		b.audited(doubted.Key, intent.ActionLateAnswer, intent.ActionAcknowledge)
		if n, err := b.s.Forget(b.ctx, limit, 10); n != 2 || err != nil {
			b.Fatalf("Forget: %d, %v; want 2", n, err)
		}
		b.audited(doubted.Key)
	}},
}
