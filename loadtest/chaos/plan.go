// Package chaos stages a whole Latchkey, with real gateways, nginx, Redis and PostgreSQL on
// loopback ports, and breaks it while agents are at work.
//
// A Plan draws faults from a seed, in streams that run side by side: replicas are killed,
// replicas are put to sleep, links are broken, stores lose their memory and fail over. Within
// a stream one fault is over before the next begins. What can be assumed of a deployment
// (README, "What it promises") is kept: PostgreSQL is not made to lose what it
// acknowledged, and the target keeps its promise about lookups.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/history"
)

// Plan says how often what breaks.
type Plan struct {
	Seed uint64
	// Mean times between two faults of a stream: kills of replicas, their naps, links,
	// Redis and PostgreSQL. 0: none.
	Kills, Naps, Links, Stores time.Duration
}

// Usual is a bad year in two minutes.
var Usual = Plan{Kills: 2500 * time.Millisecond, Naps: 6 * time.Second, Links: 2500 * time.Millisecond, Stores: 4 * time.Second}

// Run breaks the stage while agents run, mends everything, and returns what was done.
func (p *Plan) Run(ctx context.Context, g *Stage, agents func(context.Context), note func(string, ...any)) ([]history.Fault, error) {
	d := &director{Stage: g, note: note}
	breaking, stop := context.WithCancel(ctx)
	defer stop()
	var streams sync.WaitGroup
	for i, s := range []struct {
		mean  time.Duration
		fault func(context.Context, *rand.Rand) error
	}{{p.Kills, d.kill}, {p.Naps, d.nap}, {p.Links, d.linkFault}, {p.Stores, d.storeFault}} {
		if s.mean <= 0 {
			continue
		}
		rng := rand.New(rand.NewPCG(p.Seed, uint64(0xc4a05+i)))
		streams.Go(func() {
			for {
				if !sleep(breaking, time.Duration((0.2+0.8*rng.ExpFloat64())*float64(s.mean))) {
					return
				}
				// What was begun is also mended: ctx, not breaking.
				if err := s.fault(ctx, rng); err != nil {
					d.fail(err)
					return
				}
			}
		})
	}
	streams.Go(func() {
		for sleep(breaking, 200*time.Millisecond) {
			d.supervise()
		}
	})
	agents(ctx)
	stop()
	streams.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := errors.Join(d.failed, d.mend(ctx)); err != nil {
		return nil, fmt.Errorf("chaos: %w", err)
	}
	return d.faults, nil
}

// director breaks a stage.
type director struct {
	*Stage
	note func(string, ...any)

	// replicas is held while replicas are being killed or started, so that the streams do
	// not start one twice.
	replicas sync.Mutex

	mu     sync.Mutex
	faults []history.Fault
	failed error
}

// did records a fault that has just begun.
func (d *director) did(kind, victim string, length time.Duration, about string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, history.Fault{At: time.Now().UTC(), For: length, Kind: kind, Victim: victim, Note: about})
	d.note("%s %-8s %s %s %s", time.Now().Format("15:04:05.000"), kind, victim, length.Round(time.Millisecond), about)
}

func (d *director) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = errors.Join(d.failed, err)
	d.note("chaos itself failed: %v", err)
}

// mend puts everything right at the end.
func (d *director) mend(ctx context.Context) error {
	var errs []error
	for _, p := range d.Replicas {
		for _, k := range p.Links {
			errs = append(errs, k.Turn(Open))
		}
	}
	for _, p := range d.Replicas {
		errs = append(errs, until(ctx, time.Minute, func() error {
			d.supervise()
			return p.AwaitReady(ctx, 5*time.Second)
		}))
	}
	return errors.Join(errs...)
}

// supervise starts replicas again that ended by themselves, as any deployment does: one
// that cannot reach its store does not start.
func (d *director) supervise() {
	d.replicas.Lock()
	defer d.replicas.Unlock()
	for _, p := range d.Replicas {
		select {
		case <-p.Done():
			again, err := d.rig.RelaunchGateway(p.Gateway)
			if err != nil {
				d.fail(err)
				return
			}
			p.Gateway = again
		default:
		}
	}
}

// sleep says false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// between draws a time.
func between(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rng.Int64N(int64(high-low)))
}
