package once_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/gateway/sweep"
	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore/memstore"
	"github.com/latchkey-gateway/latchkey/lock/memlock"
	"github.com/latchkey-gateway/latchkey/tracing"
)

const (
	lease   = 10 * time.Second
	timeout = 30 * time.Second
)

// world is one Redis, one store and one downstream, shared by as many replicas as a test
// starts. Everything is in memory and lives in a synctest bubble.
type world struct {
	t      *testing.T
	lock   *memlock.Locker
	store  *memstore.Store
	effect *effects
	tools  map[string]*downstream.Tool
}

func newWorld(t *testing.T, fault memlock.Fault) *world {
	t.Helper()
	spec := func(name, class string, change func(*downstream.ToolSpec)) downstream.ToolSpec {
		s := downstream.ToolSpec{Name: name, Class: class, Downstream: "d", Timeout: timeout, OnUnknown: "park",
			Request: downstream.RequestSpec{Method: "POST", Path: "/" + name, Body: "args"}}
		if change != nil {
			change(&s)
		}
		return s
	}
	cat, err := downstream.NewCatalogue(
		[]downstream.Spec{{Name: "d", BaseURL: "http://127.0.0.1:1", Timeout: timeout, MaxInFlight: 1024,
			Breaker: downstream.BreakerSpec{Window: 30 * time.Second, MinRequests: 20, FailureRatio: 0.5, OpenFor: 10 * time.Second, HalfOpenProbes: 3}}},
		[]downstream.ToolSpec{
			spec("mail", "effectful", func(s *downstream.ToolSpec) { s.Identity = []string{"/id"} }),
			spec("hot", "effectful", func(s *downstream.ToolSpec) { s.Identity, s.Durability = []string{"/id"}, "hot" }),
			spec("put", "idempotent", nil),
			spec("wire", "irreversible", nil),
		})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, lock: memlock.New(fault), store: memstore.New(), tools: map[string]*downstream.Tool{},
		effect: &effects{ledger: map[intent.Key]int{}}}
	for _, tool := range cat.Tools() {
		w.tools[tool.Name] = tool
	}
	return w
}

// replica starts an engine; its sweeper runs when the test says sweep.
func (w *world) replica(name string) *replica {
	e := once.New(once.Options{
		Lock: w.lock, Store: w.store, Journal: w.store, Effects: w.effect,
		Lease: lease, HotTTL: time.Hour, NearCache: 1 << 20, MaxInFlight: 1 << 20, Replica: name, Region: "test",
	})
	return &replica{Engine: e, w: w, sweeper: sweep.New(sweep.Options{
		Engine: e, Lock: w.lock, Store: w.store, Lease: lease, Result: 24 * time.Hour, Tombstone: 48 * time.Hour,
	})}
}

type replica struct {
	*once.Engine
	w       *world
	sweeper *sweep.Sweeper
}

func (r *replica) sweep() {
	r.w.t.Helper()
	if err := r.sweeper.Sweep(context.Background()); err != nil {
		r.w.t.Fatalf("sweep: %v", err)
	}
}

func (r *replica) close() {
	if err := r.Close(context.Background()); err != nil {
		r.w.t.Errorf("close: %v", err)
	}
}

// call is one arrival of run r, step s with the given arguments.
func (w *world) call(tool, args string) once.Request {
	w.t.Helper()
	v, err := intent.Parse([]byte(args))
	if err != nil {
		w.t.Fatal(err)
	}
	return once.Request{Tool: w.tools[tool], Credential: "c", Wait: time.Minute, Span: tracing.Continue(""),
		Call: intent.Call{Tenant: "acme", RunID: "r", StepID: "s", Args: v}}
}

// effects is a downstream that keeps a ledger of what happened, by key.
type effects struct {
	mu     sync.Mutex
	ledger map[intent.Key]int
	behave func(n int) downstream.Observed // what the n-th request sees; nil: 200
	slow   time.Duration
	refuse *downstream.Refusal
	n      int
}

func (e *effects) Admit(*downstream.Tool) (func(downstream.Observed, downstream.Verdict), *downstream.Refusal) {
	if e.refuse != nil {
		return nil, e.refuse
	}
	return func(downstream.Observed, downstream.Verdict) {}, nil
}

func (e *effects) Execute(_ context.Context, c downstream.Call) downstream.Observed {
	if c.MayBegin != nil && !c.MayBegin() {
		return downstream.Observed{NotSentWhy: "lease", Err: errors.New("lease")}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.n++
	seen := ok(fmt.Sprintf(`{"n":%d}`, e.n))
	if e.behave != nil {
		seen = e.behave(e.n)
	}
	if seen.Sent {
		e.ledger[c.Key]++
	}
	slow := e.slow
	e.mu.Unlock()
	time.Sleep(slow)
	e.mu.Lock()
	return seen
}

func (e *effects) Forward(ctx context.Context, c downstream.Call) downstream.Observed {
	return ok(`{}`)
}

func (e *effects) total() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, k := range e.ledger {
		n += k
	}
	return n
}

func ok(body string) downstream.Observed {
	return downstream.Observed{Sent: true, HTTPStatus: 200, Body: []byte(body), Header: map[string][]string{"Content-Type": {"application/json"}}}
}

var lostAnswer = downstream.Observed{Sent: true, Err: errors.New("connection reset"), TimedOut: true}
