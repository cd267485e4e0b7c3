package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/gateway"
	"github.com/latchkey-gateway/latchkey/gateway/auth"
	"github.com/latchkey-gateway/latchkey/gateway/config"
	"github.com/latchkey-gateway/latchkey/gateway/console"
	"github.com/latchkey-gateway/latchkey/gateway/notify"
	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/gateway/sweep"
	"github.com/latchkey-gateway/latchkey/intentstore"
	"github.com/latchkey-gateway/latchkey/intentstore/postgres"
	"github.com/latchkey-gateway/latchkey/intentstore/sqlite"
	"github.com/latchkey-gateway/latchkey/lock"
	"github.com/latchkey-gateway/latchkey/lock/redislock"
	"github.com/latchkey-gateway/latchkey/tracing"
)

// nearCacheBytes bounds the completed receipts that a replica keeps in memory.
const nearCacheBytes = 64 << 20

// gcPercent lets the heap grow to five times what is live before it is collected. What is
// live is small and bounded (the near cache, the calls under way), and collecting it at
// twice its size cost a tenth of the processor time of a call. GOGC overrides it.
const gcPercent = 400

// fullStore is all that a durable store does.
type fullStore interface {
	intentstore.Store
	intentstore.Keeper
	intentstore.Journal
	intentstore.Desk
}

// fullLock is all that a lock store does.
type fullLock interface {
	lock.Store
	lock.Keeper
}

// process is a wired gateway. Everything in undo has been started and is ended, last
// first, by close.
type process struct {
	cfg       *config.Config
	log       *slog.Logger
	gateway   *gateway.Gateway
	console   *console.Console
	metrics   *tracing.Metrics
	agents    net.Listener
	operators net.Listener
	longest   time.Duration // timeout of the slowest tool
	undo      []func(context.Context) error
}

// start wires a gateway from its configuration and opens both listeners. When it fails,
// what was started is ended again.
func start(ctx context.Context, cfg *config.Config, log *slog.Logger) (p *process, err error) {
	p = &process{cfg: cfg, log: log}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close(context.WithoutCancel(ctx)))
		}
	}()
	catalogue, err := cfg.Catalogue()
	if err != nil {
		return p, err
	}
	_, findings := catalogue.Audit()
	for _, f := range findings {
		if f.Severity == downstream.Unsafe {
			log.Error("unsafe tool; latchkey check tells more", "tool", f.Tool, "field", f.Field, "why", f.Msg)
		}
	}
	keys := make([]auth.Key, len(cfg.Auth.Keys))
	for i, k := range cfg.Auth.Keys {
		keys[i] = auth.Key(k)
	}
	principals, err := auth.New(keys)
	if err != nil {
		return p, err
	}
	// Listeners first: a taken port is told before anything is touched.
	if p.agents, err = net.Listen("tcp", cfg.Listen); err != nil {
		return p, fmt.Errorf("listen: %w", err)
	}
	p.later(func(context.Context) error { return ignoreClosed(p.agents.Close()) })
	if p.operators, err = net.Listen("tcp", cfg.OperatorListen); err != nil {
		return p, fmt.Errorf("operator_listen: %w", err)
	}
	p.later(func(context.Context) error { return ignoreClosed(p.operators.Close()) })

	telemetry, err := startTelemetry(ctx, p, catalogue)
	if err != nil {
		return p, err
	}
	p.metrics = telemetry.Metrics
	p.later(telemetry.Shutdown)
	store, err := openStore(ctx, cfg, p.metrics.Batch)
	if err != nil {
		return p, err
	}
	p.later(func(context.Context) error { return store.Close() })
	locker, err := p.openLock(ctx)
	if err != nil {
		return p, err
	}
	client := downstream.NewClient(catalogue, downstream.Options{ResultCap: int64(cfg.Limits.Result)})
	p.later(func(context.Context) error { client.Close(); return nil })
	effects, faults, err := withFaults(client, cfg.Faults)
	if err != nil {
		return p, err
	}
	for _, f := range faults {
		log.Error("FAULTS ARE INJECTED ON PURPOSE", "what", f)
	}

	seal, err := newSeal(cfg.Store.Seal())
	if err != nil {
		return p, err
	}
	engine := once.New(once.Options{
		Lock: locker, Store: store, Desk: store, Journal: store, Effects: effects, Tools: catalogue.Tool, Seal: seal, Notify: cfg.Notify != nil,
		Lease: cfg.Lease, HotTTL: cfg.Retention.Hot, NearCache: nearCacheBytes, MaxInFlight: cfg.Limits.InFlight,
		Replica: cfg.Replica, Region: cfg.Region, Telemetry: telemetry, StoreSystem: storeSystem[cfg.Store.Driver], Log: log,
	})
	p.later(engine.Close)
	waiting := newBacklog(store, locker, cfg.Auth.Keys)
	if err := observe(p.metrics, engine, client, waiting); err != nil {
		return p, err
	}
	p.background(ctx, waiting.run)
	sweeper := sweep.New(sweep.Options{
		Engine: engine, Lock: locker, Store: store, Lease: cfg.Lease,
		Result: cfg.Retention.Result, Tombstone: cfg.Retention.Tombstone, Log: log,
	})
	reconciler := &sweep.Reconciler{Engine: engine, Desk: store, Log: log}
	p.background(ctx, sweeper.Run)
	p.background(ctx, reconciler.Run)
	if n := cfg.Notify; n != nil {
		notifier, err := notify.New(notify.Options{Desk: store, URL: n.URL, Secret: n.Secret, Events: n.Events, Told: p.told, Log: log})
		if err != nil {
			return p, err
		}
		p.background(ctx, notifier.Run)
	}
	if p.console, err = console.New(console.Options{
		Engine: engine, Catalogue: catalogue, Breakers: client, Keys: keys, Notices: func() []string { return faults }, TraceLink: cfg.Tracing.ConsoleLink, Log: log,
	}); err != nil {
		return p, err
	}
	p.later(func(context.Context) error { p.console.Close(); return nil })

	p.gateway = gateway.New(gateway.Options{
		Engine: engine, Catalogue: catalogue, Client: client, Keys: principals, Telemetry: telemetry, Faults: faults,
		Ready: map[string]func(context.Context) error{"redis": locker.Ready, "store": store.Ready},
		Body:  int64(cfg.Limits.Body), Wait: cfg.Limits.Wait, Log: log,
	})
	for _, t := range catalogue.Tools() {
		p.longest = max(p.longest, t.Timeout)
	}
	return p, nil
}

// background runs f until the process is closed, and then waits for it.
func (p *process) background(ctx context.Context, f func(context.Context)) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() { f(ctx); close(ended) }()
	p.later(func(context.Context) error { stop(); <-ended; return nil })
}

func (p *process) later(f func(context.Context) error) { p.undo = append(p.undo, f) }

// close ends everything, last started first; each step gets what is left of ctx.
func (p *process) close(ctx context.Context) error {
	var failed error
	for i := len(p.undo) - 1; i >= 0; i-- {
		failed = errors.Join(failed, p.undo[i](ctx))
	}
	p.undo = nil
	return failed
}

// serve answers both listeners until ctx ends. Then it says "not ready", takes no new
// connections, and lets the calls under way finish: an effect that was begun is settled,
// as long as it ends within its tool's timeout.
func (p *process) serve(ctx context.Context) error {
	agents := p.server(p.gateway.Agents())
	operators := p.server(p.operatorHandler())
	failed := make(chan error, 2)
	go func() { failed <- agents.Serve(p.agents) }()
	go func() { failed <- operators.Serve(p.operators) }()

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	p.log.Info("draining", "calls_may_take", p.longest)
	p.gateway.Drain()
	p.console.Close()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.longest+p.cfg.Lease+5*time.Second)
	defer cancel()
	err = errors.Join(err, agents.Shutdown(ending), p.close(ending), operators.Shutdown(ending))
	p.log.Info("stopped")
	return err
}

func (p *process) server(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
	}
}

func (p *process) operatorHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", p.gateway.Operators())
	mux.Handle("GET /metrics", p.metrics.Handler())
	mux.Handle(console.Prefix, p.console)
	mux.Handle(console.Prefix+"/", p.console)
	if !p.cfg.Pprof {
		return mux
	}
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// openStore opens the durable store and, unless told not to, migrates it.
func openStore(ctx context.Context, cfg *config.Config, onBatch func(rows int)) (fullStore, error) {
	if cfg.Store.Migrate {
		if err := migrate(ctx, cfg); err != nil {
			return nil, err
		}
	}
	if cfg.Store.Driver == "sqlite" {
		return sqlite.Open(ctx, sqlite.Options{Path: cfg.Store.Path, OnBatch: onBatch})
	}
	return postgres.Open(ctx, postgres.Options{DSN: cfg.Store.DSN, OnBatch: onBatch})
}

// openLock connects to Redis, or starts the embedded one, and checks that it is a primary
// that never evicts. A Redis that is down does not keep the gateway from starting: durable
// calls work without it.
func (p *process) openLock(ctx context.Context) (fullLock, error) {
	c := p.cfg.Redis
	o := redislock.Options{
		Mode: c.Mode, Addrs: c.Addrs, MasterName: c.MasterName, Username: c.Username, Password: c.Password,
		SentinelUsername: c.SentinelUsername, SentinelPassword: c.SentinelPassword, DB: c.DB, Prefix: c.Prefix,
	}
	if c.Mode == "embedded" {
		embedded, err := startEmbeddedRedis()
		if err != nil {
			return nil, err
		}
		p.later(func(context.Context) error { embedded.stop(); return nil })
		o.Mode, o.Addrs = redislock.Standalone, []string{embedded.addr()}
	}
	var err error
	if o.TLS, err = c.TLS.Config(); err != nil {
		return nil, err
	}
	locker, err := redislock.New(o)
	if err != nil {
		return nil, err
	}
	p.later(func(context.Context) error { return locker.Close() })
	if c.Mode == "embedded" {
		return locker, nil
	}
	warnings, err := locker.Check(ctx)
	if errors.Is(err, redislock.ErrNotPrimary) {
		return nil, err
	}
	if err != nil {
		p.log.Error("redis cannot be used now: durable calls go on with the store alone, hot ones are refused", "error", err)
	}
	for _, w := range warnings {
		p.log.Warn(w)
	}
	return locker, nil
}

// storeSystem is what traces call the store.
var storeSystem = map[string]string{"postgres": tracing.SystemPostgreSQL, "sqlite": tracing.SystemSQLite}

// told counts what became of a notification.
func (p *process) told(outcome string) {
	if outcome == notify.Sent {
		p.metrics.Notified(nil)
	} else {
		p.metrics.Notified(errors.New(outcome))
	}
}

// withFaults makes the client lose answers as the config says, and says so in words.
func withFaults(client *downstream.Client, faults map[string]config.Fault) (once.Effects, []string, error) {
	if len(faults) == 0 {
		return client, nil, nil
	}
	lose, words := make(map[string]downstream.Fault, len(faults)), make([]string, 0, len(faults))
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		f := downstream.Fault(faults[name])
		lose[name] = f
		words = append(words, fmt.Sprintf("Faults are injected into %s: %v of its calls act and then time out, %v act and reset, %v act and break off, %v are refused; %v are added to each.",
			name, f.AfterEffectTimeout, f.AfterEffectReset, f.AfterEffectTruncate, f.BeforeEffectRefuse, f.Delay))
	}
	faulty, err := client.WithFaults(lose, mathrand.Uint64())
	return faulty, words, err
}

// newSeal makes the seal of a config's seal_key; nil without one.
func newSeal(key []byte) (*once.Seal, error) {
	if key == nil {
		return nil, nil
	}
	return once.NewSeal(key)
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
