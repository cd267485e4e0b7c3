package once

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// Receipt returns a tenant's receipt; intent.ErrNone also when it is another tenant's. A
// result that this replica could not store yet is served from memory.
func (e *Engine) Receipt(ctx context.Context, tenant string, key intent.Key) (intent.Receipt, error) {
	r, ok := e.unstored.get(key)
	if !ok {
		var err error
		if r, err = e.Store.Get(ctx, key); err != nil {
			return intent.Receipt{}, err
		}
	}
	if r.Tenant != tenant {
		return intent.Receipt{}, intent.ErrNone
	}
	return r, nil
}

// AwaitReceipt returns the receipt when it leaves started, unknown or awaiting_approval,
// or as it is when limit or ctx ends.
func (e *Engine) AwaitReceipt(ctx context.Context, tenant string, key intent.Key, limit time.Duration) (intent.Receipt, error) {
	r, err := e.Receipt(ctx, tenant, key)
	if err != nil || limit <= 0 || r.Status.Settled() {
		return r, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	changed, stop := e.Lock.Watch(r.Guard)
	defer stop()
	for pause := pollFirst; ; pause = min(pause*3/2, pollMost) {
		now, err := e.Receipt(context.WithoutCancel(ctx), tenant, key)
		if err == nil {
			r = now
		}
		if errors.Is(err, intent.ErrNone) || r.Status.Settled() {
			return r, err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-changed:
		case <-timer.C:
		case <-e.draining:
			timer.Stop()
			return r, nil
		case <-ctx.Done():
			timer.Stop()
			return r, nil
		}
		timer.Stop()
	}
}

// waitApproved waits for what a person decides, and for the execution that follows.
func (e *Engine) waitApproved(ctx context.Context, a Answer, limit time.Duration) Answer {
	r, err := e.AwaitReceipt(ctx, a.Receipt.Tenant, a.Receipt.Key, limit)
	if err != nil {
		return a
	}
	a.Receipt, a.RetryAfter = r, r.RetryAfter
	if r.Status.Settled() {
		a.Decision, a.Replayed = intent.Collapsed, true
	}
	return a
}

// List returns a tenant's receipts, newest first.
func (e *Engine) List(ctx context.Context, q intentstore.Query) ([]intent.Receipt, string, error) {
	return e.Store.List(ctx, q)
}

// Attempts returns a receipt's arrivals and executions; those of this replica are flushed
// first, those of others may lag behind by the journal's interval.
func (e *Engine) Attempts(ctx context.Context, key intent.Key, limit int) ([]intent.Attempt, int, []intent.Execution, error) {
	e.journal.flush(ctx)
	return e.Journal.Attempts(ctx, key, limit)
}
