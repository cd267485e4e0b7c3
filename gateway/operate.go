package gateway

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/intent"
)

// decision is what a person asks to be done about one receipt.
type decision struct {
	once.Order
	fingerprint intent.Fingerprint // approve: of the arguments that the person saw; zero: not given
	resolution  once.Resolution    // resolve
	pause       time.Duration      // wait: until the next check
	wait        time.Duration      // approve and reexecute: how long the answer may take
}

// verb is one kind of decision.
type verb struct {
	name    string // the path's last part
	action  intent.Action
	members []string // of the body, besides reason
	// match: the version that the person saw must be named. It is so for what cannot be
	// taken back and rests on what the receipt said.
	match bool
	// brief: a reason need not be given: nothing is decided, it is only looked at.
	brief bool
	do    func(context.Context, *once.Engine, decision) (intent.Receipt, error)
}

var verbs = []verb{
	{name: "resolve", action: intent.ActionResolve, members: []string{"outcome", "retry", "result"}, match: true,
		do: func(ctx context.Context, e *once.Engine, d decision) (intent.Receipt, error) {
			return e.Resolve(ctx, d.Order, d.resolution)
		}},
	{name: "approve", action: intent.ActionApprove, members: []string{"fingerprint"},
		do: func(ctx context.Context, e *once.Engine, d decision) (intent.Receipt, error) {
			return e.Approve(ctx, d.Order, d.fingerprint, d.wait)
		}},
	{name: "decline", action: intent.ActionDecline,
		do: func(ctx context.Context, e *once.Engine, d decision) (intent.Receipt, error) {
			return e.Decline(ctx, d.Order)
		}},
	{name: "reconcile", action: intent.ActionLookup, brief: true,
		do: func(ctx context.Context, e *once.Engine, d decision) (intent.Receipt, error) {
			return e.Reconcile(ctx, d.Order)
		}},
	{name: "wait", action: intent.ActionWait, members: []string{"for"},
		do: func(ctx context.Context, e *once.Engine, d decision) (intent.Receipt, error) {
			return e.KeepWaiting(ctx, d.Order, d.pause)
		}},
	{name: "reexecute", action: intent.ActionReexecute, match: true,
		do: func(ctx context.Context, e *once.Engine, d decision) (intent.Receipt, error) {
			return e.Reexecute(ctx, d.Order, d.wait)
		}},
	{name: "acknowledge", action: intent.ActionAcknowledge,
		do: func(ctx context.Context, e *once.Engine, d decision) (intent.Receipt, error) {
			return e.Acknowledge(ctx, d.Order)
		}},
}

func verbNamed(name string) *verb {
	i := slices.IndexFunc(verbs, func(v verb) bool { return v.name == name })
	if i < 0 {
		return nil
	}
	return &verbs[i]
}

// decide answers POST /v1/receipts/{key}/{verb}.
func (g *Gateway) decide(v *verb) gin.HandlerFunc {
	return func(c *gin.Context) {
		began := time.Now()
		d, err := g.order(c, v)
		var r intent.Receipt
		if err == nil {
			r, err = g.carryOut(c, v, d)
		}
		if err != nil {
			writeProblem(c, err, 0)
		} else {
			g.writeReceipt(c, r)
		}
		// The person's reason is in the audit; a log is read by others.
		attrs := []any{"action", v.name, "key", d.Key.Short(), "tenant", d.Tenant, "credential", d.By,
			"http_status", c.Writer.Status(), "duration", time.Since(began), "trace_id", span(c).TraceID()}
		if err == nil {
			attrs = append(attrs, "tool", r.Tool, "status", r.Status.String())
		} else {
			attrs = append(attrs, "code", err.Category.Code())
		}
		g.Log.Info("decision", attrs...)
	}
}

// order reads and checks a decision.
func (g *Gateway) order(c *gin.Context, v *verb) (decision, *intent.Error) {
	p := principal(c)
	d := decision{Order: once.Order{Tenant: p.Tenant, By: p.ID, Span: span(c)}}
	key, err := intent.ParseKey(strings.ToLower(c.Param("key")))
	if err != nil {
		return d, g.asError(c, err)
	}
	d.Key = key
	if _, bad := parameters(c); bad != nil {
		return d, bad
	}
	body := intent.ObjectValue()
	if !v.brief || c.Request.ContentLength != 0 {
		var bad *intent.Error
		if body, bad = g.object(c, append(slices.Clip(v.members), "reason")...); bad != nil {
			return d, bad
		}
	}
	if bad := v.read(body, &d); bad != nil {
		return d, bad
	}
	tag, bad := ifMatch(c.Request.Header, v.match)
	if bad != nil {
		return d, bad
	}
	d.If = tag
	return d, nil
}

// carryOut asks the engine, and answers a repeated request as the first time.
func (g *Gateway) carryOut(c *gin.Context, v *verb, d decision) (intent.Receipt, *intent.Error) {
	ctx := c.Request.Context()
	stands, err := g.Engine.Receipt(ctx, d.Tenant, d.Key)
	if err != nil {
		return stands, g.asError(c, err)
	}
	d.wait = g.Wait
	if t, ok := g.Catalogue.Tool(stands.Tool); ok {
		d.wait = min(t.Timeout+settling, g.Wait)
	}
	if n, ok := preferWait(c.Request.Header); ok && (v.action == intent.ActionApprove || v.action == intent.ActionReexecute) {
		d.wait = min(n, g.Wait)
		c.Writer.Header().Set("Preference-Applied", "wait="+strconv.Itoa(int(d.wait/time.Second)))
	}
	if v.action == intent.ActionWait && g.waits(ctx, d, &stands) {
		return stands, nil
	}
	r, err := v.do(ctx, g.Engine, d)
	if err != nil {
		return r, g.undecided(c, err)
	}
	if !d.agrees(v.action, &r) {
		return r, intent.Errorf(intent.StateConflict, nil, "It was decided otherwise: it is "+r.Status.String()+", ETag "+r.ETag()+". Look at it again.")
	}
	return r, nil
}

// undecided gives the failure of a decision a category. One that the store did not confirm may
// have been made all the same.
func (g *Gateway) undecided(c *gin.Context, err error) *intent.Error {
	_, refused := errors.AsType[*intent.Error](err)
	switch {
	case refused, errors.Is(err, intent.ErrNone):
		return g.asError(c, err)
	case errors.Is(err, intent.ErrStale):
		return intent.Errorf(intent.StateConflict, err, "The receipt keeps moving. Look at it again.")
	}
	g.Log.Warn("a decision was not confirmed", "error", err, "trace_id", span(c).TraceID())
	return intent.Errorf(intent.NotSent, err, "The store did not confirm the decision.")
}

// agrees says whether the receipt is what the decision led to. The engine answers a repeated
// decision with the receipt as it stands; it may have been decided anew since.
func (d *decision) agrees(a intent.Action, r *intent.Receipt) bool {
	switch a {
	case intent.ActionResolve:
		return r.Status == d.resolution.Status && (d.resolution.Result == nil || r.Outcome != nil && bytes.Equal(r.Outcome.Body, d.resolution.Result)) &&
			(d.resolution.Retry == 0 || d.resolution.Retry == r.Retry)
	case intent.ActionApprove:
		return r.Reason != intent.ReasonDeclined && r.Reason != intent.ReasonExpired &&
			(d.fingerprint == intent.Fingerprint{} || d.fingerprint == r.Fingerprint)
	case intent.ActionDecline:
		return r.Status == intent.Rejected && r.Reason == intent.ReasonDeclined
	case intent.ActionReexecute:
		return r.Fence > d.If.Fence
	case intent.ActionAcknowledge:
		return r.Doubt == 0
	}
	return true
}

// repeatsWithin is how long the same words of the same person about an unmoved receipt are a
// repeated request and no new decision.
const repeatsWithin = time.Minute

// waits says whether this very decision to wait was made a moment ago. It moves no version,
// so that nothing else would tell a repeated request from a new one.
func (g *Gateway) waits(ctx context.Context, d decision, stands *intent.Receipt) bool {
	entries, err := g.Engine.Audit(ctx, d.Tenant, d.Key, 1)
	if err != nil || len(entries) == 0 {
		return false
	}
	e := entries[len(entries)-1]
	return e.Action == intent.ActionWait && e.Actor == d.By && e.Reason == d.Reason && time.Since(e.At) < repeatsWithin &&
		e.After == stands.Standing() && (d.If == nil || *d.If == once.Tag{Fence: stands.Fence, Version: stands.Version})
}

// writeReceipt answers with a receipt as it stands.
func (g *Gateway) writeReceipt(c *gin.Context, r intent.Receipt) {
	h := c.Writer.Header()
	h.Set("Latchkey-Receipt", r.Key.String())
	h.Set("ETag", r.ETag())
	if !r.Status.Settled() {
		h.Set("Retry-After", "1")
	}
	shouldRetry(h, r.RetryWord())
	if match := c.Request.Header.Get("If-None-Match"); match != "" && match == r.ETag() && c.Request.Method == http.MethodGet {
		c.Status(http.StatusNotModified)
		return
	}
	if _, n, _, err := g.Engine.Attempts(c.Request.Context(), r.Key, 1); err == nil && n > 0 {
		r.Attempts = n
	}
	writeJSON(c, http.StatusOK, r.AppendJSON(nil, false))
}
