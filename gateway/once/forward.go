package once

import (
	"cmp"
	"context"
	"time"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/intent"
)

// Forward passes a read-only call on: no key, no claim, no row, only the downstream's
// permits and breaker. The answer has the shape of a receipt with a zero key.
func (e *Engine) Forward(ctx context.Context, r Request) Answer {
	args := r.Tool.Rules.Normalised(r.Args)
	if err := r.Tool.Validate(args); err != nil {
		return Answer{Decision: intent.Refused, Err: err}
	}
	done, refused := e.Effects.Admit(r.Tool)
	if refused != nil {
		return notSent(refused.NotSentWhy, "The downstream of "+r.Tool.Name+" takes no calls at the moment.", refused.RetryAfter)
	}
	started := intent.Micros(time.Now())
	x := r.Span.Execute(r.Span.Reserve().Traceparent(), 0, r.Tool.Method, r.Tool.Host())
	seen := e.Effects.Forward(ctx, downstream.Call{
		Tool: r.Tool, Args: args, RunID: r.RunID, StepID: r.StepID,
		Traceparent: x.Traceparent(), Tracestate: x.Tracestate(), Baggage: x.Baggage(),
	})
	verdict := downstream.Classify(r.Tool, seen)
	x.Received(seen.HTTPStatus, cmp.Or(seen.NotSentWhy, verdict.Reason))
	done(seen, verdict)

	if verdict.Status != intent.Completed {
		category, public := intent.DownstreamFailed, "The downstream of "+r.Tool.Name+" did not give a usable answer."
		if seen.TimedOut {
			category, public = intent.DownstreamTimeout, "The downstream of "+r.Tool.Name+" did not answer in time."
		}
		err := intent.Errorf(category, seen.Err, public+" Nothing was changed; the same call again is safe.")
		err.Reason = verdict.Reason
		return Answer{Decision: intent.Executed, Err: err, RetryAfter: verdict.RetryAfter}
	}
	return Answer{Decision: intent.Executed, Receipt: intent.Receipt{
		Tenant: r.Tenant, Tool: r.Tool.Name, Class: r.Tool.Class, RunID: r.RunID, StepID: r.StepID, Occurrence: r.Occurrence,
		Args: r.Tool.Rules.Redacted(args).AppendJSON(nil), Status: intent.Completed, Retry: intent.RetrySameKey, Outcome: verdict.Outcome,
		Attempts: 1, Executions: 1, CreatedAt: started, StartedAt: started, SettledAt: intent.Micros(time.Now()),
		SettledBy: "downstream", Traceparent: r.Span.Traceparent(),
	}}
}
