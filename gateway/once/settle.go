package once

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
	"github.com/latchkey-gateway/latchkey/lock"
	"github.com/latchkey-gateway/latchkey/tracing"
)

// settle is the one tail of everything that brings evidence: a call, a late answer, the
// sweeper. The order is store, Redis, near cache; each step may be lost and is then made
// up for by a reader or the sweeper, never by acting again.
//
// It returns the receipt that stands afterwards. When the row moved meanwhile, that is what
// somebody with a newer fence, or earlier evidence, made of it.
func (e *Engine) settle(ctx context.Context, row intent.Receipt, s intent.Settlement) intent.Receipt {
	ctx, span := step(ctx, tracing.SpanSettle)
	defer span.End()
	after, err := e.settleRow(ctx, row, s)
	if err != nil {
		// Store down after the effect: the result is known and must not be lost. It is
		// kept in Redis without expiry and in memory, and stored as soon as that is possible.
		// Dies here: Redis has the result, or, if Redis is down too, the row says started
		// and becomes unknown.
		e.Log.Error("the result is not stored yet", "step", "settle", "key", row.Key.Short(), "error", err)
		after, _ = row.Apply(s)
		after.Durable = false
		e.unstored.add(after)
	}
	// Dies here: the row is settled, Redis says started. Repair copies the row.
	e.copy(ctx, after)
	return after
}

// settleRow applies the move to the row. A hot tool has no row yet: its receipt goes to
// Redis first, and to the store by storeUnstored.
func (e *Engine) settleRow(ctx context.Context, row intent.Receipt, s intent.Settlement) (intent.Receipt, error) {
	if row.Durability == intent.Hot && !row.Durable {
		after, err := row.Apply(s)
		after.Durable = false
		if err == nil {
			e.unstored.add(after)
		}
		return after, nil
	}
	after, err := e.Store.Settle(ctx, s)
	if errors.Is(err, intent.ErrStale) {
		return e.late(ctx, after, s), nil
	}
	if err == nil {
		e.found(&after, after.UnknownSince) // a late answer is evidence too
	}
	return after, err
}

// copy brings Redis and the near cache up to a row. Redis may refuse what it knows better.
func (e *Engine) copy(ctx context.Context, row intent.Receipt) {
	if e.redis.up() {
		_, _, err := e.Lock.Settle(ctx, e.record(row), e.HotTTL)
		e.redis.note(err)
		if err != nil {
			e.Log.Warn("redis was not told", "step", "settle", "key", row.Key.Short(), "error", err)
		}
	}
	if row.Status == intent.Completed && row.Durable {
		e.near.add(row)
	}
}

// record is a row as Redis keeps it.
func (e *Engine) record(row intent.Receipt) lock.Record {
	rec := lock.Record{
		Guard: row.Guard, Key: row.Key, Fingerprint: row.Fingerprint, ClaimID: row.ClaimID, Fence: row.Fence,
		Status: row.Status, Retry: row.Retry, Durable: row.Durable, Hot: row.Durability == intent.Hot,
		Traceparent: row.Traceparent,
	}
	if row.Status == intent.Started {
		rec.Lease = e.Lease
	}
	if row.Status != intent.Started || rec.Hot {
		rec.Receipt = row.Encode()
	}
	return rec
}

// release gives a claim back: nothing was sent and no row says otherwise.
func (e *Engine) release(ctx context.Context, h *holder) {
	e.holders.drop(h)
	if !e.redis.up() {
		return
	}
	err := e.Lock.Release(ctx, h.ask.Guard, h.ask.ClaimID)
	e.redis.note(err)
	if err != nil {
		e.Log.Warn("a claim was not released; its lease runs out", "key", h.ask.Key.Short(), "error", err)
	}
}

// adopt puts a row in the place of our claim: Redis had forgotten it, or it awaits a person.
func (e *Engine) adopt(ctx context.Context, h *holder, row intent.Receipt) {
	e.release(ctx, h)
	e.copy(ctx, row)
}

// abandon takes back a write-ahead whose outcome stayed ambiguous: the caller was told
// "not sent", so if the row turns up it says so too. If this process dies first, the row
// is started without an execution and becomes unknown, which is safe, if less helpful.
func (e *Engine) abandon(row intent.Receipt) {
	e.work.Go(func() {
		ctx := context.Background()
		for wait := 250 * time.Millisecond; wait <= 32*time.Second; wait *= 2 {
			if !sleep(wait, e.draining) {
				return
			}
			found, err := e.Store.Get(ctx, row.Key)
			switch {
			case errors.Is(err, intent.ErrNone):
				return
			case err != nil:
				continue
			case found.ClaimID == row.ClaimID && found.Status == intent.Started:
				e.settle(ctx, found, found.RejectMove("gateway", intent.RetrySameKey, 0, "store_unavailable", nil, true, time.Now()))
			}
			return
		}
	})
}

// sleep waits about d, with jitter; false when it was ended.
func sleep(d time.Duration, ended <-chan struct{}) bool {
	timer := time.NewTimer(d/2 + rand.N(d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ended:
		return false
	}
}

// maxUnstored bounds the bytes that wait in memory for the store. Durable calls cannot
// exceed the calls in flight, for without a store none begins; hot ones can, and what does
// not fit here is in Redis, where the sweeper finds it.
const maxUnstored = 64 << 20

// unstored are receipts whose state the store has not acknowledged.
type unstored struct {
	mu     sync.Mutex
	open   map[intent.Key]intent.Receipt
	bytes  int
	signal chan struct{}
}

func (u *unstored) init() {
	u.open, u.signal = make(map[intent.Key]intent.Receipt), make(chan struct{}, 1)
}

func (u *unstored) add(r intent.Receipt) {
	u.mu.Lock()
	before, replaces := u.open[r.Key]
	if u.bytes < maxUnstored || replaces || r.Durability == intent.Durable {
		if replaces {
			u.bytes -= weight(&before)
		}
		u.open[r.Key] = r
		u.bytes += weight(&r)
	}
	u.mu.Unlock()
	select {
	case u.signal <- struct{}{}:
	default:
	}
}

// weight is about what a receipt takes in memory.
func weight(r *intent.Receipt) int {
	n := 1024 + len(r.Args)
	if r.Outcome != nil {
		n += len(r.Outcome.Body)
	}
	return n
}

func (u *unstored) get(k intent.Key) (intent.Receipt, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	r, ok := u.open[k]
	return r, ok
}

// drop forgets r unless a newer state of its key has come meanwhile.
func (u *unstored) drop(r intent.Receipt) {
	u.mu.Lock()
	if now, ok := u.open[r.Key]; ok && now.Fence == r.Fence && now.Version == r.Version {
		delete(u.open, r.Key)
		u.bytes -= weight(&now)
	}
	u.mu.Unlock()
}

func (u *unstored) all() []intent.Receipt {
	u.mu.Lock()
	defer u.mu.Unlock()
	rs := make([]intent.Receipt, 0, len(u.open))
	for _, r := range u.open {
		rs = append(rs, r)
	}
	return rs
}

// storeUnstored stores what is waiting, all at once so that the store batches it, and
// again with growing pauses while the store is down. On Close it makes one last try.
func (e *Engine) storeUnstored() {
	pause := time.Duration(0)
	for {
		closing := false
		if pause == 0 {
			select {
			case <-e.unstored.signal:
			case <-e.closing:
				closing = true
			}
		} else {
			closing = !sleep(pause, e.closing)
		}
		var g errgroup.Group
		g.SetLimit(256)
		for _, r := range e.unstored.all() {
			g.Go(func() error {
				row, err := e.Keep(context.Background(), r)
				if refused, ok := errors.AsType[*intentstore.RowError](err); ok {
					// No try will do. It stays in Redis, and its row, if any, becomes unknown.
					e.Log.Error("the store refuses a receipt", "key", r.Key.Short(), "error", refused)
					e.unstored.drop(r)
					return nil
				}
				if err != nil {
					return err
				}
				e.unstored.drop(r)
				e.copy(context.Background(), row)
				return nil
			})
		}
		err := g.Wait()
		switch {
		case closing:
			return
		case err == nil:
			pause = 0
		default:
			pause = min(max(2*pause, 100*time.Millisecond), 5*time.Second)
			e.Log.Warn("results are still not stored", "error", err)
		}
	}
}
