package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

type plan struct {
	Action string
	Items  []struct {
		Key, ETag, Tool, Status, Would, Parked string
		AgeSeconds                             *int64 `json:"age_seconds"`
		Evidence                               json.RawMessage
	}
	Skipped []struct{ Key, Code, Detail string }
	Limit   int
	More    bool
}

func (r *replica) plan(body string) plan {
	r.w.Helper()
	got := r.do("POST", r.operators.URL+"/v1/bulk/plan", operator, body)
	var p plan
	if err := json.Unmarshal(got.body, &p); err != nil || got.code != 200 {
		r.w.Fatalf("HTTP %d: %s", got.code, got.body)
	}
	return p
}

// items is the plan as a run takes it.
func (p plan) items() string {
	var items []map[string]string
	for _, i := range p.Items {
		items = append(items, map[string]string{"key": i.Key, "etag": i.ETag})
	}
	text, _ := json.Marshal(items)
	return string(text)
}

type runLine struct {
	Key, Result, Status, ETag, Code, Detail string
	Summary                                 bool
	Total                                   int
	Results                                 map[string]int
	Stopped                                 string
}

func runLines(t testing.TB, body []byte) (lines []runLine, summary runLine) {
	t.Helper()
	for text := range bytes.Lines(body) {
		var l runLine
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if lines = append(lines, l); l.Summary {
			return lines[:len(lines)-1], l
		}
	}
	return lines, runLine{}
}

func TestBulkPlan(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	keys := map[string]string{}
	keys["mail"], _ = a.unknown("mail", "1")
	keys["asked"], _ = a.unknown("asked", "2")
	keys["done"] = *a.as(acme, "mail", callBody("3", `{"id":3}`)).completed().Key
	keys["waits"] = *a.as(acme, "wire", callBody("4", `{}`)).receipt(202, "awaiting_approval", "never").Key
	keys["wire"] = *a.as(acme, "wire", callBody("5", `{}`)).receipt(202, "awaiting_approval", "never").Key
	w.services.answer(answer(500, `{}`))
	a.decide(operator, keys["wire"], "approve", `{"reason":"x"}`).decided("unknown")
	a.as(globex, "mail", callBody("1", `{"id":1}`))

	name := func(key string) string {
		for n, k := range keys {
			if k == key {
				return n
			}
		}
		return "somebody else's"
	}
	for _, test := range []struct{ body, items, skipped string }{
		{`{"filter":{},"action":"resolve","outcome":"completed","reason":"x"}`, "asked mail", "wire:irreversible waits:irreversible done:settled"},
		{`{"filter":{"status":"unknown"},"action":"wait","for":"2h","reason":"x"}`, "asked mail", "wire:irreversible"},
		{`{"filter":{"attention":true,"tool":"mail"},"action":"resolve","outcome":"rejected","reason":"x"}`, "mail", ""},
		{`{"filter":{"status":"unknown"},"action":"reconcile","reason":"x"}`, "asked", "wire:irreversible mail:no_lookup"},
		{`{"keys":["` + keys["mail"] + `","` + strings.Repeat("0", 64) + `"],"action":"resolve","outcome":"completed","reason":"x"}`, "mail", "somebody else's:not_found"},
	} {
		p := a.plan(test.body)
		var items, skipped []string
		for _, i := range p.Items {
			items = append(items, name(i.Key))
			if i.ETag != a.etag(i.Key) || i.Status != "unknown" || i.Would == "" || i.AgeSeconds == nil || *i.AgeSeconds > 60 {
				t.Errorf("%+v", i)
			}
		}
		for _, s := range p.Skipped {
			skipped = append(skipped, name(s.Key)+":"+s.Code)
			if s.Detail == "" {
				t.Errorf("%+v", s)
			}
		}
		if strings.Join(items, " ") != test.items || strings.Join(skipped, " ") != test.skipped || p.Limit != 1000 || p.More {
			t.Errorf("%s: %v, %v, more %v", test.body, items, skipped, p.More)
		}
	}
	for _, key := range keys {
		if key != keys["wire"] {
			a.audited(key) // a plan changes nothing
		}
	}
	for _, body := range []string{
		`{}`, `{"filter":{},"action":"approve","reason":"x"}`, `{"filter":{},"action":"resolve","reason":"x"}`, `{"filter":{},"action":"wait"}`,
		`{"action":"wait","reason":"x"}`, `{"filter":{},"keys":[],"action":"wait","reason":"x"}`, `{"filter":{"limit":"1"},"action":"wait","reason":"x"}`,
		`{"filter":{"toool":"mail"},"action":"wait","reason":"x"}`, `{"filter":{"tool":7},"action":"wait","reason":"x"}`, `{"filter":[],"action":"wait","reason":"x"}`,
		`{"filter":{},"action":"reconcile","for":"1h","reason":"x"}`, `{"filter":{},"action":"wait","outcome":"completed","reason":"x"}`, `{"keys":["x"],"action":"wait","reason":"x"}`,
		`{"filter":{},"action":"resolve","outcome":"completed","result":{},"reason":"x"}`, `{"filter":{"status":"lost"},"action":"wait","reason":"x"}`,
	} {
		a.do("POST", a.operators.URL+"/v1/bulk/plan", operator, body).problem(400, "bad_request", "corrected")
	}
	for _, path := range []string{"/v1/bulk/plan", "/v1/bulk/run"} {
		a.do("POST", a.operators.URL+path, viewer, `{}`).problem(403, "forbidden", "corrected")
	}
}

func TestBulkPlanIsBounded(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	for i := range 1001 {
		a.as(acme, "note", callBody(fmt.Sprint(i), `{}`)).completed()
	}
	if p := a.plan(`{"filter":{},"action":"wait","reason":"x"}`); len(p.Skipped) != 1000 || !p.More {
		t.Errorf("%d, more %v", len(p.Skipped), p.More)
	}
	if p := a.plan(`{"filter":{"until":"2020-01-01T00:00:00Z"},"action":"wait","reason":"x"}`); len(p.Skipped) != 0 || p.More {
		t.Errorf("%+v", p)
	}
	w.effects(1001)
}

func TestBulkRun(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	var keys []string
	for i := range 4 {
		key, _ := a.unknown("mail", fmt.Sprint(i))
		keys = append(keys, key)
	}
	wire := *a.as(acme, "wire", callBody("9", `{}`)).receipt(202, "awaiting_approval", "never").Key
	p := a.plan(`{"filter":{"tool":"mail"},"action":"resolve","outcome":"completed","reason":"x"}`)
	// One is settled after the plan, by somebody else.
	a.decide(colleague, keys[2], "resolve", `{"outcome":"rejected","reason":"bounced"}`, "If-Match: "+a.etag(keys[2])).decided("rejected")
	items := strings.TrimSuffix(p.items(), "]") + `,{"key":"` + wire + `","etag":"1.1"},{"key":"` + strings.Repeat("0", 64) + `","etag":"1.1"}]`
	body := `{"items":` + items + `,"action":"resolve","outcome":"completed","reason":"all were sent"}`
	for range 2 { // repeated, it is the same
		got := a.do("POST", a.operators.URL+"/v1/bulk/run", operator, body)
		lines, summary := runLines(t, got.body)
		if got.code != 200 || got.header.Get("Content-Type") != "application/x-ndjson" || len(lines) != 6 {
			t.Fatalf("HTTP %d %s", got.code, got.body)
		}
		results := map[string]string{}
		for i, l := range lines {
			results[l.Key] = l.Result + " " + l.Status + " " + l.Code
			if i < len(p.Items) && l.Key != p.Items[i].Key {
				t.Error("not in the order given")
			}
		}
		for key, want := range map[string]string{keys[0]: "done completed ", keys[1]: "done completed ", keys[3]: "done completed ",
			keys[2]: "refused rejected precondition_failed", wire: "skipped awaiting_approval irreversible", strings.Repeat("0", 64): "skipped  not_found"} {
			if results[key] != want {
				t.Errorf("%s, want %s", results[key], want)
			}
		}
		if fmt.Sprint(summary.Results) != "map[done:3 refused:1 skipped:2]" || summary.Total != 6 || summary.Stopped != "" {
			t.Errorf("%+v", summary)
		}
	}
	a.audited(keys[0], "id-of-acme-operator resolve: all were sent (unknown 1.2 -> completed 1.3)")
	a.audited(keys[2], "id-of-acme-colleague resolve: bounced (unknown 1.2 -> rejected 1.3)")
	a.audited(wire)
	w.effects(4)
	for _, items := range []string{`[]`, `{}`, `[{"key":"x","etag":"1.1"}]`, `[{"key":"` + wire + `"}]`, `[{"key":"` + wire + `","etag":"*"}]`,
		`[{"key":"` + wire + `","etag":"1.1","force":true}]`, `[{"key":"` + wire + `","etag":"1.1"},{"key":"` + wire + `","etag":"1.1"}]`} {
		a.do("POST", a.operators.URL+"/v1/bulk/run", operator, `{"items":`+items+`,"action":"wait","reason":"x"}`).problem(400, "bad_request", "corrected")
	}
}

// Closing the connection stops the run before its next receipt. What was done is in the audit.
func TestBulkRunIsAborted(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	var items []string
	for i := range 3 {
		key, etag := a.unknown("asked", fmt.Sprint(i))
		items = append(items, fmt.Sprintf(`{"key":%q,"etag":%q}`, key, etag))
	}
	for len(w.services.arrived) > 0 {
		<-w.services.arrived
	}
	// The second lookup is answered once the caller is gone.
	gone := make(chan struct{})
	w.services.answer(inTurn(answer(200, `{"found":true}`), func(rw http.ResponseWriter, r *http.Request) {
		<-gone
		answer(200, `{"found":true}`)(rw, r)
	}))
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		defer close(ended)
		defer context.AfterFunc(r.Context(), func() { close(gone) })()
		a.gateway.Operators().ServeHTTP(rw, r)
	}))
	defer server.Close()
	ctx, abort := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", server.URL+"/v1/bulk/run",
		strings.NewReader(`{"items":[`+strings.Join(items, ",")+`],"action":"reconcile","reason":"all at once"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+operator)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	line, err := bufio.NewReader(res.Body).ReadBytes('\n') // there while the run goes on
	if lines, _ := runLines(t, line); err != nil || len(lines) != 1 || lines[0].Result != "done" {
		t.Fatalf("%s %v", line, err)
	}
	<-w.services.arrived
	<-w.services.arrived // the second lookup is under way
	abort()
	<-ended
	var audited int
	for _, r := range w.rows() {
		audited += len(a.audit(r.Key.String()))
	}
	if audited != 2 || w.services.read() != 2 || !strings.Contains(w.log.String(), `"stopped":"aborted"`) {
		t.Errorf("%d entries, %d lookups; log %s", audited, w.services.read(), w.log.String())
	}
}
