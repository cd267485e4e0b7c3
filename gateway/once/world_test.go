package once_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	seal   *once.Seal
	tools  map[string]*downstream.Tool
}

func newWorld(t *testing.T, fault memlock.Fault) *world {
	t.Helper()
	seal, err := once.NewSeal(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, seal: seal, lock: memlock.New(fault), store: memstore.New(), effect: &effects{ledger: map[intent.Key]int{}}}
	w.configure(catalogue(t, nil))
	return w
}

// catalogue is every kind of tool that the tests call; change, if given, changes one.
func catalogue(t *testing.T, change func(*downstream.ToolSpec)) *downstream.Catalogue {
	t.Helper()
	spec := func(name, class string, special func(*downstream.ToolSpec)) downstream.ToolSpec {
		s := downstream.ToolSpec{Name: name, Class: class, Downstream: "d", Timeout: timeout, OnUnknown: "park",
			Request: downstream.RequestSpec{Method: "POST", Path: "/" + name, Body: "args"}}
		if special != nil {
			special(&s)
		}
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
			spec("asked", "effectful", func(s *downstream.ToolSpec) {
				s.Identity, s.OnUnknown, s.Lookup = []string{"/id"}, "lookup", lookup(false)
			}),
			spec("asked_again", "effectful", func(s *downstream.ToolSpec) {
				s.Identity, s.OnUnknown, s.Lookup = []string{"/id"}, "lookup", lookup(true)
			}),
			spec("deduped", "effectful", func(s *downstream.ToolSpec) {
				s.Identity, s.OnUnknown = []string{"/id"}, "retry"
				s.ForwardKey = &downstream.ForwardKeySpec{Header: "Idempotency-Key", Dedupes: true, For: time.Hour}
			}),
			spec("repeated", "idempotent", func(s *downstream.ToolSpec) { s.OnUnknown = "retry" }),
			spec("wire_by_two", "irreversible", func(s *downstream.ToolSpec) { s.Approval = &downstream.ApprovalSpec{Expires: time.Hour, People: 2} }),
			spec("secret", "effectful", func(s *downstream.ToolSpec) {
				s.Redact, s.Approval = []string{"/card"}, &downstream.ApprovalSpec{Expires: time.Hour}
			}),
		})
	if err != nil {
		t.Fatal(err)
	}
	return cat
}

// configure gives every replica this catalogue, as a restart with another config would.
func (w *world) configure(cat *downstream.Catalogue) {
	w.tools = map[string]*downstream.Tool{}
	for _, tool := range cat.Tools() {
		w.tools[tool.Name] = tool
	}
}

// change sends a tool's requests elsewhere; "" takes the tool out.
func (w *world) change(name, path string) {
	w.configure(catalogue(w.t, func(s *downstream.ToolSpec) {
		if s.Name == name {
			s.Request.Path = path + "/x"
		}
	}))
	if path == "" {
		delete(w.tools, name)
	}
}

// tool is the tool as it is configured now.
func (w *world) tool(name string) (*downstream.Tool, bool) {
	t, ok := w.tools[name]
	return t, ok
}

// replica starts an engine; its sweeper and its reconciler run when the test says so.
func (w *world) replica(name string) *replica { return w.replicaOf(w.options(name, nil)) }

func (w *world) replicaOf(o once.Options) *replica {
	e := once.New(o)
	return &replica{Engine: e, w: w, reconciler: &sweep.Reconciler{Engine: e, Desk: o.Desk, Log: slog.New(slog.DiscardHandler)}, sweeper: sweep.New(sweep.Options{
		Engine: e, Lock: w.lock, Store: w.store, Lease: lease, Result: 24 * time.Hour, Tombstone: 48 * time.Hour,
	})}
}

// options wire an engine to the world; p, if given, breaks its steps.
func (w *world) options(name string, p *plan) once.Options {
	o := once.Options{
		Lock: w.lock, Store: w.store, Desk: w.store, Journal: w.store, Effects: w.effect, Tools: w.tool, Seal: w.seal, Notify: true,
		Lease: lease, HotTTL: time.Hour, NearCache: 1 << 20, MaxInFlight: 1 << 20, Replica: name, Region: "test",
	}
	if p != nil {
		o.Lock, o.Store, o.Desk, o.Effects = brokenLock{w.lock, p}, brokenStore{w.store, p}, brokenDesk{w.store, p}, brokenEffects{w.effect, p}
	}
	return o
}

type replica struct {
	*once.Engine
	w          *world
	sweeper    *sweep.Sweeper
	reconciler *sweep.Reconciler
}

func (r *replica) reconcile() {
	r.w.t.Helper()
	if err := r.reconciler.Pass(context.Background()); err != nil {
		r.w.t.Fatalf("reconcile: %v", err)
	}
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
	behave func(n int) downstream.Observed       // what the n-th request sees; nil: 200
	lost   func(n int) bool                      // whether the n-th request, sent, does not arrive
	found  func(k intent.Key) downstream.Finding // what a lookup finds; nil: what the ledger says
	slow   time.Duration
	refuse *downstream.Refusal
	n      int
	looked int
	args   string // of the last request
}

// lookup is a policy whose answers the fake gives.
func lookup(again bool) *downstream.LookupSpec {
	return &downstream.LookupSpec{Request: downstream.RequestSpec{Method: "GET", Path: "/{key}"}, SettleAfter: time.Minute, Every: 5 * time.Second,
		GiveUpAfter: time.Hour, CompletedWhen: "response.status == 200", AbsentWhen: "response.status == 404",
		AbsenceIsProof: true, ReexecuteWhenAbsent: again}
}

func (e *effects) Lookup(_ context.Context, c downstream.Call) downstream.Finding {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.looked++
	slow := e.slow
	e.mu.Unlock()
	time.Sleep(slow)
	e.mu.Lock()
	switch {
	case e.found != nil:
		return e.found(c.Key)
	case e.ledger[c.Key] > 0:
		return downstream.Finding{Proof: downstream.Happened, Outcome: &intent.Outcome{HTTPStatus: 200, Body: []byte(`{"n":1}`)}, Evidence: []byte(`{"http_status":200}`)}
	}
	return downstream.Finding{Proof: downstream.Absent, Evidence: []byte(`{"http_status":404}`)}
}

// takes says how long the downstream takes from now on.
func (e *effects) takes(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.slow = d
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
	e.args = string(c.Args.AppendJSON(nil))
	seen := ok(fmt.Sprintf(`{"n":%d}`, e.n))
	if e.behave != nil {
		seen = e.behave(e.n)
	}
	if seen.Sent && (e.lost == nil || !e.lost(e.n)) && !(c.Tool.Dedupes && e.ledger[c.Key] > 0) {
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
