package downstream

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
)

// lookupSpec is an effectful tool that is looked up by its key.
func lookupSpec() ToolSpec {
	spec := emailSpec()
	spec.ForwardKey = &ForwardKeySpec{Header: "Idempotency-Key"}
	spec.Lookup = &LookupSpec{
		Request:       RequestSpec{Method: "GET", Path: "/emails?reference={key}"},
		CompletedWhen: "response.status == 200 && size(response.body.data) > 0",
		Result:        "response.body.data[0]",
		AbsentWhen:    "response.status == 200 && size(response.body.data) == 0",
	}
	return spec
}

// asJSON answers with a status and a JSON body.
func asJSON(status int, body string) http.HandlerFunc {
	return answer(status, http.Header{"Content-Type": {"application/json"}}, body)
}

// lookup asks a server that answers with h.
func lookup(t *testing.T, spec ToolSpec, h http.HandlerFunc, args string) (Finding, evidence) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, tool := client(t, server.URL, spec, Options{})
	f := c.Lookup(t.Context(), call(t, tool, args))
	var e evidence
	if err := json.Unmarshal(f.Evidence, &e); err != nil {
		t.Fatalf("evidence %s: %v", f.Evidence, err)
	}
	if e.Proof != f.Proof.String() || e.Why != f.Why || (f.Proof == Nothing) != (f.Why != "") || e.At.IsZero() {
		t.Errorf("finding %+v, evidence %s", f, f.Evidence)
	}
	if (f.Proof == Happened) == (f.Outcome == nil) && e.HTTPStatus < 300 {
		t.Errorf("proof %v with outcome %+v", f.Proof, f.Outcome)
	}
	return f, e
}

func TestLookupProves(t *testing.T) {
	t.Parallel()
	gzipped := func(body string) http.HandlerFunc {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		io.WriteString(w, body)
		w.Close()
		return answer(200, http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}, b.String())
	}
	typed := func(status int, media, body string) http.HandlerFunc {
		return answer(status, http.Header{"Content-Type": {media}}, body)
	}
	rule := func(completed, absent string) func(*LookupSpec) {
		return func(l *LookupSpec) { l.CompletedWhen, l.AbsentWhen, l.Result = completed, absent, "" }
	}
	byState := rule(`response.body.state == "sent"`, `response.status == 404`)
	sloppy := rule("response.status == 200", "response.status != 200")
	tests := []struct {
		name   string
		lookup func(*LookupSpec)
		answer http.HandlerFunc
		proof  Proof
		why    string
		body   string // of the outcome
	}{
		{"found", nil, asJSON(200, `{"data":[{"id":"em_1"}]}`), Happened, "", `{"id":"em_1"}`},
		{"found, gzip", nil, gzipped(`{"data":[{"id":"em_1"}]}`), Happened, "", `{"id":"em_1"}`},
		{"found, problem+json", nil, typed(200, "application/vnd.mail+json; charset=utf-8", `{"data":[1]}`), Happened, "", `1`},
		{"found without a content type", nil, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			io.WriteString(w, `{"data":[1]}`)
		}, Happened, "", `1`},
		{"absent", nil, asJSON(200, `{"data":[]}`), Absent, "", ""},
		{"the answer itself is the result", byState, asJSON(200, `{"state":"sent","n":1.10}`), Happened, "", `{"state":"sent","n":1.10}`},
		{"found in another state", byState, asJSON(200, `{"state":"queued"}`), Nothing, whyNoRule, ""},
		{"404 that a rule knows", byState2(), asJSON(404, `{"error":"none"}`), Absent, "", ""},
		{"404 as plain text", byState2(), http.NotFound, Absent, "", ""},
		{"404 without a body", byState2(), answer(404, nil, ""), Absent, "", ""},
		{"404 as a page", byState2(), typed(404, "text/html", "<h1>not found</h1>"), Nothing, whyNotJSON, ""},
		{"404 that no rule knows", nil, asJSON(404, `{"error":"none"}`), Nothing, whyStatus, ""},
		{"404 that proves it", rule("response.status == 404", "response.status == 200"), asJSON(404, `{}`), Happened, "", "-"},
		{"500", nil, asJSON(500, `{"data":[]}`), Nothing, whyStatus, ""},
		{"500 and a careless rule", sloppy, asJSON(500, `{}`), Nothing, whyStatus, ""},
		{"401 and a careless rule", sloppy, asJSON(401, `{}`), Nothing, whyStatus, ""},
		{"403 and a careless rule", sloppy, asJSON(403, `{}`), Nothing, whyStatus, ""},
		{"429 and a careless rule", sloppy, asJSON(429, `{}`), Nothing, whyStatus, ""},
		{"408 and a careless rule", sloppy, asJSON(408, `{}`), Nothing, whyStatus, ""},
		{"302 and a careless rule", sloppy, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", http.StatusFound) }, Nothing, whyStatus, ""},
		{"garbage", nil, asJSON(200, `{"data":[{"id":`), Nothing, whyMalformed, ""},
		{"garbage after it", nil, asJSON(200, `{"data":[]} x`), Nothing, whyMalformed, ""},
		{"a name twice", nil, asJSON(200, `{"data":[1],"data":[]}`), Nothing, whyMalformed, ""},
		{"HTML", sloppy, typed(200, "text/html; charset=utf-8", "<html>log in"), Nothing, whyNotJSON, ""},
		{"JSON as another type", sloppy, typed(200, "text/plain", `{"data":[1]}`), Nothing, whyNotJSON, ""},
		{"bytes", sloppy, typed(200, "application/octet-stream", "\x00\xff"), Nothing, whyNotJSON, ""},
		{"not UTF-8", sloppy, asJSON(200, "{\"data\":[\"\xff\"]}"), Nothing, whyMalformed, ""},
		{"huge", nil, asJSON(200, `{"data":["`+strings.Repeat("x", lookupCap)+`"]}`), Nothing, whyTooLong, ""},
		{"deep", nil, asJSON(200, `{"data":`+strings.Repeat("[", 1000)+strings.Repeat("]", 1000)+`}`), Nothing, whyMalformed, ""},
		{"cut short", nil, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, `{"data":[]}`)
		}, Nothing, whyNoAnswer, ""},
		{"missing field", nil, asJSON(200, `{"items":[]}`), Nothing, whyRule, ""},
		{"another type of field", nil, asJSON(200, `{"data":7}`), Nothing, whyRule, ""},
		{"no body where one is needed", nil, answer(200, nil, ""), Nothing, whyRule, ""},
		{"division by zero", rule("100 / int(response.body.n) > 1", ""), asJSON(200, `{"n":0}`), Nothing, whyRule, ""},
		{"no such header", rule("response.headers['x-state'] == 'sent'", ""), asJSON(200, `{}`), Nothing, whyRule, ""},
		{"a header", rule("response.headers['x-state'] == 'sent'", ""), answer(200, http.Header{"X-State": {"sent"}}, ""), Happened, "", ""},
		{"not a yes or no", rule("response.body.sent", ""), asJSON(200, `{"sent":"yes"}`), Nothing, whyRule, ""},
		{"a yes", rule("response.body.sent", ""), asJSON(200, `{"sent":true}`), Happened, "", `{"sent":true}`},
		{"both at once", rule("response.status == 200", "size(response.body) == 0"), asJSON(200, `{}`), Nothing, whyContradiction, ""},
		{"one rule in error, the other true", rule("response.status == 200", "response.body.gone"), asJSON(200, `{}`), Nothing, whyRule, ""},
		{"a cost bomb", rule("response.body.all(a, response.body.all(b, a < b || a >= b))", ""), asJSON(200, list(2000)), Nothing, whyRule, ""},
		{"a result that is not there", func(l *LookupSpec) { l.Result = "response.body.data[3]" }, asJSON(200, `{"data":[1]}`), Nothing, whyRule, ""},
		{"a result that is no JSON", func(l *LookupSpec) { l.Result = "type(response.body)" }, asJSON(200, `{"data":[1]}`), Nothing, whyRule, ""},
		{"what was asked for", rule(`args.to == response.body.to && response.body.ref == key && run_id == "run-42" && step_id == "7"`, ""),
			func(w http.ResponseWriter, r *http.Request) {
				asJSON(200, `{"to":"a","ref":"`+r.URL.Query().Get("reference")+`"}`)(w, r)
			}, Happened, "", "-"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			spec := lookupSpec()
			if tt.lookup != nil {
				tt.lookup(spec.Lookup)
			}
			f, e := lookup(t, spec, tt.answer, `{"to":"a"}`)
			if f.Proof != tt.proof || f.Why != tt.why {
				t.Fatalf("%v %q, want %v %q: %s", f.Proof, f.Why, tt.proof, tt.why, f.Evidence)
			}
			if tt.body != "-" && tt.body != "" && string(f.Outcome.Body) != tt.body {
				t.Errorf("outcome %s, want %s", f.Outcome.Body, tt.body)
			}
			if want := "GET /emails?reference=" + (intent.Key{1, 2, 3}).String(); e.Request != want {
				t.Errorf("request %q, want %q", e.Request, want)
			}
			if want := map[Proof]string{Happened: "completed_when", Absent: "absent_when"}[f.Proof]; e.Rule != want {
				t.Errorf("rule %q, want %q", e.Rule, want)
			}
		})
	}
}

// byState2 leaves the body alone where the status tells.
func byState2() func(*LookupSpec) {
	return func(l *LookupSpec) {
		l.CompletedWhen, l.AbsentWhen, l.Result = `response.status == 200 && response.body.state == "sent"`, "response.status == 404", ""
	}
}

// list is a JSON array of n numbers.
func list(n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]"
}

func TestResultsKeepTheirNumbers(t *testing.T) {
	t.Parallel()
	const body = `{"id":9007199254740993,"amount":1.10,"big":12345678901234567890,"huge":123456789012345678901234567890,"tiny":1e-400,"e":1E+2,"zero":-0,
		"list":[1.10,{"x":2.50}],"s":"é\u2028","n":null,"b":true,"o":{"z":1,"a":2.0}}`
	tests := []struct{ result, want string }{
		{"response.body.id", "9007199254740993"},
		{"response.body.amount", "1.10"},
		{"response.body.big", "12345678901234567890"},
		{"response.body.huge", "123456789012345678901234567890"},
		{"response.body.tiny", "1e-400"},
		{"response.body.e", "1E+2"},
		{"response.body.zero", "-0"},
		{"response.body.list", `[1.10,{"x":2.50}]`},
		{"response.body.list[1].x", "2.50"},
		{"response.body.s", `"é\u2028"`},
		{"response.body.n", "null"},
		{"response.body.b", "true"},
		{"response.body.o", `{"z":1,"a":2.0}`},
		{"response.body['o']", `{"z":1,"a":2.0}`},
		{`{"total": response.body.amount, "ids": [response.body.id, response.body.big], "o": response.body.o}`,
			`{"ids":[9007199254740993,12345678901234567890],"o":{"z":1,"a":2.0},"total":1.10}`},
		{"response.body.list + [response.body.huge]", `[1.10,{"x":2.50},123456789012345678901234567890]`},
		{"response.body.list.filter(v, type(v) == double)", "[1.10]"},
		{"response.body.id + 1", "9007199254740994"},
		{"0.5 + 0.25", "0.75"},
		{"response.status", "200"},
		{"response.headers['content-type']", `"application/json"`},
		{`b"ab"`, `"YWI="`},
		{`duration("90s")`, `"90s"`},
		{`timestamp("2026-01-02T03:04:05Z")`, `"2026-01-02T03:04:05Z"`},
		{"args", `{"n":1.50}`},
		{"args.n", "1.50"},
		{"[]", "[]"},
		{"{}", "{}"},
	}
	for _, tt := range tests {
		spec := lookupSpec()
		spec.Lookup.CompletedWhen, spec.Lookup.AbsentWhen, spec.Lookup.Result = "response.status == 200", "", tt.result
		f, _ := lookup(t, spec, asJSON(200, body), `{"n":1.50}`)
		if f.Proof != Happened || string(f.Outcome.Body) != tt.want || f.Outcome.HTTPStatus != 200 || f.Outcome.Headers["content-type"] != "application/json" {
			t.Errorf("%s: %v %+v, want %s: %s", tt.result, f.Proof, f.Outcome, tt.want, f.Evidence)
		}
	}
}

func TestRulesCompareExactly(t *testing.T) {
	t.Parallel()
	const body = `{"id":9007199254740993,"huge":123456789012345678901234567890,"amount":1.10,"one":1.0,"list":[1,2]}`
	tests := []struct {
		rule  string
		proof Proof
		why   string
	}{
		{"response.body.id == 9007199254740993", Happened, ""},
		{"response.body.id == 9007199254740992", Nothing, whyNoRule},
		{"response.body.amount == 1.1", Happened, ""},
		{"response.body.one == 1", Happened, ""},
		{"response.body.amount > 1", Happened, ""},
		{"response.body.huge == args.huge", Happened, ""},
		{"response.body.huge == args.other", Nothing, whyNoRule},
		{"response.body.huge > 1", Nothing, whyRule},
		{"response.body.list == [1, 2]", Happened, ""},
		{"response.body.list == args.list", Happened, ""},
		{"2 in response.body.list", Happened, ""},
		{"'amount' in response.body && !has(response.body.none)", Happened, ""},
		{"response.body.exists(name, response.body[name] == 1.1)", Happened, ""},
		{"response.body == {'id': 1}", Nothing, whyNoRule},
	}
	for _, tt := range tests {
		spec := lookupSpec()
		spec.Lookup.CompletedWhen, spec.Lookup.AbsentWhen, spec.Lookup.Result = tt.rule, "", ""
		f, _ := lookup(t, spec, asJSON(200, body), `{"huge":123456789012345678901234567890,"other":123456789012345678901234567891,"list":[1,2]}`)
		if f.Proof != tt.proof || f.Why != tt.why {
			t.Errorf("%s: %v %q, want %v %q: %s", tt.rule, f.Proof, f.Why, tt.proof, tt.why, f.Evidence)
		}
	}
}

// TestLookupOnlyAsks: the request has the trace and the downstream's headers, but never the
// key's header; a POST has the template's body; a HEAD works.
func TestLookupOnlyAsks(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "HEAD", "POST"} {
		spec := lookupSpec()
		spec.Lookup.Request.Method, spec.Lookup.CompletedWhen, spec.Lookup.AbsentWhen, spec.Lookup.Result = method, "response.status == 200", "", ""
		wantBody := ""
		if method == "POST" {
			spec.Lookup.Request.Template, wantBody = []byte(`{"ref":"{key}","n":"{args.n}"}`), `{"ref":"`+(intent.Key{1, 2, 3}).String()+`","n":1.50}`
		}
		var problem atomic.Value
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if r.Method != method || string(body) != wantBody || r.Header.Get("Idempotency-Key") != "" || r.Header.Get("Traceparent") != "00-a-b-01" || r.Header.Get("X-Tenant") != "t" {
				problem.Store(r.Method + " " + string(body) + " " + r.Header.Get("Idempotency-Key") + " " + r.Header.Get("Traceparent"))
			}
			w.Header().Set("Content-Length", "0")
		}))
		t.Cleanup(server.Close)
		cat, err := NewCatalogue([]Spec{{Name: "mail", BaseURL: server.URL, Headers: map[string]string{"X-Tenant": "t"}}}, []ToolSpec{spec})
		if err != nil {
			t.Fatal(err)
		}
		c := NewClient(cat, Options{})
		t.Cleanup(c.Close)
		tool, _ := cat.Tool("send")
		in := call(t, tool, `{"n":1.50}`)
		in.Traceparent = "00-a-b-01"
		in.MayBegin = func() bool { return false }
		if f := c.Lookup(t.Context(), in); f.Proof != Happened || problem.Load() != nil {
			t.Errorf("%s: %v %s, server saw %v", method, f.Proof, f.Evidence, problem.Load())
		}
	}
}

// TestLookupIsSentAgain: a broken connection costs a try, not the lookup.
func TestLookupIsSentAgain(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	f, _ := lookup(t, lookupSpec(), func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) < readTries {
			panic(http.ErrAbortHandler)
		}
		asJSON(200, `{"data":[1]}`)(w, r)
	}, "{}")
	if f.Proof != Happened || asked.Load() != readTries {
		t.Errorf("%v after %d tries: %s", f.Proof, asked.Load(), f.Evidence)
	}
	asked.Store(0)
	f, _ = lookup(t, lookupSpec(), func(w http.ResponseWriter, r *http.Request) { asked.Add(1); asJSON(503, `{}`)(w, r) }, "{}")
	if f.Why != whyStatus || asked.Load() != 1 {
		t.Errorf("a 503 was asked %d times: %s", asked.Load(), f.Evidence)
	}
}

func TestLookupWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	spec := lookupSpec()
	spec.Timeout = 50 * time.Millisecond
	over := make(chan struct{})
	f, _ := lookup(t, spec, func(http.ResponseWriter, *http.Request) { <-over }, "{}")
	close(over)
	if f.Why != whyTimeout {
		t.Errorf("slow: %s", f.Evidence)
	}
	c, tool := client(t, "http://127.0.0.1:1", lookupSpec(), Options{})
	if f := c.Lookup(t.Context(), call(t, tool, "{}")); f.Why != whyNotSent || !strings.Contains(string(f.Evidence), `"detail":"dial"`) {
		t.Errorf("refused: %s", f.Evidence)
	}
	spec = lookupSpec()
	spec.Lookup.Request.Path = "/emails/{args.id}"
	c, tool = client(t, "http://127.0.0.1:1", spec, Options{})
	if f := c.Lookup(t.Context(), call(t, tool, `{}`)); f.Why != whyRequest || f.Proof != Nothing {
		t.Errorf("arguments that do not fit: %+v", f)
	}
}
