package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/gateway"
	"github.com/latchkey-gateway/latchkey/gateway/auth"
	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
	"github.com/latchkey-gateway/latchkey/intentstore/memstore"
	"github.com/latchkey-gateway/latchkey/lock/memlock"
	"github.com/latchkey-gateway/latchkey/tracing"
)

// Credentials of every world. Those of acme differ in their role, globex is another tenant.
const (
	acme     = "acme-agent"
	viewer   = "acme-viewer"
	operator = "acme-operator"
	globex   = "globex-agent"

	colleague = "acme-colleague" // another operator
)

const (
	bodyCap   = 64 << 10
	resultCap = 32 << 10
	longWait  = 20 * time.Second // limits.wait: longer than any test takes
)

// world is one Redis, one store and one downstream with a ledger, shared by as many
// replicas of the gateway as a test starts.
type world struct {
	testing.TB
	lock     *memlock.Locker
	store    *memstore.Store
	services *services
	cat      *downstream.Catalogue
	client   *downstream.Client
	keys     *auth.Keys
	log      *record
	inFlight int // limits.in_flight of the replicas that follow

	lockFault   atomic.Pointer[memlock.Fault]
	unreachable atomic.Bool // every dial of the downstream is refused
}

// setting changes the downstream's spec before the world is built.
type setting func(*downstream.Spec)

func newWorld(t testing.TB, settings ...setting) *world {
	t.Helper()
	w := &world{TB: t, store: memstore.New(), services: newServices(t), log: &record{}, inFlight: 1000}
	w.lock = memlock.New(func(verb string, n int) (bool, error) {
		if f := w.lockFault.Load(); f != nil {
			return (*f)(verb, n)
		}
		return true, nil
	})
	spec := downstream.Spec{Name: "office", BaseURL: w.services.URL, Timeout: 30 * time.Second, MaxInFlight: 64,
		Headers: map[string]string{"Authorization": "Bearer downstream-token"},
		Breaker: downstream.BreakerSpec{Window: time.Hour, MinRequests: 1 << 20, FailureRatio: 1, OpenFor: time.Hour, HalfOpenProbes: 1}}
	for _, s := range settings {
		s(&spec)
	}
	var err error
	if w.cat, err = downstream.NewCatalogue([]downstream.Spec{spec}, catalogue); err != nil {
		t.Fatal(err)
	}
	w.client = downstream.NewClient(w.cat, downstream.Options{ResultCap: resultCap, DialContext: w.dial})
	t.Cleanup(w.client.Close)
	var keys []auth.Key
	for key, roles := range map[string][]string{acme: {"agent"}, viewer: {"viewer"}, operator: {"operator"}, colleague: {"operator"}, globex: {"agent", "operator"}} {
		tenant, _, _ := strings.Cut(key, "-")
		keys = append(keys, auth.Key{ID: "id-of-" + key, SHA256: auth.Hash(key), Tenant: tenant, Roles: roles})
	}
	if w.keys, err = auth.New(keys); err != nil {
		t.Fatal(err)
	}
	return w
}

// catalogue has a tool for each thing that a class or a field makes different.
var catalogue = func() []downstream.ToolSpec {
	tool := func(name, class string, change func(*downstream.ToolSpec)) downstream.ToolSpec {
		s := downstream.ToolSpec{Name: name, Class: class, Downstream: "office",
			Request: downstream.RequestSpec{Method: "POST", Path: "/" + name, Body: "args"}}
		if class != "read_only" {
			s.OnUnknown = "park"
			s.ForwardKey = &downstream.ForwardKeySpec{Header: "Idempotency-Key"}
		}
		if change != nil {
			change(&s)
		}
		return s
	}
	return []downstream.ToolSpec{
		tool("mail", "effectful", func(s *downstream.ToolSpec) {
			s.Description = "Send an invoice by email"
			s.InputSchema = []byte(`{"type":"object","required":["id"],"properties":{"memo":{"type":"string"},"to":{"type":"string"}}}`)
			s.Identity, s.Volatile = []string{"/id", "/to"}, []string{"/at"}
			s.Normalise = map[string][]string{"/to": {"trim", "lowercase"}}
			s.ResponseHeaders = []string{"X-Ticket"}
		}),
		tool("note", "effectful", nil), // all arguments are identity
		tool("slow", "effectful", func(s *downstream.ToolSpec) { s.Timeout = time.Second }),
		tool("hot", "effectful", func(s *downstream.ToolSpec) { s.Identity, s.Durability = []string{"/id"}, "hot" }),
		tool("put", "idempotent", func(s *downstream.ToolSpec) { s.Request.Method = "PUT" }),
		tool("wire", "irreversible", nil),
		tool("vault", "irreversible", func(s *downstream.ToolSpec) { s.Approval = &downstream.ApprovalSpec{Expires: time.Hour, People: 2} }),
		tool("asked", "effectful", func(s *downstream.ToolSpec) { // its outcome can be looked up
			s.OnUnknown = "lookup"
			s.Lookup = &downstream.LookupSpec{Request: downstream.RequestSpec{Method: "GET", Path: "/asked?reference={key}", Body: "none"},
				Every: time.Hour, GiveUpAfter: 24 * time.Hour, SettleAfter: time.Minute,
				CompletedWhen: "response.status == 200 && response.body.found", AbsentWhen: "response.status == 200 && !response.body.found"}
		}),
		tool("charge", "effectful", func(s *downstream.ToolSpec) {
			s.Identity, s.Redact = []string{"/order", "/card_number"}, []string{"/card_number"}
		}),
		tool("label", "effectful", func(s *downstream.ToolSpec) { // what is sent needs run, step and a path
			s.Normalise = map[string][]string{"/name": {"trim"}}
			s.Request = downstream.RequestSpec{Method: "POST", Path: "/label/{run_id}/{step_id}/{args.name}?key={key}", Body: "none"}
		}),
		tool("search", "read_only", func(s *downstream.ToolSpec) {
			s.Redact = []string{"/card_number"}
			s.Request = downstream.RequestSpec{Method: "GET", Path: "/search?q={args.q}", Body: "none"}
		}),
		tool("glance", "read_only", func(s *downstream.ToolSpec) {
			s.Timeout = time.Second
			s.Request = downstream.RequestSpec{Method: "GET", Path: "/glance", Body: "none"}
		}),
	}
}()

// replica is one gateway process with its two listeners.
type replica struct {
	w         *world
	engine    *once.Engine
	telemetry *tracing.Telemetry
	gateway   *gateway.Gateway
	agents    *httptest.Server
	operators *httptest.Server
	ready     atomic.Pointer[error] // what the check "redis" of /readyz says
}

// telemetry exports nothing: it counts, and writes the line of each call.
func (w *world) telemetry(replica string) *tracing.Telemetry {
	o := tracing.Options{Replica: replica, Region: "north"}
	for _, t := range w.cat.Tools() {
		o.Tools = append(o.Tools, t.Name)
	}
	tel, err := tracing.Start(w.Context(), o)
	if err != nil {
		w.Fatal(err)
	}
	return tel
}

func (w *world) replica(name string) *replica {
	w.Helper()
	r := &replica{w: w}
	log := slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.telemetry = w.telemetry(name)
	r.engine = once.New(once.Options{
		Lock: w.lock, Store: w.store, Desk: w.store, Journal: w.store, Effects: w.client, Tools: w.cat.Tool,
		Lease: 10 * time.Second, HotTTL: time.Hour, NearCache: 1 << 20, MaxInFlight: w.inFlight,
		Replica: name, Region: "north", Telemetry: r.telemetry, Log: log,
	})
	r.gateway = gateway.New(gateway.Options{
		Engine: r.engine, Catalogue: w.cat, Client: w.client, Keys: w.keys, Telemetry: r.telemetry,
		Ready: map[string]func(context.Context) error{"store": w.store.Ready, "redis": func(context.Context) error {
			if err := r.ready.Load(); err != nil {
				return *err
			}
			return nil
		}},
		Body: bodyCap, Wait: longWait, Log: log,
	})
	r.agents, r.operators = httptest.NewServer(r.gateway.Agents()), httptest.NewServer(r.gateway.Operators())
	w.Cleanup(func() {
		w.services.release() // what still hangs there would keep the servers from closing
		r.agents.Close()
		r.operators.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := r.engine.Close(ctx); err != nil {
			w.Errorf("the engine did not close: %v", err)
		}
	})
	return r
}

// oneReplica is the usual world: one gateway.
func oneReplica(t testing.TB, settings ...setting) (*world, *replica) {
	t.Helper()
	w := newWorld(t, settings...)
	return w, w.replica("a")
}

// forgetRedis makes Redis lose everything.
func (w *world) forgetRedis() { w.lock.Flush() }

// redisDown makes every verb fail without being applied.
func (w *world) redisDown(down bool) {
	if !down {
		w.lockFault.Store(nil)
		return
	}
	w.lockFault.Store(new(memlock.Fault(func(string, int) (bool, error) { return false, io.ErrUnexpectedEOF })))
}

// storeDown makes the named verbs of the store fail without being applied.
func (w *world) storeDown(verbs ...memstore.Verb) {
	w.store.SetFault(func(v memstore.Verb, _ intent.Key) memstore.Fault {
		if slices.Contains(verbs, v) {
			return memstore.Refused
		}
		return memstore.Healthy
	})
}

// rows are all receipts of both tenants.
func (w *world) rows() []intent.Receipt {
	w.Helper()
	var all []intent.Receipt
	for _, tenant := range []string{"acme", "globex"} {
		for cursor := ""; ; {
			rows, next, err := w.store.List(context.Background(), intentstore.Query{Tenant: tenant, Limit: 200, Cursor: cursor})
			if err != nil {
				w.Fatal(err)
			}
			if all = append(all, rows...); next == "" {
				break
			}
			cursor = next
		}
	}
	return all
}

// untouched fails unless rows, open claims and effects are as many as given.
func (w *world) untouched(rows, effects int) {
	w.Helper()
	open, err := w.lock.Overdue(context.Background(), 0, 10)
	if err != nil {
		w.Fatal(err)
	}
	if n := len(w.rows()); n != rows || len(open) != 0 || w.services.total() != effects {
		w.Errorf("%d rows, %d open claims, %d effects; want %d, 0, %d", n, len(open), w.services.total(), rows, effects)
	}
}

// effects fails unless the downstream was asked exactly n times to act.
func (w *world) effects(n int) {
	w.Helper()
	if got := w.services.total(); got != n {
		w.Errorf("%d effects, want %d: %v", got, n, w.services.entries())
	}
}

// send makes one request and reads the whole answer. headers are "Name: value" lines; the
// body is sent as JSON unless they say otherwise.
func (w *world) send(ctx context.Context, method, url, credential, body string, headers ...string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if credential != "" {
		req.Header.Set("Authorization", "Bearer "+credential)
	}
	replaced := map[string]bool{}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		if name = http.CanonicalHeaderKey(name); !replaced[name] {
			replaced[name] = true
			req.Header.Del(name)
		}
		if value != "-" {
			req.Header.Add(name, value)
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return reply{TB: w.TB, code: res.StatusCode, header: res.Header, body: b}, err
}

func (r *replica) do(method, url, credential, body string, headers ...string) reply {
	r.w.Helper()
	got, err := r.w.send(context.Background(), method, url, credential, body, headers...)
	if err != nil {
		r.w.Fatal(err)
	}
	return got
}

// as calls a tool with a credential and a whole body.
func (r *replica) as(credential, tool, body string, headers ...string) reply {
	r.w.Helper()
	return r.do("POST", r.agents.URL+"/v1/tools/"+tool+"/calls", credential, body, headers...)
}

// call calls a tool for acme's run "run", step "1".
func (r *replica) call(tool, args string, headers ...string) reply {
	r.w.Helper()
	return r.as(acme, tool, callBody("1", args), headers...)
}

func callBody(step, args string) string {
	return fmt.Sprintf(`{"run_id":"run","step_id":%q,"args":%s}`, step, args)
}

// get reads from the agents' listener as acme's agent.
func (r *replica) get(path string, headers ...string) reply {
	r.w.Helper()
	return r.do("GET", r.agents.URL+path, acme, "", headers...)
}

// record keeps what was logged.
type record struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *record) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *record) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
