package once

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/tracing"
)

// checkFor is how long a reconciler has a row for one check, before the row is due again and
// another may take it: longer than any lookup runs.
const checkFor = 30 * time.Second

// Recover goes on with a row whose next check is due: an approval that nobody gave expires,
// a lookup asks whether it happened, a safe retry is made. Every replica calls it without
// electing anybody: whoever moves NextCheck on has the row until then.
//
// Dies here: the row is due again and somebody else takes it. A lookup only asks; what may act
// begins with a row in started, as in a call.
func (e *Engine) Recover(ctx context.Context, row intent.Receipt) error {
	span := e.Telemetry.Begin(tracing.SpanReconcile)
	defer span.End()
	span.About(about(&row))
	span.Link(row.Traceparent)
	ctx = tracing.With(ctx, span)
	now := time.Now()
	if row.Status == intent.AwaitingApproval {
		_, err := e.expire(ctx, row, now)
		return over(err)
	}
	if row.Status != intent.Unknown {
		return nil
	}
	t, _ := e.Tools(row.Tool)
	if p := e.plan(t, &row, now); p.NextCheck.IsZero() && (t == nil || p.Parked != intent.ParkedGaveUp) {
		return over(e.park(ctx, row, p, nil))
	}
	taken, err := e.Desk.Replace(ctx, row, row.Wait(intent.Plan{NextCheck: now.Add(checkFor)}), nil)
	if err != nil {
		return over(err)
	}
	if t.OnUnknown == downstream.LookupUnknown {
		_, err = e.check(ctx, t, taken, own(ctx, ""), nil)
	} else {
		err = e.retry(ctx, t, taken)
	}
	return over(err)
}

// over: somebody else has moved the row meanwhile, or its downstream takes no calls and the
// row is due again soon.
func over(err error) error {
	if errors.Is(err, intent.ErrStale) || errors.Is(err, intent.ErrNone) || errors.Is(err, errRefused) {
		return nil
	}
	return err
}

// own is what the gateway does by itself, for the reason given.
func own(ctx context.Context, reason string) Order {
	return Order{By: intent.ActorGateway, Reason: reason, Span: tracing.From(ctx)}
}

// expire declines what nobody approved in time.
func (e *Engine) expire(ctx context.Context, row intent.Receipt, now time.Time) (intent.Receipt, error) {
	after, err := row.Decline("gateway", intent.ReasonExpired, nil, now)
	if err != nil {
		return row, err
	}
	return e.replace(ctx, row, after, entry(row, intent.ActionExpire, own(ctx, intent.ReasonExpired), nil, now))
}

// park leaves an unknown key to a person.
func (e *Engine) park(ctx context.Context, row intent.Receipt, p intent.Plan, evidence []byte) error {
	after := row.Wait(p)
	if evidence != nil {
		after = row.Checked(evidence, p)
	}
	_, err := e.replace(ctx, row, after, entry(row, intent.ActionPark, own(ctx, p.Parked.String()), evidence, time.Now()))
	return err
}

// check asks the downstream, and makes of the answer what DESIGN §5 allows. row has been
// taken; instead, if given, is its plan again where the lookup proves nothing: a person asked.
func (e *Engine) check(ctx context.Context, t *downstream.Tool, row intent.Receipt, by Order, instead *intent.Plan) (intent.Receipt, error) {
	args, err := e.asking(t, &row)
	if err != nil {
		return row, e.park(ctx, row, e.parked(intent.ParkedNoArgs, time.Now()), nil)
	}
	asked := time.Now() // absence counts from before the question
	l := by.Span.Lookup(t.Asks(), t.Host())
	l.Link(row.Traceparent)
	found := e.Effects.Lookup(ctx, downstream.Call{
		Tool: t, Args: args, Key: row.Key, RunID: row.RunID, StepID: row.StepID,
		Traceparent: l.Traceparent(), Tracestate: l.Tracestate(), Baggage: l.Baggage(),
	})
	l.Received(0, found.Why)
	now := time.Now()
	if by.By == intent.ActorGateway {
		by.Reason = proved(found)
	}
	line := entry(row, intent.ActionLookup, by, found.Evidence, now)

	switch settled := !asked.Before(row.UnknownSince.Add(t.Lookup.SettleAfter)); {
	case found.Proof == downstream.Happened:
		s := row.CompleteMove("lookup", found.Outcome, now)
		s.Evidence = found.Evidence
		return e.settleBy(ctx, row, s, line)

	case found.Proof == downstream.Absent && settled && t.Lookup.AbsenceIsProof:
		if t.Lookup.ReexecuteWhenAbsent && row.Executions < maxTries {
			noted := row.Checked(found.Evidence, row.Plan)
			if row, err = e.replace(ctx, row, noted, line); err != nil {
				return row, err
			}
			after, err := e.reexecute(ctx, t, row, intent.ActionReexecute, own(ctx, "absent"), e.firstMove)
			if errors.Is(err, errNoArgs) {
				err = e.park(ctx, row, e.parked(intent.ParkedNoArgs, now), nil)
			}
			return after, err
		}
		s := row.RejectMove("lookup", intent.RetrySameKey, 0, "a lookup proved that it did not happen", nil, false, now)
		s.Evidence = found.Evidence
		return e.settleBy(ctx, row, s, line)
	}

	if found.Why == "no_permit" || found.Why == "breaker_open" { // nothing was asked
		p := e.plan(t, &row, now)
		if instead != nil {
			p = *instead
		}
		return e.replace(ctx, row, row.Wait(p), nil)
	}
	noted := row.Checked(found.Evidence, intent.Plan{})
	p := e.plan(t, &noted, now)
	if instead != nil && row.Parked == 0 && instead.Parked != 0 {
		p = *instead
	}
	if p.Parked != 0 && instead == nil {
		line.Action, line.Reason = intent.ActionPark, p.Parked.String()
	}
	return e.replace(ctx, row, noted.Wait(p), line)
}

// proved says in one word what a lookup found.
func proved(f downstream.Finding) string {
	switch f.Proof {
	case downstream.Happened:
		return "happened"
	case downstream.Absent:
		return "absent"
	}
	return f.Why
}

// settleBy settles an unknown key on the evidence of a lookup or a person.
func (e *Engine) settleBy(ctx context.Context, row intent.Receipt, s intent.Settlement, line *intent.Entry) (intent.Receipt, error) {
	after, err := row.Apply(s)
	if err != nil {
		return row, err
	}
	return e.replace(ctx, row, after, line)
}

// retry sends the same request again under the same downstream key, where that cannot act
// twice: the downstream dedupes on the key and still knows it, or a second call leaves the
// same state. The bytes must be the same too: a changed request is another one to it.
func (e *Engine) retry(ctx context.Context, t *downstream.Tool, row intent.Receipt) error {
	if row.Template != t.Template() {
		return e.park(ctx, row, e.parked(intent.ParkedChanged, time.Now()), nil)
	}
	if !e.mayResend(t, &row, time.Now()) {
		return e.park(ctx, row, e.parked(intent.ParkedWindow, time.Now()), nil)
	}
	_, err := e.reexecute(ctx, t, row, intent.ActionRetry, own(ctx, "on_unknown: retry"), e.repeatedMove)
	if errors.Is(err, errNoArgs) {
		return e.park(ctx, row, e.parked(intent.ParkedNoArgs, time.Now()), nil)
	}
	return err
}

// reexecute begins the next execution of an unknown key and carries it to its end.
func (e *Engine) reexecute(ctx context.Context, t *downstream.Tool, row intent.Receipt, a intent.Action, by Order, m meaning) (intent.Receipt, error) {
	args, err := e.arguments(t, &row)
	if err != nil {
		return row, err
	}
	run, row, err := e.open(ctx, t, row, by, a, intent.Receipt.Reexecute)
	if run == nil {
		return row, err
	}
	return run(args, m), nil
}

// open writes an execution ahead that no caller's claim leads to: admission, then the row in
// started, by compare-and-set on what was read. It returns what carries the execution out,
// and must be called; nil when nothing was begun.
//
// Dies after the row: as after a call's write-ahead, started becomes unknown.
func (e *Engine) open(ctx context.Context, t *downstream.Tool, row intent.Receipt, by Order, a intent.Action,
	opened func(intent.Receipt, intent.Opening) (intent.Receipt, error)) (run func(intent.Value, meaning) intent.Receipt, after intent.Receipt, err error) {
	done, refused := e.Effects.Admit(t)
	if refused != nil {
		return nil, row, errRefused
	}
	now := time.Now()
	// Nothing has been executed for an intent that awaits approval: its trace has kept a place
	// for that, which all who asked for it link to.
	place := row.Traceparent
	if row.Status != intent.AwaitingApproval {
		by.Span.Link(row.Traceparent)
		place = by.Span.Reserve().Traceparent()
	}
	h := e.holderOf(&row, place)
	line := entry(row, a, by, nil, now)
	next, err := opened(row, intent.Opening{
		ClaimID: h.ask.ClaimID, At: now, SettleBy: now.Add(t.Timeout + e.Lease), Template: t.Template(),
		Traceparent: h.ask.Traceparent, Replica: e.Replica, Region: e.Region,
	})
	if err == nil {
		h.carries(&next)
		line.After = next.Standing()
		after, err = e.Desk.Replace(ctx, row, next, line)
	}
	if err != nil {
		done(downstream.Observed{}, downstream.Verdict{})
		return nil, after, err
	}
	e.copy(ctx, after)
	e.holders.add(h)
	return func(args intent.Value, m meaning) intent.Receipt {
		defer e.holders.drop(h)
		ended := e.perform(ctx, t, after, args, h, done, m)
		e.found(&ended, row.UnknownSince)
		return ended
	}, after, nil
}

// repeatedMove is what the verdict on a repeated request means. "Done" is the one effect's
// answer. "No" proves something only where the downstream would have answered a first request
// that it had accepted with its result: where it dedupes, and the refusal is of the arguments.
// A refusal for now, 409 (the first is still running) or nothing sent tell nothing of the first.
func (e *Engine) repeatedMove(t *downstream.Tool, r *intent.Receipt, v downstream.Verdict, at time.Time) intent.Settlement {
	refused := v.Status == intent.Rejected && v.Retry == intent.RetryCorrected && v.Outcome != nil
	switch {
	case v.Status == intent.Completed, refused && t.Dedupes && v.Outcome.HTTPStatus != http.StatusConflict:
		return e.firstMove(t, r, v, at)
	}
	s := r.LoseMove(v.Reason, v.Outcome, e.plan(t, r, at), at)
	s.Unsent = v.Unsent
	return s
}

var errRefused = errors.New("the downstream takes no calls at the moment")

// late keeps an answer that came after its key had moved on: to a later execution, or to what
// a person or a lookup made of it. What was reported stays; people are told where the two
// do not agree.
func (e *Engine) late(ctx context.Context, row intent.Receipt, s intent.Settlement) intent.Receipt {
	e.Log.Warn("a settlement came too late", "verb", s.Verb.String(), "key", s.Key.Short(),
		"fence", s.Fence, "status", row.Status.String(), "row_fence", row.Fence)
	if s.SettledBy != "downstream" { // it says nothing about the effect
		return row
	}
	for range 10 {
		now := time.Now()
		after, doubt := row, intent.Doubt(0)
		switch {
		case row.Fence > s.Fence && s.Status == intent.Completed:
			doubt = intent.DoubtLateAnswer
		case row.Fence == s.Fence && row.Status.Settled() && row.Status != s.Status:
			doubt = intent.DoubtContradicted
		}
		if doubt != 0 && row.Doubt == 0 {
			after = row.Suspect(doubt, e.notify(now))
		}
		line := entry(row, intent.ActionLateAnswer, own(ctx, "execution "+s.Status.String()), lateEvidence(s), now)
		stands, err := e.replace(ctx, row, after, line)
		if !errors.Is(err, intent.ErrStale) {
			if err != nil {
				e.Log.Error("a late answer was not kept", "key", s.Key.Short(), "error", err)
			}
			return stands
		}
		row = stands
	}
	return row
}

// replace is the tail of everything that people and the reconciler change: store, Redis and
// whoever waits there, near cache.
func (e *Engine) replace(ctx context.Context, was, now intent.Receipt, line *intent.Entry) (intent.Receipt, error) {
	if now.Status.Settled() {
		var span tracing.Span
		ctx, span = step(ctx, tracing.SpanSettle)
		defer span.End()
	}
	if line != nil {
		line.After = now.Standing()
	}
	after, err := e.Desk.Replace(ctx, was, now, line)
	if err == nil && (after.Status != was.Status || after.Fence != was.Fence) {
		if was.Status == intent.Unknown {
			e.found(&after, was.UnknownSince)
		}
		// Dies here: the row is settled, Redis says unknown. Repair copies the row.
		e.copy(ctx, after)
	}
	return after, err
}
