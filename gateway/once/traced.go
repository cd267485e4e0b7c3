package once

import (
	"context"
	"errors"
	"time"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
	"github.com/latchkey-gateway/latchkey/lock"
	"github.com/latchkey-gateway/latchkey/tracing"
)

// What is noted of a call on its way: a span for each step and for each trip to Redis and to
// the store, and counts. Nothing here decides anything. The span that they belong under is in
// the context: the arrival's, a person's decision's, or the reconciler's.

// traced makes the engine's trips be noted.
func (o Options) traced() Options {
	if o.Telemetry != nil {
		o.Lock = tracedLock{o.Lock}
		o.Store = tracedStore{o.Store, o.StoreSystem}
		o.Desk = tracedDesk{o.Desk, o.StoreSystem}
	}
	return o
}

// step opens the span of a step of DESIGN §4. What ctx is given to afterwards is below it.
func step(ctx context.Context, name string) (context.Context, tracing.Span) {
	s := tracing.From(ctx).Start(name)
	return tracing.With(ctx, s), s
}

// unnoticed is for what is asked again and again while waiting.
func unnoticed(ctx context.Context) context.Context { return tracing.With(ctx, tracing.Span{}) }

// executed notes what came of a request.
func (e *Engine) executed(x tracing.Span, t *downstream.Tool, seen downstream.Observed, v downstream.Verdict) {
	why, outcome := v.Reason, v.Status.String()
	if v.Unsent {
		why, outcome = seen.NotSentWhy, "not_sent"
	}
	x.Received(seen.HTTPStatus, why)
	e.Metrics().Executed(t.Name, outcome)
}

// found notes that a key that had been unknown since then has been settled.
func (e *Engine) found(r *intent.Receipt, since time.Time) {
	if !since.IsZero() && r.Status.Settled() {
		e.Metrics().UnknownSettled(r.Tool, r.SettledBy, r.Status.String(), r.SettledAt.Sub(since))
	}
}

// Metrics are those of the telemetry; nil, and still of use, without one.
func (e *Engine) Metrics() *tracing.Metrics {
	if e.Telemetry == nil {
		return nil
	}
	return e.Telemetry.Metrics
}

// about is a receipt as far as spans name it.
func about(r *intent.Receipt) tracing.Outcome {
	return tracing.Outcome{Key: r.Key, Tool: r.Tool, Class: r.Class.String(), Status: r.Status.String(), Fence: r.Fence,
		RunID: r.RunID, StepID: r.StepID, Tenant: r.Tenant}
}

// failure is err, unless it is an answer.
func failure(err error) error {
	if errors.Is(err, intent.ErrNone) || errors.Is(err, intent.ErrStale) {
		return nil
	}
	return err
}

// tracedLock notes the verbs of a call. Get is left out: it is for those who wait.
type tracedLock struct{ lock.Store }

func (l tracedLock) Claim(ctx context.Context, ask lock.Ask) (lock.Answer, error) {
	q := tracing.From(ctx).Query(tracing.SystemRedis, "claim")
	a, err := l.Store.Claim(ctx, ask)
	q.Failed(err)
	return a, err
}

func (l tracedLock) Settle(ctx context.Context, r lock.Record, ttl time.Duration) (lock.Record, bool, error) {
	q := tracing.From(ctx).Query(tracing.SystemRedis, "settle")
	stands, wrote, err := l.Store.Settle(ctx, r, ttl)
	q.Failed(err)
	return stands, wrote, err
}

func (l tracedLock) Release(ctx context.Context, g intent.Guard, id intent.ClaimID) error {
	q := tracing.From(ctx).Query(tracing.SystemRedis, "release")
	err := l.Store.Release(ctx, g, id)
	q.Failed(err)
	return err
}

// tracedStore notes the store's verbs; Begin, the write-ahead, is a step of its own.
type tracedStore struct {
	intentstore.Store
	system string
}

func (s tracedStore) Begin(ctx context.Context, r intent.Receipt) (intentstore.Begun, error) {
	ctx, b := step(ctx, tracing.SpanBegin)
	defer b.End()
	q := b.Query(s.system, "begin")
	begun, err := s.Store.Begin(ctx, r)
	q.Failed(err)
	return begun, err
}

func (s tracedStore) Settle(ctx context.Context, move intent.Settlement) (intent.Receipt, error) {
	q := tracing.From(ctx).Query(s.system, "settle")
	r, err := s.Store.Settle(ctx, move)
	q.Failed(failure(err))
	return r, err
}

func (s tracedStore) Archive(ctx context.Context, r intent.Receipt) (intent.Receipt, error) {
	q := tracing.From(ctx).Query(s.system, "archive")
	stands, err := s.Store.Archive(ctx, r)
	q.Failed(failure(err))
	return stands, err
}

func (s tracedStore) Get(ctx context.Context, k intent.Key) (intent.Receipt, error) {
	q := tracing.From(ctx).Query(s.system, "get")
	r, err := s.Store.Get(ctx, k)
	q.Failed(failure(err))
	return r, err
}

// tracedDesk notes the changes that people and the reconciler make.
type tracedDesk struct {
	intentstore.Desk
	system string
}

func (d tracedDesk) Replace(ctx context.Context, was, now intent.Receipt, entry *intent.Entry) (intent.Receipt, error) {
	q := tracing.From(ctx).Query(d.system, "replace")
	r, err := d.Desk.Replace(ctx, was, now, entry)
	q.Failed(failure(err))
	return r, err
}
