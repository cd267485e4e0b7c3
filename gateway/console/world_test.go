package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/gateway/auth"
	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

const (
	operatorKey = "operator-key-0123456789"
	secondKey   = "second-operator-key-012"
	viewerKey   = "viewer-key-012345678901"
	agentKey    = "agent-key-0123456789012"
	otherKey    = "other-tenant-key-012345"
)

func testKeys() []auth.Key {
	return []auth.Key{
		{ID: "olga", SHA256: auth.Hash(operatorKey), Tenant: "acme", Roles: []string{"operator"}},
		{ID: "otto", SHA256: auth.Hash(secondKey), Tenant: "acme", Roles: []string{"operator"}},
		{ID: "vera", SHA256: auth.Hash(viewerKey), Tenant: "acme", Roles: []string{"viewer"}},
		{ID: "fleet-a", SHA256: auth.Hash(agentKey), Tenant: "acme", Roles: []string{"agent"}},
		{ID: "zoe", SHA256: auth.Hash(otherKey), Tenant: "zeta", Roles: []string{"operator"}},
	}
}

// ledger is an Engine in memory: rows that change by the moves of package intent, under the
// same refusals as once.Engine's.
type ledger struct {
	mu       sync.Mutex
	rows     map[intent.Key]intent.Receipt
	attempts map[intent.Key][]intent.Attempt
	ended    map[intent.Key][]intent.Execution
	audit    map[intent.Key][]intent.Entry
	changes  []intentstore.Change
	counts   []intentstore.Count
	degraded bool
	broken   error // every read fails with it
	orders   []once.Order
	people   int // who must approve
}

func newLedger() *ledger {
	return &ledger{rows: map[intent.Key]intent.Receipt{}, attempts: map[intent.Key][]intent.Attempt{}, ended: map[intent.Key][]intent.Execution{},
		audit: map[intent.Key][]intent.Entry{}, people: 1}
}

var _ Engine = (*ledger)(nil)

// put keeps a row and tells of it, as a call that arrived.
func (l *ledger) put(r intent.Receipt, decisions ...intent.Decision) intent.Receipt {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Attempts = len(l.attempts[r.Key]) + len(decisions)
	l.rows[r.Key] = r
	for i, d := range decisions {
		at := r.CreatedAt.Add(time.Duration(i) * 700 * time.Millisecond)
		l.attempts[r.Key] = append(l.attempts[r.Key], intent.Attempt{Key: r.Key, Tenant: r.Tenant, Tool: r.Tool, At: at, Decision: d, Replica: "gw-" + string(rune('a'+i%3)),
			Region: "eu-west-1", Credential: "fleet-a", TraceID: fmt.Sprintf("%08x%x", 0x9c41f0a2+i*7919, r.Key[:12]), SpanID: "00f067aa0ba902b7"})
		l.changes = append(l.changes, intentstore.Change{At: at, Key: r.Key, Tool: r.Tool, Kind: "attempt", Word: d.String()})
	}
	return r
}

func (l *ledger) note(r *intent.Receipt, a intent.Action, by, reason, before string, evidence []byte, at time.Time) {
	l.audit[r.Key] = append(l.audit[r.Key], intent.Entry{Key: r.Key, Tenant: r.Tenant, Tool: r.Tool, At: at, Actor: by, Action: a, Reason: reason,
		Before: before, After: r.Standing(), Evidence: evidence})
	l.changes = append(l.changes, intentstore.Change{At: at, Key: r.Key, Tool: r.Tool, Kind: "audit", Word: a.String()})
}

func (l *ledger) Receipt(_ context.Context, tenant string, key intent.Key) (intent.Receipt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.rows[key]
	switch {
	case l.broken != nil:
		return r, l.broken
	case !ok || r.Tenant != tenant:
		return intent.Receipt{}, intent.ErrNone
	}
	return r, nil
}

func (l *ledger) List(_ context.Context, q intentstore.Query) ([]intent.Receipt, string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return nil, "", l.broken
	}
	cursor, has, err := intentstore.ParseCursor(q.Cursor)
	if err != nil {
		return nil, "", err
	}
	s := intentstore.ParseSearch(q.Q)
	var rows []intent.Receipt
	for _, r := range l.rows {
		traced := s.TraceID != "" && slices.ContainsFunc(l.attempts[r.Key], func(a intent.Attempt) bool { return a.TraceID == s.TraceID })
		inResult := r.Outcome != nil && len(s.Words) == 1 && strings.Contains(strings.ToLower(string(r.Outcome.Body)), s.Words[0])
		if q.Narrows(&r) && (s.Matches(&r, traced) || inResult) && (!has || cursor.Before(&r)) {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b intent.Receipt) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(a.Key.String(), b.Key.String()))
	})
	page, next := intentstore.Page(rows, q.Limit)
	return page, next, nil
}

func (l *ledger) Attempts(_ context.Context, key intent.Key, limit int) ([]intent.Attempt, int, []intent.Execution, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.attempts[key]
	row := l.rows[key]
	return slices.Clone(all[max(0, len(all)-limit):]), len(all), intentstore.Executions(&row, slices.Clone(l.ended[key])), l.broken
}

func (l *ledger) Audit(_ context.Context, tenant string, key intent.Key, limit int) ([]intent.Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.audit[key]
	return slices.Clone(all[max(0, len(all)-limit):]), l.broken
}

func (l *ledger) Stats(_ context.Context, q intentstore.StatsQuery) (intentstore.Stats, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var s intentstore.Stats
	for _, n := range l.counts {
		if !n.At.Before(q.Since) && n.At.Before(q.Until) {
			s.Counts = append(s.Counts, n)
		}
	}
	for _, r := range l.rows {
		if r.Tenant != q.Tenant {
			continue
		}
		one := func(what string, since time.Time) {
			s.Open = append(s.Open, intentstore.Open{Tool: r.Tool, What: what, N: 1, Oldest: since})
		}
		switch r.Status {
		case intent.Unknown:
			one("unknown", r.UnknownSince)
			if r.Parked != 0 {
				one("parked", r.UnknownSince)
			}
		case intent.AwaitingApproval:
			one("awaiting_approval", r.CreatedAt)
		}
		if r.Doubt != 0 {
			one("doubt", r.CreatedAt)
		}
	}
	return s, l.broken
}

func (l *ledger) Changes(_ context.Context, tenant string, after intentstore.Mark, limit int) ([]intentstore.Change, intentstore.Mark, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := int64(len(l.changes))
	if after == (intentstore.Mark{}) {
		return nil, intentstore.Mark{Attempt: n + 1}, l.broken
	}
	var list []intentstore.Change
	for _, c := range l.changes[after.Attempt-1:] {
		if l.rows[c.Key].Tenant == tenant {
			list = append(list, c)
		}
	}
	return list, intentstore.Mark{Attempt: n + 1}, l.broken
}

func (l *ledger) Degraded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.degraded
}

// decide applies a person's decision under the refusals of once.Engine.
func (l *ledger) decide(o once.Order, a intent.Action, change func(intent.Receipt) (intent.Receipt, error)) (intent.Receipt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.orders = append(l.orders, o)
	r, ok := l.rows[o.Key]
	switch {
	case o.Reason == "":
		return r, intent.Errorf(intent.BadRequest, nil, "A decision needs a reason: it is kept in the audit.")
	case !ok || r.Tenant != o.Tenant:
		return r, intent.ErrNone
	case o.If != nil && *o.If != (once.Tag{Fence: r.Fence, Version: r.Version}):
		return r, intent.Errorf(intent.PreconditionFailed, nil, "The receipt has changed: it is "+r.Status.String()+" now.")
	}
	before := r.Standing()
	after, err := change(r)
	if err != nil {
		return r, intent.Errorf(intent.StateConflict, err, "Its status does not allow that: it is "+r.Status.String()+".")
	}
	l.rows[o.Key] = after
	l.note(&after, a, o.By, o.Reason, before, nil, time.Now())
	return after, nil
}

func opening() intent.Opening {
	return intent.Opening{ClaimID: intent.ClaimID{9}, At: time.Now(), SettleBy: time.Now().Add(20 * time.Second), Replica: "gw-a", Region: "eu-west-1"}
}

func (l *ledger) Approve(_ context.Context, o once.Order, f intent.Fingerprint, _ time.Duration) (intent.Receipt, error) {
	return l.decide(o, intent.ActionApprove, func(r intent.Receipt) (intent.Receipt, error) {
		if f != r.Fingerprint {
			return r, intent.ErrStale
		}
		if len(r.ApprovedBy)+1 < l.people {
			return r.Endorse(o.By)
		}
		r, err := r.Approve(o.By, opening())
		if err != nil {
			return r, err
		}
		return r.Apply(r.CompleteMove("downstream", jsonAnswer(`{"transfer":"tr_1"}`), time.Now()))
	})
}

func (l *ledger) Decline(_ context.Context, o once.Order) (intent.Receipt, error) {
	return l.decide(o, intent.ActionDecline, func(r intent.Receipt) (intent.Receipt, error) {
		return r.Decline("operator", intent.ReasonDeclined, nil, time.Now())
	})
}

func (l *ledger) Resolve(_ context.Context, o once.Order, how once.Resolution) (intent.Receipt, error) {
	return l.decide(o, intent.ActionResolve, func(r intent.Receipt) (intent.Receipt, error) {
		s := r.RejectMove("operator", how.Retry, 0, "", nil, false, time.Now())
		if how.Status == intent.Completed {
			var out *intent.Outcome
			if how.Result != nil {
				out = jsonAnswer(string(how.Result))
			}
			s = r.CompleteMove("operator", out, time.Now())
		}
		if r.Status != intent.Unknown {
			return r, intent.ErrStale
		}
		return r.Apply(s)
	})
}

func (l *ledger) KeepWaiting(_ context.Context, o once.Order, next time.Duration) (intent.Receipt, error) {
	return l.decide(o, intent.ActionWait, func(r intent.Receipt) (intent.Receipt, error) {
		return r.Wait(intent.Plan{NextCheck: time.Now().Add(next)}), nil
	})
}

func (l *ledger) Reexecute(_ context.Context, o once.Order, _ time.Duration) (intent.Receipt, error) {
	return l.decide(o, intent.ActionReexecute, func(r intent.Receipt) (intent.Receipt, error) { return r.Reexecute(opening()) })
}

func (l *ledger) Reconcile(_ context.Context, o once.Order) (intent.Receipt, error) {
	return l.decide(o, intent.ActionLookup, func(r intent.Receipt) (intent.Receipt, error) {
		if r.Status != intent.Unknown {
			return r, intent.ErrStale
		}
		return r.Checked([]byte(`{"http_status":404,"rule":"absent_when"}`), r.Plan), nil
	})
}

func (l *ledger) Acknowledge(_ context.Context, o once.Order) (intent.Receipt, error) {
	return l.decide(o, intent.ActionAcknowledge, func(r intent.Receipt) (intent.Receipt, error) { return r.Suspect(0, time.Time{}), nil })
}

func jsonAnswer(body string) *intent.Outcome {
	return &intent.Outcome{HTTPStatus: 200, Headers: map[string]string{"content-type": "application/json"}, Body: []byte(body)}
}

// gauges are Breakers that a test sets.
type gauges map[string]string

func (g gauges) BreakerState(name string) string { return cmp.Or(g[name], "closed") }
func (gauges) InFlight(string) int               { return 3 }

func testCatalogue(t testing.TB) *downstream.Catalogue {
	t.Helper()
	lookup := &downstream.LookupSpec{Request: downstream.RequestSpec{Method: "GET", Path: "/emails?reference={key}"}, SettleAfter: time.Minute, Every: 5 * time.Second,
		GiveUpAfter: 24 * time.Hour, CompletedWhen: "response.status == 200"}
	schema := []byte(`{"type":"object","required":["invoice_id"],"properties":{"invoice_id":{"type":"string"}}}`)
	c, err := downstream.NewCatalogue(
		[]downstream.Spec{{Name: "mailer", BaseURL: "http://127.0.0.1:9"}, {Name: "bank", BaseURL: "http://127.0.0.1:9"}},
		[]downstream.ToolSpec{
			{Name: "send_invoice_email", Class: "effectful", Downstream: "mailer", Description: "Send an invoice by email", InputSchema: schema, Request: downstream.RequestSpec{Method: "POST", Path: "/emails", Body: "args"},
				Identity: []string{"/invoice_id"}, OnUnknown: "lookup", Lookup: lookup, ForwardKey: &downstream.ForwardKeySpec{Header: "Idempotency-Key"}},
			{Name: "charge_card", Class: "effectful", Downstream: "bank", Request: downstream.RequestSpec{Method: "POST", Path: "/charges", Body: "args"}, OnUnknown: "park", Redact: []string{"/card_number"}},
			{Name: "wire_transfer", Class: "irreversible", Downstream: "bank", Description: "Move money for good", Request: downstream.RequestSpec{Method: "POST", Path: "/wires", Body: "args"}, OnUnknown: "park"},
			{Name: "find_customer", Class: "read_only", Downstream: "mailer", Request: downstream.RequestSpec{Method: "GET", Path: "/customers"}},
		})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// world is a console over a ledger.
type world struct {
	*ledger
	console  *Console
	breakers gauges
	notices  []string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{ledger: newLedger(), breakers: gauges{}}
	c, err := New(Options{Engine: w.ledger, Catalogue: testCatalogue(t), Breakers: w.breakers, Keys: testKeys(), Notices: func() []string { return w.notices },
		TraceLink: "http://jaeger.example/trace/{trace_id}", Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	c.pace, c.interval = time.Millisecond, 20*time.Millisecond
	w.console = c
	t.Cleanup(c.Close)
	return w
}

// key makes a key of a word.
func key(word string) intent.Key {
	r := intent.Rules{Tool: "t"}
	return r.Derive(intent.Call{Tenant: "acme", Explicit: word}).Key
}

// begun is a receipt of a call that was written ahead some time ago.
func begun(word, tool, args string, ago time.Duration) intent.Receipt {
	at := time.Now().Add(-ago)
	class := map[string]intent.Class{"wire_transfer": intent.Irreversible}[tool]
	if class == 0 {
		class = intent.Effectful
	}
	k := key(word)
	return intent.Receipt{Key: k, Guard: intent.Guard(k), Fingerprint: intent.Fingerprint(key("fingerprint " + word)), Tenant: "acme", Tool: tool, Class: class, Durability: intent.Durable,
		RunID: "run-42", StepID: word, Args: []byte(args), Status: intent.Started, Retry: intent.RetrySameKey, Fence: 1, Version: 1, ClaimID: intent.ClaimID{1}, Executions: 1,
		CreatedAt: intent.Micros(at), StartedAt: intent.Micros(at), SettleBy: intent.Micros(at.Add(40 * time.Second)), Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		Replica: "gw-a", Region: "eu-west-1", Durable: true}
}

func must(t testing.TB, r intent.Receipt, err error) intent.Receipt {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func unknown(t testing.TB, r intent.Receipt, after time.Duration, p intent.Plan) intent.Receipt {
	t.Helper()
	next, err := r.Apply(r.LoseMove("timeout", nil, p, r.StartedAt.Add(after)))
	return must(t, next, err)
}

func completed(t testing.TB, r intent.Receipt, body string, after time.Duration) intent.Receipt {
	t.Helper()
	next, err := r.Apply(r.CompleteMove("downstream", jsonAnswer(body), r.StartedAt.Add(after)))
	return must(t, next, err)
}

func awaiting(r intent.Receipt, expires time.Duration) intent.Receipt {
	r.Status, r.Retry, r.StartedAt, r.SettleBy, r.Executions, r.Traceparent, r.Replica = intent.AwaitingApproval, intent.RetryNever, time.Time{}, time.Time{}, 0, "", ""
	r.NextCheck = time.Now().Add(expires)
	return r
}

// visitor is a browser without script: it keeps its cookie and follows no redirect.
type visitor struct {
	t       testing.TB
	h       http.Handler
	cookies []*http.Cookie
}

func (w *world) signIn(t testing.TB, key string) *visitor {
	t.Helper()
	v := &visitor{t: t, h: w.console}
	answer := v.post("/login", url.Values{"key": {key}})
	if answer.Code != http.StatusSeeOther || len(answer.Result().Cookies()) != 1 {
		t.Fatalf("signing in: %d %s", answer.Code, answer.Body)
	}
	v.cookies = answer.Result().Cookies()
	return v
}

func (v *visitor) do(r *http.Request) *httptest.ResponseRecorder {
	for _, c := range v.cookies {
		r.AddCookie(c)
	}
	answer := httptest.NewRecorder()
	v.h.ServeHTTP(answer, r)
	return answer
}

func (v *visitor) get(path string) *httptest.ResponseRecorder {
	v.t.Helper()
	return v.do(httptest.NewRequestWithContext(v.t.Context(), http.MethodGet, Prefix+path, nil))
}

// page gets a page that must be there.
func (v *visitor) page(path string) string {
	v.t.Helper()
	answer := v.get(path)
	if answer.Code != http.StatusOK {
		v.t.Fatalf("%s: %d %s", path, answer.Code, answer.Body)
	}
	return answer.Body.String()
}

func (v *visitor) post(path string, form url.Values) *httptest.ResponseRecorder {
	v.t.Helper()
	r := httptest.NewRequestWithContext(v.t.Context(), http.MethodPost, Prefix+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return v.do(r)
}

// form fills in what the receipt's page would post.
func (w *world) form(r intent.Receipt, choice, reason string) url.Values {
	return url.Values{"choice": {choice}, "reason": {reason}, "tag": {tagOf(&r)}, "seen": {r.Status.String()}, "fingerprint": {r.Fingerprint.String()}}
}

func decidePath(r intent.Receipt) string { return "/receipts/" + r.Key.String() + "/decide" }

func asJSON(s string) string { b, _ := json.Marshal(s); return string(b) }
