package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/gateway"
	"github.com/latchkey-gateway/latchkey/gateway/auth"
	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/intentstore/memstore"
	"github.com/latchkey-gateway/latchkey/lock/memlock"
)

// desk is a whole gateway in memory with a downstream, and the command line that asks it.
type desk struct {
	testing.TB
	api     *httptest.Server
	status  atomic.Int64 // what the downstream answers to an effect
	effects atomic.Int64
	found   atomic.Bool // what it answers to a lookup
}

func newOfficeDesk(t testing.TB) *desk {
	t.Helper()
	d := &desk{TB: t}
	d.status.Store(200)
	office := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			fmt.Fprintf(w, `{"found":%t}`, d.found.Load())
			return
		}
		d.effects.Add(1)
		w.WriteHeader(int(d.status.Load()))
		io.WriteString(w, `{"id":12345678901234567890}`)
	}))
	t.Cleanup(office.Close)
	cat, err := downstream.NewCatalogue([]downstream.Spec{{Name: "office", BaseURL: office.URL, Timeout: 10 * time.Second, MaxInFlight: 8,
		Breaker: downstream.BreakerSpec{Window: time.Hour, MinRequests: 1 << 20, FailureRatio: 1, OpenFor: time.Hour, HalfOpenProbes: 1}}},
		[]downstream.ToolSpec{
			{Name: "send_invoice_email", Class: "effectful", Downstream: "office", OnUnknown: "lookup", ForwardKey: &downstream.ForwardKeySpec{Header: "Idempotency-Key"},
				Request: downstream.RequestSpec{Method: "POST", Path: "/mail", Body: "args"},
				Lookup: &downstream.LookupSpec{Request: downstream.RequestSpec{Method: "GET", Path: "/mail?key={key}", Body: "none"}, Every: time.Hour, GiveUpAfter: 48 * time.Hour,
					SettleAfter: time.Minute, CompletedWhen: "response.body.found", AbsentWhen: "!response.body.found"}},
			{Name: "wire", Class: "irreversible", Downstream: "office", OnUnknown: "park", ForwardKey: &downstream.ForwardKeySpec{Header: "Idempotency-Key"},
				Request: downstream.RequestSpec{Method: "POST", Path: "/wire", Body: "args"}},
		})
	if err != nil {
		t.Fatal(err)
	}
	client := downstream.NewClient(cat, downstream.Options{ResultCap: 1 << 20})
	store, log := memstore.New(), slog.New(slog.DiscardHandler)
	engine := once.New(once.Options{Lock: memlock.New(nil), Store: store, Desk: store, Journal: store, Effects: client, Tools: cat.Tool,
		Lease: 10 * time.Second, HotTTL: time.Hour, NearCache: 1 << 20, MaxInFlight: 100, Replica: "a", Region: "north", Log: log})
	keys, err := auth.New([]auth.Key{{ID: "agent", SHA256: auth.Hash("agent-key"), Tenant: "acme", Roles: []string{"agent"}},
		{ID: "oncall", SHA256: auth.Hash("secret-operator-key"), Tenant: "acme", Roles: []string{"operator"}}})
	if err != nil {
		t.Fatal(err)
	}
	g := gateway.New(gateway.Options{Engine: engine, Catalogue: cat, Client: client, Keys: keys, Body: 1 << 20, Wait: 20 * time.Second, Log: log})
	d.api = httptest.NewServer(g.Agents()) // both listeners decide
	t.Cleanup(func() {
		d.api.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := engine.Close(ctx); err != nil {
			t.Error(err)
		}
		client.Close()
	})
	return d
}

// call calls a tool as an agent and returns the receipt's key.
func (d *desk) call(tool, step, args string) string {
	d.Helper()
	req, err := http.NewRequest("POST", d.api.URL+"/v1/tools/"+tool+"/calls", strings.NewReader(fmt.Sprintf(`{"run_id":"run-42","step_id":%q,"args":%s}`, step, args)))
	if err != nil {
		d.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer agent-key")
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		d.Fatal(err)
	}
	defer res.Body.Close()
	return res.Header.Get("Latchkey-Receipt")
}

func (d *desk) unknown(step string) string {
	d.Helper()
	d.status.Store(500)
	defer d.status.Store(200)
	return d.call("send_invoice_email", step, `{"invoice_id":"inv-1","amount":12345678901234567890}`)
}

// receipts runs "latchkey receipts ..." as the operator.
func (d *desk) receipts(args ...string) answered {
	d.Helper()
	return receiptsAt(d.TB, d.api.URL, "secret-operator-key", args...)
}

func receiptsAt(t testing.TB, url, key string, args ...string) answered {
	t.Helper()
	var stdout, stderr strings.Builder
	code := run(t.Context(), append([]string{"receipts", "--url", url, "--key", key}, args...), &stdout, &stderr)
	got := answered{code, stdout.String(), stderr.String()}
	if strings.Contains(got.stdout+got.stderr, key) {
		t.Errorf("it shows the key: %+v", got)
	}
	return got
}

// says fails unless the exit code is right and all texts are there.
func (d *desk) says(got answered, code int, texts ...string) {
	d.Helper()
	if got.code != code {
		d.Errorf("exit %d, want %d: %+v", got.code, code, got)
	}
	for _, text := range texts {
		if !strings.Contains(got.stdout+got.stderr, text) {
			d.Errorf("it does not say %q:\n%s%s", text, got.stdout, got.stderr)
		}
	}
	for line := range strings.Lines(got.stdout) {
		if !strings.HasPrefix(got.stdout, "{") && utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > columns {
			d.Errorf("wider than %d: %s", columns, line)
		}
	}
}

func TestReceiptsListAndShow(t *testing.T) {
	t.Parallel()
	d := newOfficeDesk(t)
	d.says(d.receipts("list"), 0, "There are none.")
	lost, waits := d.unknown("7"), d.call("wire", "8", `{"amount":10}`)
	done := d.call("send_invoice_email", "9", `{"invoice_id":"inv-2"}`)
	all := d.receipts("list")
	d.says(all, 0, "KEY", "STATUS", lost[:12], waits[:12], done[:12], "check in ", "send_invoice_em…", "expires in ")
	attention := d.receipts("list", "--attention")
	d.says(attention, 0, lost[:12], waits[:12])
	if strings.Contains(attention.stdout, done[:12]) || strings.Count(all.stdout, "\n") != 4 {
		t.Errorf("%s\n%s", attention.stdout, all.stdout)
	}
	for _, test := range []struct {
		args []string
		n    int
	}{
		{[]string{"--status", "unknown"}, 1}, {[]string{"--tool", "wire"}, 1}, {[]string{"--run", "run-42", "--step", "9"}, 1}, {[]string{"-q", "inv-2"}, 1},
		{[]string{"--since", "1h"}, 3}, {[]string{"--until", "1h"}, 0}, {[]string{"--since", "2026-01-02T03:04:05Z", "--limit", "2"}, 2},
	} {
		got := d.receipts(append([]string{"list", "--json"}, test.args...)...)
		var page struct{ Receipts []json.RawMessage }
		if err := json.Unmarshal([]byte(got.stdout), &page); err != nil || len(page.Receipts) != test.n || got.code != 0 {
			t.Errorf("%v: %d receipts, want %d: %+v", test.args, len(page.Receipts), test.n, got)
		}
	}
	d.says(d.receipts("list", "--limit", "2"), 0, "There are more")

	shown := d.receipts("show", lost[:8])
	d.says(shown, 0, "UNKNOWN", "send_invoice_email (effectful)", lost, "run-42, 7", `"amount":12345678901234567890`, "checked      0 times", "check in ",
		"Do not repeat this action", "latchkey receipts resolve "+lost[:12]+" --outcome completed --reason ...")
	d.says(d.receipts("show", waits), 0, "AWAITING_APPROVAL", `{"amount":10}`, "latchkey receipts approve "+waits[:12])
	d.says(d.receipts("show", strings.ToUpper(done)), 0, "COMPLETED", `"id":12345678901234567890`, "settled by   downstream")
	if asJSON := d.receipts("show", done, "--json"); asJSON.code != 0 || !strings.Contains(asJSON.stdout, `"id": 12345678901234567890`) || !json.Valid([]byte(asJSON.stdout)) {
		t.Errorf("%+v", asJSON)
	}
	d.says(d.receipts("show", "00000000"), 1, "no receipt's key begins with 00000000")
	d.says(d.receipts("show", strings.Repeat("0", 64)), 1, "refused (not_found)")
	for _, key := range []string{"1234567", "nonsense", lost + "0"} {
		d.says(d.receipts("show", key), 2, "first 8 hex digits or more")
	}
}

func TestReceiptsResolve(t *testing.T) {
	t.Parallel()
	d := newOfficeDesk(t)
	one, two, three := d.unknown("1"), d.unknown("2"), d.unknown("3")
	dry := d.receipts("resolve", one[:10], "--outcome", "completed", "--reason", "seen", "--dry-run")
	d.says(dry, 0, one[:12]+" unknown (version 1.2): completed: callers of send_invoice_email are told that it happened")
	d.says(d.receipts("resolve", one[:10], "--outcome", "completed", "--reason", "seen", "--if-match", "1.1"), 1, "refused (precondition_failed)")
	d.says(d.receipts("resolve", one[:10], "--outcome", "completed", "--reason", "seen", "--result", `{"id":12345678901234567890}`), 0,
		one[:12]+" completed (version 1.3): send_invoice_email, settled by operator")
	d.says(d.receipts("show", one), 0, `"id":12345678901234567890`, "resolve by oncall: seen")
	d.says(d.receipts("resolve", one, "--outcome", "rejected", "--reason", "not seen"), 1, "refused (state_conflict)")

	file := filepath.Join(t.TempDir(), "result.json")
	if err := os.WriteFile(file, []byte(`{"from":"a file"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	got := d.receipts("resolve", two, "--outcome", "completed", "--reason", "seen", "--result", "@"+file, "--if-match", `"1.2"`, "--json")
	if got.code != 0 || !strings.Contains(got.stdout, `"from": "a file"`) {
		t.Errorf("%+v", got)
	}
	d.says(d.receipts("resolve", three, "--outcome", "rejected", "--retry", "corrected", "--reason", "bounced"), 0, "only a corrected call may act", "rejected")
	d.says(d.receipts("audit", three), 0, "resolve by oncall", "bounced", "unknown 1.2 -> rejected 1.3")

	for text, args := range map[string][]string{
		`required flag(s) "reason" not set`: {"--outcome", "completed"}, `required flag(s) "outcome" not set`: {"--reason", "x"},
		"--reason must say why": {"--outcome", "completed", "--reason", " "}, "--outcome is completed or rejected": {"--outcome", "done", "--reason", "x"},
		"--result is not JSON": {"--outcome", "completed", "--reason", "x", "--result", "{"}, "no such file": {"--outcome", "completed", "--reason", "x", "--result", "@nowhere.json"},
		"result goes with outcome completed": {"--outcome", "rejected", "--reason", "x", "--result", `{"id":1}`},
	} {
		d.says(d.receipts(append([]string{"resolve", three}, args...)...), 2, text)
	}
}

func TestReceiptsOfOtherDecisions(t *testing.T) {
	t.Parallel()
	d := newOfficeDesk(t)
	first, second := d.call("wire", "1", `{"amount":10}`), d.call("wire", "2", `{"amount":20}`)
	d.says(d.receipts("approve", first[:8], "--reason", "agreed"), 0, `approve and execute wire with {"amount":10}`, "completed (version 1.3)")
	d.says(d.receipts("decline", second[:8], "--reason", "too much"), 0, "nothing is sent", "rejected")
	d.says(d.receipts("approve", second, "--reason", "after all"), 1, "refused (state_conflict)")
	if n := d.effects.Load(); n != 1 {
		t.Errorf("%d effects", n)
	}
	lost := d.unknown("3")
	d.says(d.receipts("wait", lost, "--reason", "they are looking", "--for", "36h"), 0, "unknown", "check in 35h")
	d.says(d.receipts("reconcile", lost), 0, "unknown (version 1.2)")
	d.found.Store(true)
	d.says(d.receipts("reconcile", lost, "--reason", "they found it"), 0, "completed", "settled by lookup")
	lost = d.unknown("4")
	d.says(d.receipts("reexecute", lost, "--reason", "it never arrived", "--wait", "5s"), 0, "execute send_invoice_email again, as execution 2", "completed (version 2.")
	d.says(d.receipts("acknowledge", lost, "--reason", "x"), 1, "There is no doubt about it")
	d.says(d.receipts("wait", lost, "--reason", "x", "--for", "1ms"), 2, "--for must be 1s or more")
	d.says(d.receipts(), 2, "a command is needed")
	d.says(d.receipts("list", "--limit", "0"), 2, "--limit must be 1 or more")
	d.says(d.receipts("list", "--since", "yesterday"), 2, "--since")
}

func TestReceiptsWithoutAGateway(t *testing.T) {
	t.Parallel()
	d := newOfficeDesk(t)
	lost := d.unknown("1")
	d.says(receiptsAt(t, d.api.URL, "agent-key", "resolve", lost, "--outcome", "completed", "--reason", "x"), 2, "403 forbidden")
	d.says(receiptsAt(t, d.api.URL, "stranger-key", "list"), 2, "401 unauthenticated")
	d.says(receiptsAt(t, "http://127.0.0.1:1", "some-key", "list"), 2, "the gateway at http://127.0.0.1:1 cannot be reached")
	d.says(receiptsAt(t, "127.0.0.1:8081", "some-key", "list"), 2, "must look like")
	d.says(receiptsAt(t, "http://user:pw@127.0.0.1", "some-key", "list"), 2, "must look like")
	d.says(receiptsAt(t, d.api.URL, "a\nkey", "list"), 2, "API key is needed")
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for name, answer := range map[string]http.HandlerFunc{
		"and is no gateway's API":      func(w http.ResponseWriter, r *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) },
		"did not answer with receipts": func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") },
		"answered 307": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		},
		"answered 503 not_sent: Later.": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(503)
			io.WriteString(w, `{"status":503,"code":"not_sent","detail":"Later."}`)
		},
	} {
		server := httptest.NewServer(answer)
		d.says(receiptsAt(t, server.URL, "some-key", "list"), 2, name)
		server.Close()
	}
	if elsewhere.Load() != 0 {
		t.Error("the key went where a redirect pointed")
	}
}

// The answer to a decision is lost: it is sent again, and made once.
func TestReceiptsALostAnswer(t *testing.T) {
	t.Parallel()
	d := newOfficeDesk(t)
	lost := d.unknown("1")
	var posts atomic.Int64
	behind := d.api.Config.Handler
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && posts.Add(1) == 1 {
			behind.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		behind.ServeHTTP(w, r)
	}))
	defer between.Close()
	d.says(receiptsAt(t, between.URL, "secret-operator-key", "resolve", lost, "--outcome", "completed", "--reason", "seen"), 0, "completed (version 1.3)")
	got := d.receipts("audit", lost, "--json")
	if posts.Load() != 2 || strings.Count(got.stdout, `"action"`) != 1 {
		t.Errorf("%d requests, audit %s", posts.Load(), got.stdout)
	}
}

// What a terminal would act on is shown as text.
func TestReceiptsShowsNothingThatATerminalObeys(t *testing.T) {
	t.Parallel()
	d := newOfficeDesk(t)
	key := d.call("send_invoice_email", "1", "{\"memo\":\"\u202egnp.exe \u009b31m \u200b\"}")
	got := d.receipts("show", key)
	d.says(got, 0, `\u202egnp.exe \u009b31m \u200b`)
	if regexp.MustCompile("[\u202e\u009b\u200b\x1b]").MatchString(got.stdout) {
		t.Errorf("%q", got.stdout)
	}
}

func TestReceiptsCompletion(t *testing.T) {
	t.Parallel()
	if got := runIn(t, "completion", "bash"); got.code != 0 {
		t.Errorf("%+v", got)
	}
	for want, args := range map[string][]string{
		"resolve\t":             {"receipts", ""},
		"completed\nrejected\n": {"receipts", "resolve", "abc", "--outcome", ""},
		"awaiting_approval\n":   {"receipts", "list", "--status", ""},
		":4\n":                  {"receipts", "show", ""}, // no file names
	} {
		if got := runIn(t, append([]string{"__complete"}, args...)...); got.code != 0 || !strings.Contains(got.stdout, want) {
			t.Errorf("%v: %+v", args, got)
		}
	}
	help := runIn(t, "receipts", "--help")
	for _, command := range []string{"list", "show", "resolve", "approve", "decline", "reconcile", "wait", "reexecute", "acknowledge", "audit"} {
		if !strings.Contains(help.stdout, "\n  "+command+" ") {
			t.Errorf("help does not list %s:\n%s", command, help.stdout)
		}
	}
}

func TestAges(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{-time.Second: "0s", 59 * time.Second: "59s", time.Minute: "1m", 59*time.Minute + 59*time.Second: "59m",
		time.Hour: "1h", 47 * time.Hour: "47h", 48 * time.Hour: "2d"} {
		if got := age(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}
