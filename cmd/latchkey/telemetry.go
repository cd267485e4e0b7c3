package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"net"
	"sync/atomic"
	"time"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/gateway/config"
	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
	"github.com/latchkey-gateway/latchkey/lock"
	"github.com/latchkey-gateway/latchkey/tracing"
)

// startTelemetry makes spans and metrics as the config says.
func startTelemetry(ctx context.Context, p *process, catalogue *downstream.Catalogue) (*tracing.Telemetry, error) {
	o := tracing.Options{Sample: p.cfg.Tracing.Sample, Version: versionText(), Replica: p.cfg.Replica, Region: p.cfg.Region, Log: p.log}
	if otlp := p.cfg.Tracing.OTLP; otlp != nil {
		o.Endpoint, o.Protocol, o.Insecure = otlp.Endpoint, otlp.Protocol, otlp.Insecure || loopback(otlp.Endpoint)
	}
	for _, t := range catalogue.Tools() {
		o.Tools = append(o.Tools, t.Name)
	}
	for _, d := range catalogue.Downstreams() {
		o.Downstreams = append(o.Downstreams, d.Name)
	}
	return tracing.Start(ctx, o)
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// observe gives the metrics what is read at each scrape.
func observe(m *tracing.Metrics, e *once.Engine, client *downstream.Client, b *backlog) error {
	return m.Observe(tracing.Sources{
		Unknown: b.unknown, Approvals: b.approvals,
		Breaker: client.BreakerState, InFlight: client.InFlight, NearCache: e.Near, JournalDropped: e.Unlisted,
		RedisUp: func() bool { return !e.Degraded() }, StoreUp: b.storeUp.Load,
	})
}

const (
	backlogEvery = 10 * time.Second
	backlogLease = 3 * backlogEvery
)

// backlog counts what waits in the store, for the metrics. One replica at a time does, the
// one that holds a claim of its own in Redis; without Redis all do, which is better than none.
type backlog struct {
	store interface {
		intentstore.Desk
		Ready(context.Context) error
	}
	lock    lock.Store
	tenants []string
	ask     lock.Ask
	counted atomic.Pointer[[]intentstore.Open] // nil: another replica tells
	storeUp atomic.Bool
}

func newBacklog(store fullStore, l lock.Store, keys []config.Key) *backlog {
	name := sha256.Sum256([]byte("latchkey: who counts the backlog"))
	b := &backlog{store: store, lock: l, ask: lock.Ask{Guard: intent.Guard(name), Key: intent.Key(name), Fingerprint: intent.Fingerprint(name), Lease: backlogLease}}
	rand.Read(b.ask.ClaimID[:])
	seen := map[string]bool{}
	for _, k := range keys {
		if !seen[k.Tenant] {
			b.tenants = append(b.tenants, k.Tenant)
		}
		seen[k.Tenant] = true
	}
	b.storeUp.Store(true)
	return b
}

func (b *backlog) run(ctx context.Context) {
	tick := time.NewTicker(backlogEvery)
	defer tick.Stop()
	for {
		b.pass(ctx)
		select {
		case <-ctx.Done():
			b.lock.Release(context.WithoutCancel(ctx), b.ask.Guard, b.ask.ClaimID)
			return
		case <-tick.C:
		}
	}
}

func (b *backlog) pass(ctx context.Context) {
	b.storeUp.Store(b.store.Ready(ctx) == nil)
	if !b.mine(ctx) {
		b.counted.Store(nil)
		return
	}
	open := []intentstore.Open{}
	for _, tenant := range b.tenants {
		now := time.Now()
		stats, err := b.store.Stats(ctx, intentstore.StatsQuery{Tenant: tenant, Since: now.Add(-time.Minute), Until: now, Step: time.Minute})
		if err != nil {
			return // what was counted last stays
		}
		open = append(open, stats.Open...)
	}
	b.counted.Store(&open)
}

// mine says whether this replica counts: it holds the claim, or nobody can hold one.
func (b *backlog) mine(ctx context.Context) bool {
	a, err := b.lock.Claim(ctx, b.ask)
	switch {
	case err != nil:
		return true
	case a.Code == lock.Claimed:
		b.lock.Renew(ctx, []lock.Lease{{Guard: b.ask.Guard, Ask: b.ask, Fence: a.Record.Fence}})
		return true
	case a.Code == lock.Held && a.Record.Lease <= 0: // its holder is gone; the next pass may claim
		b.lock.Release(ctx, b.ask.Guard, a.Record.ClaimID)
	}
	return false
}

func (b *backlog) unknown() map[string]tracing.Backlog {
	open := b.counted.Load()
	if open == nil {
		return nil
	}
	all := map[string]tracing.Backlog{}
	for _, o := range *open {
		if o.What == "unknown" && o.N > 0 {
			t := all[o.Tool]
			t.Open += int(o.N)
			t.Oldest = max(t.Oldest, time.Since(o.Oldest))
			all[o.Tool] = t
		}
	}
	return all
}

func (b *backlog) approvals() map[string]int {
	open := b.counted.Load()
	if open == nil {
		return nil
	}
	all := map[string]int{}
	for _, o := range *open {
		if o.What == "awaiting_approval" {
			all[o.Tool] += int(o.N)
		}
	}
	return all
}
