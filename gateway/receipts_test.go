package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/lock/memlock"
)

func TestOneReceipt(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	first := a.call("mail", `{"id":1,"memo":"x"}`)
	key := *first.completed().Key
	for _, path := range []string{"/v1/receipts/" + key, "/v1/receipts/" + strings.ToUpper(key), "/v1/receipts/" + key + "?wait=5"} {
		if got := a.get(path); string(got.body) != string(first.body) {
			t.Errorf("%s\nfirst %s", got.body, first.body)
		}
	}
	etag := a.get("/v1/receipts/" + key).header.Get("ETag")
	if got := a.get("/v1/receipts/"+key, "If-None-Match: "+etag); got.code != http.StatusNotModified || len(got.body) != 0 || got.header.Get("ETag") != etag {
		t.Errorf("HTTP %d %s", got.code, got.body)
	}
	a.get("/v1/receipts/"+key, `If-None-Match: "9.9"`).read("completed")
	a.call("mail", `{"id":1,"memo":"x"}`).completed()
	if got := a.get("/v1/receipts/" + key).read("completed"); got.Attempts != 2 || got.Executions != 1 || got.Replayed {
		t.Errorf("%+v", got)
	}
	for path, want := range map[string]int{
		"/v1/receipts/" + strings.Repeat("0", 64): 404, "/v1/receipts/" + strings.Repeat("0", 64) + "/attempts": 404,
		"/v1/receipts/x": 400, "/v1/receipts/" + key[1:]: 400, "/v1/receipts/" + key + "0": 400, "/v1/receipts/" + key[1:] + "g": 400,
		"/v1/receipts/x/attempts": 400, "/v1/receipts/" + key + "?wait=x": 400, "/v1/receipts/" + key + "?wait=-1": 400, "/v1/receipts/" + key + "?wait=1.5": 400,
		"/v1/receipts/" + key + "?wait=1;x": 400, "/v1/receipts/" + key + "?wait=1&wait=2": 400, "/v1/receipts/" + key + "?wiat=1": 400,
		"/v1/receipts/" + key + "/": 404, "/v1/receipts/" + key + "/nothing": 404,
	} {
		got := a.get(path)
		// A failed question must not read as if nothing had happened.
		if p := got.problem(want, map[int]string{400: "bad_request", 404: "not_found"}[want], "corrected"); strings.Contains(p.Advice, "Nothing was done") {
			t.Errorf("%s: %s", path, p.Advice)
		}
	}
	a.get("/v1/receipts/" + key + "?wait=99999999999999999999").read("completed")
	w.effects(1)
}

func TestReceiptsWhileTheStoreIsDown(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	key := *a.call("mail", `{"id":1}`).completed().Key
	w.storeDown("get", "list", "attempts")
	for _, path := range []string{"/v1/receipts/" + key, "/v1/receipts/" + key + "/attempts", "/v1/receipts"} {
		got := a.get(path)
		if p := got.problem(503, "not_sent", "same_key"); strings.Contains(p.Advice, "Nothing was done") || strings.Contains(string(got.body), "injected") {
			t.Errorf("%s: %s", path, got.body)
		}
	}
	if got := a.call("mail", `{"id":1}`).completed(); !got.Replayed {
		t.Error("not replayed")
	}
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	made := map[string]*receipt{}
	add := func(name string, got reply) {
		r := parseReceipt(t, got.body)
		made[name] = &r
	}
	add("mail", a.as(acme, "mail", body("args", `{"id":1,"memo":"Grüße nach Kiel"}`)))
	add("put", a.as(acme, "put", body("step_id", `"2"`, "args", `{"id":"inv-77"}`), "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
	add("wire", a.as(acme, "wire", body("run_id", `"other run"`)))
	add("hot", a.as(acme, "hot", body("run_id", `"other run"`, "step_id", `"2"`)))
	w.services.answer(answer(500, `{}`))
	add("unknown", a.as(acme, "mail", body("run_id", `"third"`)))
	w.services.answer(answer(400, `{}`))
	add("rejected", a.as(acme, "mail", body("run_id", `"fourth"`)))
	a.get("/v1/receipts/" + *made["hot"].Key + "?wait=5") // its result is archived a moment later
	for range 1000 {
		if keys, _ := a.get("/v1/receipts").list(); len(keys) == len(made) {
			break
		}
	}
	at := func(name string, d time.Duration) string {
		return url.QueryEscape(made[name].CreatedAt.Add(d).Format(time.RFC3339Nano))
	}
	for query, want := range map[string][]string{
		"":                            {"rejected", "unknown", "hot", "wire", "put", "mail"},
		"?":                           {"rejected", "unknown", "hot", "wire", "put", "mail"},
		"?run_id=run":                 {"put", "mail"},
		"?run_id=ru":                  {},
		"?run_id=other+run":           {"hot", "wire"},
		"?run_id=run&step_id=2":       {"put"},
		"?step_id=2":                  {"hot", "put"},
		"?tool=mail":                  {"rejected", "unknown", "mail"},
		"?tool=nothing":               {},
		"?status=completed":           {"hot", "put", "mail"},
		"?status=unknown":             {"unknown"},
		"?status=rejected":            {"rejected"},
		"?status=awaiting_approval":   {"wire"},
		"?status=started":             {},
		"?tool=mail&status=completed": {"mail"},
		"?since=" + at("wire", 0):     {"rejected", "unknown", "hot", "wire"},
		"?until=" + at("wire", 0):     {"put", "mail"},
		"?since=" + at("put", 0) + "&until=" + at("hot", 0): {"wire", "put"},
		"?since=" + at("rejected", time.Hour):               {},
		"?q=gr%C3%BC%C3%9Fe":                                {"mail"},
		"?q=kiel+nach":                                      {"mail"},
		"?q=inv-77":                                         {"put"},
		"?q=third":                                          {"unknown"},
		"?q=" + *made["wire"].Key:                           {"wire"},
		"?q=" + (*made["wire"].Key)[:12]:                    {"wire"},
		"?q=0af7651916cd43dd8448eb211c80319c":               {"put"},
		"?q=nowhere":                                        {},
		"?limit=200":                                        {"rejected", "unknown", "hot", "wire", "put", "mail"},
		"?limit=1&status=completed":                         {"hot"},
	} {
		got := a.get("/v1/receipts" + query)
		keys, next := got.list()
		var names []string
		for _, k := range keys {
			for name, r := range made {
				if *r.Key == k {
					names = append(names, name)
				}
			}
		}
		if !slices.Equal(names, want) && len(names)+len(want) > 0 {
			t.Errorf("%s: %v, want %v", query, names, want)
		}
		if (next != "") != strings.Contains(query, "limit=1&") {
			t.Errorf("%s: next_cursor %q", query, next)
		}
	}
	for _, query := range []string{"?status=done", "?status=COMPLETED", "?since=yesterday", "?until=2026-01-31", "?limit=0", "?limit=201", "?limit=-1", "?limit=x",
		"?limit=99999999999999999999", "?cursor=x", "?cursor=" + *made["mail"].Key, "?cursor=%00", "?run=run", "?Status=completed", "?tenant=globex", "?run_id=%00",
		"?step_id=%0a", "?tool=%ff", "?q=%00", "?q=" + strings.Repeat("q", 256), "?run_id=" + strings.Repeat("r", 256), "?status=%zz", "?status=completed;tool=mail",
		"?status=completed&status=unknown", "?limit=1&limit=2"} {
		a.get("/v1/receipts"+query).problem(400, "bad_request", "corrected")
	}
}

func TestListPages(t *testing.T) {
	t.Parallel()
	_, a := oneReplica(t)
	var want []string
	for i := range 11 {
		want = append([]string{*a.as(acme, "put", body("step_id", fmt.Sprintf(`"%d"`, i))).completed().Key}, want...)
		a.as(globex, "put", body("step_id", fmt.Sprintf(`"%d"`, i))).completed()
	}
	for _, limit := range []int{1, 3, 10, 11, 12} {
		var got []string
		for path := fmt.Sprintf("/v1/receipts?tool=put&limit=%d", limit); ; {
			answer := a.get(path)
			keys, next := answer.list()
			if len(keys) > limit {
				t.Errorf("%d on a page of %d", len(keys), limit)
			}
			got = append(got, keys...)
			link := answer.header.Get("Link")
			if next == "" {
				if link != "" {
					t.Errorf("Link on the last page: %s", link)
				}
				break
			}
			// What came meanwhile is newer: it shifts no page.
			a.as(acme, "mail", body("run_id", fmt.Sprintf(`"%d %d"`, limit, len(got))))
			path = strings.TrimSuffix(strings.TrimPrefix(link, "<"), `>; rel="next"`)
			if u, err := url.Parse(path); err != nil || u.Query().Get("cursor") != next || u.Query().Get("tool") != "put" {
				t.Fatalf("Link: %s", link)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: %d receipts, want %d, or in another order", limit, len(got), len(want))
		}
	}
}

// Every kind of arrival leaves a line with the call that it belongs to.
func TestAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.replica("a"), w.replica("b")
	var want []string
	arrive := func(decision string) string {
		want = append(want, fmt.Sprintf("%s %032x", decision, len(want)+1))
		return fmt.Sprintf("Traceparent: 00-%032x-b7ad6b7169203331-01", len(want))
	}
	w.unreachable.Store(true)
	key := *a.call("mail", `{"id":1}`, arrive("refused")).receipt(503, "rejected", "same_key").Key
	w.unreachable.Store(false)
	w.services.answer(w.services.hold(answer(200, `{}`)))
	done := make(chan reply, 2)
	headers := arrive("executed")
	go func() { done <- a.call("mail", `{"id":1}`, headers) }()
	<-w.services.arrived
	a.call("mail", `{"id":1}`, "Prefer: wait=0", arrive("pending")).receipt(202, "started", "same_key")
	waiting := make(chan struct{}, 100)
	w.lockFault.Store(new(memlock.Fault(func(verb string, _ int) (bool, error) {
		if verb == memlock.Get { // only those who wait for another replica read
			waiting <- struct{}{}
		}
		return true, nil
	})))
	headers = arrive("collapsed")
	go func() { done <- b.call("mail", `{"id":1}`, headers) }()
	<-waiting
	w.services.release()
	(<-done).completed()
	(<-done).completed()
	w.lockFault.Store(nil)
	a.call("mail", `{"id":1}`, arrive("replayed")).completed()
	b.call("mail", `{"id":1}`, arrive("replayed")).completed()
	b.call("mail", `{"id":1,"memo":"x"}`, arrive("mismatch")).problem(422, "idempotency_conflict", "never")
	a.call("mail", `{"id":2}`, arrive("step_conflict")).problem(409, "step_conflict", "never")

	type span struct {
		TraceID string `json:"trace_id"`
		SpanID  string `json:"span_id"`
		Replica string
		Region  string
	}
	var got struct {
		Key      string
		Total    int
		Attempts []struct {
			span
			Time         time.Time
			Decision     string
			CredentialID string `json:"credential_id"`
		}
		Executions []struct {
			span
			Fence      int
			Status     string
			Retry      string
			Reason     string
			StartedAt  *time.Time `json:"started_at"`
			EndedAt    *time.Time `json:"ended_at"`
			HTTPStatus int        `json:"http_status"`
		}
	}
	b.get("/v1/receipts/" + key + "/attempts") // the journal of each replica is written by itself
	answer := a.get("/v1/receipts/" + key + "/attempts")
	if err := json.Unmarshal(answer.body, &got); err != nil || answer.code != 200 {
		t.Fatalf("HTTP %d, %v: %s", answer.code, err, answer.body)
	}
	if got.Key != key || got.Total != len(want) || len(got.Attempts) != len(want) {
		t.Fatalf("%s", answer.body)
	}
	slices.Sort(want)
	var lines []string
	spans := map[string]bool{}
	for _, x := range got.Attempts {
		lines = append(lines, x.Decision+" "+x.TraceID)
		spans[x.SpanID] = true
		if x.Time.IsZero() || x.Region != "north" || x.CredentialID != "id-of-acme-agent" || x.Replica != "a" && x.Replica != "b" || len(x.SpanID) != 16 {
			t.Errorf("%+v", x)
		}
	}
	if slices.Sort(lines); !slices.Equal(lines, want) {
		t.Errorf("attempts %v\nwant %v", lines, want)
	}
	if len(spans) != len(want) || spans["b7ad6b7169203331"] {
		t.Errorf("spans %v", spans)
	}
	if x := got.Executions; len(x) != 2 || x[0].Fence != 1 || x[0].Status != "rejected" || x[0].Retry != "same_key" || x[0].Reason != "not sent: dial" || x[0].HTTPStatus != 0 ||
		x[1].Fence != 2 || x[1].Status != "completed" || x[1].HTTPStatus != 200 || x[1].EndedAt == nil || x[1].TraceID != fmt.Sprintf("%032x", 2) || x[1].Replica != "a" {
		t.Errorf("executions %+v", x)
	}
	if sent := w.services.entries(); len(sent) != 1 || !strings.Contains(sent[0].traceparent, got.Executions[1].TraceID+"-"+got.Executions[1].SpanID) {
		t.Errorf("sent %+v", sent)
	}
	if r := a.get("/v1/receipts/" + key).read("completed"); r.Attempts != len(want) || r.TraceID != got.Executions[1].TraceID {
		t.Errorf("%+v", r)
	}
}
