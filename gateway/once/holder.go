package once

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/lock"
)

// holder is this replica's claim on one key. Its deadline is on the monotonic clock and is
// counted from before the claim was asked for, so it ends no later than Redis thinks.
type holder struct {
	clock
	ask      lock.Ask
	fence    atomic.Uint64 // as the store decided, once it has
	deadline atomic.Int64  // nanoseconds since epoch
	gone     atomic.Bool   // Redis says that the claim is somebody else's

}

// clock is the monotonic clock, in nanoseconds since the engine started.
type clock struct{ epoch time.Time }

func (c clock) monotonic() int64 { return int64(time.Since(c.epoch)) }

func (e *Engine) newHolder(f *flight) *holder {
	h := e.holderOf(&f.provisional, f.provisional.Traceparent)
	if f.req.Tool.Durability == intent.Hot {
		started := f.provisional
		started.ClaimID = h.ask.ClaimID
		h.ask.Hot, h.ask.Receipt = true, started.Encode()
	}
	return h
}

// holderOf is a claim on a key that has a row already; the row will say so first.
func (e *Engine) holderOf(r *intent.Receipt, traceparent string) *holder {
	h := &holder{clock: e.clock, ask: lock.Ask{Guard: r.Guard, Key: r.Key, Fingerprint: r.Fingerprint, Lease: e.Lease, Traceparent: traceparent}}
	rand.Read(h.ask.ClaimID[:])
	h.deadline.Store(h.monotonic() + int64(e.Lease))
	return h
}

// carries notes the receipt that the claim is about to be written ahead with.
func (h *holder) carries(r *intent.Receipt) {
	h.begun(r.Fence)
	if r.Durability == intent.Hot {
		h.ask.Hot, h.ask.Receipt = true, r.Encode()
	}
}

// mayBegin is the old holder's check right before the request is written (DESIGN §5): a
// process that slept past its lease sends nothing.
func (h *holder) mayBegin() bool { return !h.gone.Load() && h.monotonic() < h.deadline.Load() }

// begun notes the fence that the store decided on; renewals write it from now on.
func (h *holder) begun(fence uint64) { h.fence.Store(fence) }

// holders are the claims that this replica renews, and those that it may have left in
// Redis without acting on them.
type holders struct {
	mu   sync.Mutex
	open map[*holder]struct{}
	left []*holder // at most maxLeft
}

// maxLeft bounds the claims to be released later. What does not fit becomes unknown when
// its lease runs out, which is safe and less helpful.
const maxLeft = 4096

func (hs *holders) init() { hs.open = make(map[*holder]struct{}) }

func (hs *holders) add(h *holder) {
	hs.mu.Lock()
	hs.open[h] = struct{}{}
	hs.mu.Unlock()
}

func (hs *holders) drop(h *holder) {
	hs.mu.Lock()
	delete(hs.open, h)
	hs.mu.Unlock()
}

func (hs *holders) leave(h *holder) {
	hs.mu.Lock()
	if len(hs.left) < maxLeft {
		hs.left = append(hs.left, h)
	}
	hs.mu.Unlock()
}

func (hs *holders) takeLeft() []*holder {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	left := hs.left
	hs.left = nil
	return left
}

// due returns the claims whose lease has less than two thirds left.
func (hs *holders) due(lease time.Duration) []*holder {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	var due []*holder
	for h := range hs.open {
		if h.deadline.Load() < h.monotonic()+int64(lease)*2/3 {
			due = append(due, h)
		}
	}
	return due
}

// renewLeases extends this replica's claims in one batch per third of a lease. Most calls
// are over before their first renewal.
func (e *Engine) renewLeases() {
	tick := time.NewTicker(e.Lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-e.closing:
			return
		case <-tick.C:
		}
		for _, h := range e.holders.takeLeft() {
			if !e.redis.up() {
				e.holders.leave(h)
			} else if err := e.Lock.Release(context.Background(), h.ask.Guard, h.ask.ClaimID); err != nil {
				e.redis.note(err)
				e.holders.leave(h)
			}
		}
		due := e.holders.due(e.Lease)
		if len(due) == 0 {
			continue
		}
		asked := e.monotonic()
		leases := make([]lock.Lease, len(due))
		for i, h := range due {
			leases[i] = lock.Lease{Guard: h.ask.Guard, Ask: h.ask, Fence: h.fence.Load()}
		}
		lostGuards, err := e.Lock.Renew(context.Background(), leases)
		e.redis.note(err)
		if err != nil {
			e.Log.Warn("leases were not renewed", "claims", len(due), "error", err)
			continue
		}
		lost := make(map[intent.Guard]bool, len(lostGuards))
		for _, g := range lostGuards {
			lost[g] = true
		}
		for _, h := range due {
			if lost[h.ask.Guard] {
				h.gone.Store(true)
			} else {
				h.deadline.Store(asked + int64(e.Lease))
			}
		}
	}
}

// health remembers that Redis failed, so that not every call pays for finding out.
type health struct {
	clock
	downUntil atomic.Int64
}

// downFor is how long Redis is left alone after a failure.
const downFor = time.Second

func (h *health) up() bool { return h.monotonic() >= h.downUntil.Load() }

func (h *health) note(err error) {
	if err != nil {
		h.downUntil.Store(h.monotonic() + int64(downFor))
	}
}
