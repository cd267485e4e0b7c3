package once

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
	"github.com/latchkey-gateway/latchkey/tracing"
)

// What people decide. Every decision is one conditional change of the row with its line in
// the audit, so two people at one receipt cannot both have their way; repeated by the same
// person with the same words, after a lost reply, it is one decision.

// Approve executes what awaits approval, and returns the receipt when it has left started or
// after wait. Where two people are asked, the first approval is noted and nothing is sent. A
// fingerprint, if given, MUST be the one that the person saw.
func (e *Engine) Approve(ctx context.Context, o Order, f intent.Fingerprint, wait time.Duration) (intent.Receipt, error) {
	return e.decide(ctx, &o, intent.ActionApprove, func(ctx context.Context, row intent.Receipt) (intent.Receipt, error) {
		now := time.Now()
		t, known := e.Tools(row.Tool)
		switch {
		case row.Status != intent.AwaitingApproval:
			return row, conflict("It does not await approval: it is %s.", row.Status)
		case f != intent.Fingerprint{} && f != row.Fingerprint:
			return row, conflict("These are not the arguments that you were shown. Look at the receipt again.")
		case !row.NextCheck.IsZero() && !now.Before(row.NextCheck):
			if _, err := e.expire(ctx, row, now); err != nil {
				return row, err
			}
			return row, conflict("Its time for approval is over, and it is rejected.")
		case !known || t.Class == intent.ReadOnly:
			return row, conflict("The tool %s is not in the configuration any more.", row.Tool)
		}
		if t.Approval != nil && t.Approval.People > 1 {
			endorsed, err := row.Endorse(o.By)
			if err != nil {
				return row, conflict("You have approved it already; another person must.")
			}
			if len(endorsed.ApprovedBy) < t.Approval.People {
				return e.replace(ctx, row, endorsed, entry(row, intent.ActionApprove, o, nil, now))
			}
		}
		return e.execute(ctx, t, row, o, intent.ActionApprove, wait, func(r intent.Receipt, w intent.Opening) (intent.Receipt, error) {
			return r.Approve(o.By, w)
		})
	})
}

// Decline rejects what awaits approval. Nothing is sent.
func (e *Engine) Decline(ctx context.Context, o Order) (intent.Receipt, error) {
	return e.decide(ctx, &o, intent.ActionDecline, func(ctx context.Context, row intent.Receipt) (intent.Receipt, error) {
		now := time.Now()
		after, err := row.Decline("operator", intent.ReasonDeclined, word(o), now)
		if err != nil {
			return row, conflict("It does not await approval: it is %s.", row.Status)
		}
		return e.replace(ctx, row, after, entry(row, intent.ActionDecline, o, nil, now))
	})
}

// Resolve settles an unknown key on a person's word.
func (e *Engine) Resolve(ctx context.Context, o Order, how Resolution) (intent.Receipt, error) {
	return e.decide(ctx, &o, intent.ActionResolve, func(ctx context.Context, row intent.Receipt) (intent.Receipt, error) {
		if row.Status != intent.Unknown {
			return row, conflict("Only an unknown outcome can be resolved: it is %s.", row.Status)
		}
		now := time.Now()
		var s intent.Settlement
		switch how.Status {
		case intent.Completed:
			var out *intent.Outcome
			if how.Result != nil {
				out = &intent.Outcome{HTTPStatus: 200, Headers: map[string]string{"content-type": "application/json"}, Body: how.Result}
			}
			s = row.CompleteMove("operator", out, now)
		case intent.Rejected:
			retry := how.Retry
			if retry == 0 {
				retry = intent.RetrySameKey
			}
			s = row.RejectMove("operator", retry, 0, "a person found that it did not happen", nil, false, now)
		default:
			return row, intent.Errorf(intent.BadRequest, nil, "An outcome is completed or rejected.")
		}
		s.Evidence = word(o)
		return e.settleBy(ctx, row, s, entry(row, intent.ActionResolve, o, nil, now))
	})
}

// KeepWaiting leaves an unknown key unknown: where there is a lookup, the next one is made
// after the given time, also for a parked key; where there is none, it stays parked.
func (e *Engine) KeepWaiting(ctx context.Context, o Order, next time.Duration) (intent.Receipt, error) {
	return e.decide(ctx, &o, intent.ActionWait, func(ctx context.Context, row intent.Receipt) (intent.Receipt, error) {
		if row.Status != intent.Unknown {
			return row, conflict("It is not unknown: it is %s.", row.Status)
		}
		now, after := time.Now(), row
		if t, _ := e.Tools(row.Tool); t != nil && t.Lookup != nil && t.OnUnknown == downstream.LookupUnknown {
			after = row.Wait(intent.Plan{NextCheck: now.Add(next)})
		}
		return e.replace(ctx, row, after, entry(row, intent.ActionWait, o, nil, now))
	})
}

// Reexecute acts again on an unknown key because a person says that it is safe, and returns
// as Approve does. What nobody can undo is not: it is resolved, and the next call approved.
func (e *Engine) Reexecute(ctx context.Context, o Order, wait time.Duration) (intent.Receipt, error) {
	return e.decide(ctx, &o, intent.ActionReexecute, func(ctx context.Context, row intent.Receipt) (intent.Receipt, error) {
		t, known := e.Tools(row.Tool)
		switch {
		case row.Status != intent.Unknown:
			return row, conflict("Only an unknown outcome can be executed again: it is %s.", row.Status)
		case !known || t.Class == intent.ReadOnly:
			return row, conflict("The tool %s is not in the configuration any more.", row.Tool)
		case t.Class == intent.Irreversible:
			return row, conflict("Nobody can undo %s, so it is not executed again from here. Resolve it as rejected; the next call is approved anew.", row.Tool)
		}
		return e.execute(ctx, t, row, o, intent.ActionReexecute, wait, intent.Receipt.Reexecute)
	})
}

// execute begins an execution that a person asked for and waits for its end, which does not
// depend on that.
func (e *Engine) execute(ctx context.Context, t *downstream.Tool, row intent.Receipt, o Order, a intent.Action, wait time.Duration,
	opened func(intent.Receipt, intent.Opening) (intent.Receipt, error)) (intent.Receipt, error) {
	args, err := e.arguments(t, &row)
	if err != nil {
		return row, conflict("It cannot be executed: %v.", err)
	}
	run, after, err := e.open(ctx, t, row, o, a, opened)
	if run == nil {
		return after, err
	}
	ended := make(chan intent.Receipt, 1)
	e.work.Go(func() { ended <- run(args, e.firstMove) })
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case after = <-ended:
	case <-timer.C:
	case <-ctx.Done():
	}
	return after, nil
}

// Reconcile makes the lookup now. Where it proves nothing, a parked key stays parked.
func (e *Engine) Reconcile(ctx context.Context, o Order) (intent.Receipt, error) {
	return e.decide(ctx, &o, intent.ActionLookup, func(ctx context.Context, row intent.Receipt) (intent.Receipt, error) {
		t, _ := e.Tools(row.Tool)
		switch {
		case row.Status != intent.Unknown:
			return row, conflict("There is nothing to find out: it is %s.", row.Status)
		case t == nil || t.Lookup == nil:
			return row, conflict("The tool %s has no lookup. Find out at the downstream, and resolve it.", row.Tool)
		}
		taken, err := e.Desk.Replace(ctx, row, row.Wait(intent.Plan{NextCheck: time.Now().Add(checkFor)}), nil)
		if err != nil {
			return taken, err
		}
		plan := row.Plan
		plan.NotifyAt = time.Time{} // a person is looking
		after, err := e.check(ctx, t, taken, o, &plan)
		if errors.Is(err, intent.ErrStale) {
			err = nil // it was settled meanwhile, which is what was asked for
		}
		return after, err
	})
}

// Acknowledge says that a person has seen to a doubt.
func (e *Engine) Acknowledge(ctx context.Context, o Order) (intent.Receipt, error) {
	return e.decide(ctx, &o, intent.ActionAcknowledge, func(ctx context.Context, row intent.Receipt) (intent.Receipt, error) {
		if row.Doubt == 0 {
			return row, conflict("There is no doubt about it.")
		}
		return e.replace(ctx, row, row.Suspect(0, time.Time{}), entry(row, intent.ActionAcknowledge, o, nil, time.Now()))
	})
}

// spanOf are the spans of decisions.
var spanOf = map[intent.Action]string{
	intent.ActionApprove: tracing.SpanApprove, intent.ActionDecline: tracing.SpanDecline, intent.ActionResolve: tracing.SpanResolve,
	intent.ActionReexecute: tracing.SpanReexecute, intent.ActionWait: tracing.SpanWait, intent.ActionLookup: tracing.SpanReconcile,
	intent.ActionAcknowledge: tracing.SpanAcknowledge,
}

// decide applies a decision to the row as it stands. A row whose schedule alone has moved on
// is read again; one that a person did not see as it is now is refused.
func (e *Engine) decide(ctx context.Context, o *Order, a intent.Action, change func(context.Context, intent.Receipt) (intent.Receipt, error)) (intent.Receipt, error) {
	if o.Reason == "" {
		return intent.Receipt{}, intent.Errorf(intent.BadRequest, nil, "A decision needs a reason: it is kept in the audit.")
	}
	// The decision has a span of its own below the request's, which may hold many.
	o.Span = e.Telemetry.Branch(o.Span, spanOf[a])
	defer o.Span.End()
	ctx = tracing.With(context.WithoutCancel(ctx), o.Span) // who stops waiting stops nothing: change gets this one
	for try := 1; ; try++ {
		row, err := e.Store.Get(ctx, o.Key)
		if err == nil && row.Tenant != o.Tenant {
			err = intent.ErrNone
		}
		if err != nil {
			return intent.Receipt{}, err
		}
		o.Span.About(about(&row))
		o.Span.Link(row.Traceparent)
		after := row
		if o.If != nil && (o.If.Fence != row.Fence || o.If.Version != row.Version) {
			err = intent.Errorf(intent.PreconditionFailed, nil, fmt.Sprintf("The receipt has changed: it is %s now, ETag %s. Look at it again.", row.Status, row.ETag()))
		} else {
			after, err = change(ctx, row)
		}
		refusal, refused := errors.AsType[*intent.Error](err)
		switch {
		case refused && refusal.Category != intent.BadRequest && e.decided(ctx, &row, *o, a):
			return row, nil
		case errors.Is(err, errRefused):
			return after, intent.Errorf(intent.NotSent, err, "The downstream takes no calls at the moment; nothing was sent. Decide again later.")
		case !errors.Is(err, intent.ErrStale) || try == 10:
			if err == nil {
				o.Span.About(about(&after))
				e.Metrics().ManualRecovery(row.Tool, strings.TrimPrefix(spanOf[a], "latchkey."))
			}
			return after, err
		}
	}
}

// decided says whether this very decision stands already: its reply was lost.
func (e *Engine) decided(ctx context.Context, row *intent.Receipt, o Order, a intent.Action) bool {
	lines, err := e.Desk.Audit(ctx, row.Key, 20)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(lines, func(line intent.Entry) bool {
		return line.Action == a && line.Actor == o.By && line.Reason == o.Reason &&
			(o.If == nil || strings.HasSuffix(line.Before, fmt.Sprintf(" %d.%d", o.If.Fence, o.If.Version)))
	})
}

func conflict(format string, a ...any) error {
	return intent.Errorf(intent.StateConflict, nil, fmt.Sprintf(format, a...))
}

// entry is the audit's line for what an order does to a row.
func entry(row intent.Receipt, a intent.Action, o Order, evidence []byte, at time.Time) *intent.Entry {
	return &intent.Entry{Key: row.Key, Tenant: row.Tenant, Tool: row.Tool, At: intent.Micros(at), Actor: o.By, Action: a, Reason: o.Reason,
		Before: row.Standing(), After: row.Standing(), Evidence: evidence, Traceparent: o.Span.Traceparent()}
}

// word is a person's word as evidence.
func word(o Order) []byte {
	b, _ := json.Marshal(struct { // text alone: it cannot fail
		By     string `json:"by"`
		Reason string `json:"reason"`
	}{o.By, o.Reason})
	return b
}

// lateEvidence is what a late answer said.
func lateEvidence(s intent.Settlement) []byte {
	b := fmt.Appendf(nil, `{"fence":%d,"status":%q,"outcome":`, s.Fence, s.Status)
	return append(s.Outcome.AppendJSON(b), '}')
}

// Audit returns what happened to a tenant's receipt besides arrivals and executions.
func (e *Engine) Audit(ctx context.Context, tenant string, key intent.Key, limit int) ([]intent.Entry, error) {
	if _, err := e.Receipt(ctx, tenant, key); err != nil {
		return nil, err
	}
	return e.Desk.Audit(ctx, key, limit)
}

// Stats returns a tenant's counts.
func (e *Engine) Stats(ctx context.Context, q intentstore.StatsQuery) (intentstore.Stats, error) {
	return e.Desk.Stats(ctx, q)
}

// Changes returns what has happened to a tenant's receipts after a mark.
func (e *Engine) Changes(ctx context.Context, tenant string, after intentstore.Mark, limit int) ([]intentstore.Change, intentstore.Mark, error) {
	return e.Desk.Changes(ctx, tenant, after, limit)
}

// Degraded says that Redis could not be asked a moment ago.
func (e *Engine) Degraded() bool { return !e.redis.up() }
