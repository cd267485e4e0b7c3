package sweep

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// Bounds of one replica's reconciling.
const (
	reconcileEvery  = 500 * time.Millisecond // a look at what is due: one read of a small index
	reconcileBatch  = 256
	reconcileAtOnce = 32
)

// Reconciler goes on with the receipts whose next check is due. The schedule is in the store,
// and every replica works it off: Engine.Recover says how two of them share it.
type Reconciler struct {
	Engine *once.Engine
	Desk   intentstore.Desk
	Log    *slog.Logger
}

// Run reconciles until ctx ends.
func (r *Reconciler) Run(ctx context.Context) {
	for {
		timer := time.NewTimer(reconcileEvery*3/4 + rand.N(reconcileEvery/2))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if err := r.Pass(ctx); err != nil && ctx.Err() == nil {
			r.Log.Warn("some receipts were not reconciled; they are due again soon", "error", err)
		}
	}
}

// Pass works off what is due now.
func (r *Reconciler) Pass(ctx context.Context) error {
	now := time.Now()
	rows, err := r.Desk.Due(ctx, now, reconcileBatch)
	if err != nil {
		return err
	}
	failed := make([]error, len(rows))
	var g errgroup.Group
	g.SetLimit(reconcileAtOnce)
	for i, row := range rows {
		if row.NextCheck.IsZero() || row.NextCheck.After(now) {
			continue // due for a notice
		}
		g.Go(func() error {
			if ctx.Err() == nil {
				failed[i] = r.Engine.Recover(context.WithoutCancel(ctx), row)
			}
			return nil
		})
	}
	g.Wait()
	return errors.Join(failed...)
}
