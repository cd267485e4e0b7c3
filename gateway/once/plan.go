package once

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/intent"
)

// Bounds of what is done about an unknown key without a person.
const (
	maxTries   = 5                // re-executions of one key
	retryFirst = time.Second      // before the first one; then it doubles
	checkMost  = 10 * time.Minute // between two lookups, unless the tool's own interval is longer
	growth     = 1.5              // of the pause between two lookups
)

// plan says how an unknown key will be found out about (DESIGN §5), from the tool as it is
// configured now, nil for one that is gone. r.UnknownSince is zero when it is only about to
// become unknown, at now.
func (e *Engine) plan(t *downstream.Tool, r *intent.Receipt, now time.Time) intent.Plan {
	switch {
	case t == nil:
		return e.parked(intent.ParkedNoTool, now)
	case t.OnUnknown == downstream.LookupUnknown && t.Lookup != nil:
		return e.planLookup(t.Lookup, r, now)
	case t.OnUnknown == downstream.RetryUnknown:
		return e.planRetry(t, r, now)
	}
	return e.parked(intent.ParkedByPolicy, now)
}

// planLookup: every, then less and less often. One lookup falls right after settle_after, when
// absence begins to count, and a last one on give_up_after.
func (e *Engine) planLookup(l *downstream.LookupSpec, r *intent.Receipt, now time.Time) intent.Plan {
	since := r.UnknownSince
	if since.IsZero() {
		since = now
	}
	end := since.Add(l.GiveUpAfter)
	if r.Checks > 0 && !now.Before(end) {
		return e.parked(intent.ParkedGaveUp, now)
	}
	pause := max(l.Every, min(checkMost, grown(l.Every, growth, r.Checks)))
	next := now.Add(jitter(pause))
	if settled := since.Add(l.SettleAfter); now.Before(settled) && next.After(settled) {
		next = settled
	}
	if next.After(end) && now.Before(end) {
		next = end
	}
	return intent.Plan{NextCheck: intent.Micros(next)}
}

// planRetry: a bounded number of times, and only while the downstream still knows the key
// when the answer comes. Its window counts from when it may first have seen the key. Where
// a second call leaves the same state there is no window.
func (e *Engine) planRetry(t *downstream.Tool, r *intent.Receipt, now time.Time) intent.Plan {
	if r.Checks >= maxTries {
		return e.parked(intent.ParkedTries, now)
	}
	next := now.Add(jitter(grown(retryFirst, 2, r.Checks)))
	if !e.mayResend(t, r, next) {
		return e.parked(intent.ParkedWindow, now)
	}
	return intent.Plan{NextCheck: intent.Micros(next)}
}

// mayResend says whether sending the same request again at a time cannot act twice.
func (e *Engine) mayResend(t *downstream.Tool, r *intent.Receipt, at time.Time) bool {
	if t.Class == intent.Idempotent {
		return true
	}
	return t.Dedupes && t.ForwardHeader != "" && at.Add(t.Timeout).Before(r.CreatedAt.Add(t.DedupesFor))
}

func (e *Engine) parked(why intent.Parking, now time.Time) intent.Plan {
	return intent.Plan{Parked: why, NotifyAt: e.notify(now)}
}

// notify is when people are to be told: at once, if anybody is to be told at all.
func (e *Engine) notify(now time.Time) time.Time {
	if !e.Notify {
		return time.Time{}
	}
	return intent.Micros(now)
}

// grown is first times factor to the power of n, bounded so that it stays a duration.
func grown(first time.Duration, factor float64, n int) time.Duration {
	return time.Duration(min(float64(first)*math.Pow(factor, float64(min(n, 64))), float64(365*24*time.Hour)))
}

// jitter spreads a pause by a tenth, so that keys that were lost together are not checked
// together for ever.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/10+1) }
