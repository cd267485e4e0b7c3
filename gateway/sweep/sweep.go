// Package sweep finds what nobody came back for: claims whose holder died, results that
// reached Redis and not the store, rows that outlived their execution, receipts past their
// retention. It decides nothing itself; Engine.Repair does, as it does for a reader.
//
// Every replica sweeps, at its own pace, without electing anybody: each repair is
// conditional on what it found, so two sweepers at one key do the work of one.
package sweep

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
	"github.com/latchkey-gateway/latchkey/lock"
)

// Options wire a Sweeper. All fields are required but Log.
type Options struct {
	Engine *once.Engine
	Lock   interface {
		lock.Store
		lock.Keeper
	}
	Store interface {
		intentstore.Store
		intentstore.Keeper
	}
	Lease     time.Duration // a pass begins every lease, give or take a quarter
	Result    time.Duration // after this, a terminal row becomes a tombstone
	Tombstone time.Duration // after this, a tombstone may be forgotten
	Log       *slog.Logger
}

// Sweeper sweeps.
type Sweeper struct{ Options }

// New makes a sweeper; Run it.
func New(o Options) *Sweeper {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Sweeper{o}
}

// batch bounds one look at the open claims, the started rows, or the expired ones.
const batch = 1000

// Run sweeps until ctx ends.
func (s *Sweeper) Run(ctx context.Context) {
	for {
		timer := time.NewTimer(s.Lease*3/4 + rand.N(s.Lease/2))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("a sweep was not finished; the next one goes on", "error", err)
		}
	}
}

// Sweep makes one pass. Its steps do not depend on each other: Redis being down does not
// keep the store's rows from being swept.
func (s *Sweeper) Sweep(ctx context.Context) error {
	return errors.Join(s.claims(ctx), s.rows(ctx), s.retention(ctx))
}

// claims repairs the records that Redis lists as open for longer than a lease.
func (s *Sweeper) claims(ctx context.Context) error {
	guards, err := s.Lock.Overdue(ctx, s.Lease, batch)
	if err != nil {
		return err
	}
	var failed error
	for _, g := range guards {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		rec, err := s.Lock.Get(ctx, g)
		switch {
		case errors.Is(err, intent.ErrNone):
			err = s.Lock.Closed(ctx, g)
		case err == nil && rec.Status != intent.Started && rec.Durable:
			err = s.Lock.Closed(ctx, g)
		case err == nil:
			err = s.Engine.Repair(ctx, rec)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// rows looks from the store's side: it finds what Redis has forgotten. A started row is
// lost when its claim's lease has run out in Redis or, where Redis does not know the
// claim, when the tool's timeout and a lease have passed.
func (s *Sweeper) rows(ctx context.Context) error {
	now := time.Now()
	rows, err := s.Store.Overdue(ctx, now.Add(-s.Lease), batch)
	if err != nil {
		return err
	}
	var failed error
	for _, row := range rows {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		rec, err := s.Lock.Get(ctx, row.Guard)
		known := err == nil && rec.Key == row.Key && rec.ClaimID == row.ClaimID
		switch {
		case known && rec.Status == intent.Started && rec.Lease > 0:
			err = nil // somebody is acting
		case known:
			err = s.Engine.Repair(ctx, rec)
		case now.After(row.SettleBy):
			err = s.Engine.RepairRow(ctx, row, row.ClaimID)
		default:
			err = nil
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// retention turns old terminal rows into tombstones, and forgets old tombstones where the
// database role may.
func (s *Sweeper) retention(ctx context.Context) error {
	now := time.Now()
	expired, err := s.Store.Expire(ctx, now.Add(-s.Result), batch)
	if err != nil {
		return err
	}
	forgotten, err := s.Store.Forget(ctx, now.Add(-s.Tombstone), batch)
	if expired+forgotten > 0 {
		s.Log.Info("retention", "expired", expired, "forgotten", forgotten)
	}
	return err
}
