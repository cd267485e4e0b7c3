package gateway_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore/memstore"
)

// front is a gateway whose downstream takes everything, and counts what gets past the
// checks of a request.
type front struct {
	*world
	http.Handler
	begun atomic.Int64
}

func newFront(f *testing.F) *front {
	w, a := oneReplica(f)
	front := &front{world: w, Handler: a.gateway.Agents()}
	w.store.SetFault(func(v memstore.Verb, _ intent.Key) memstore.Fault {
		if v == memstore.Begin {
			front.begun.Add(1)
		}
		return memstore.Healthy
	})
	return front
}

// post calls a tool without a network in between: headers may hold what no client sends.
func (f *front) post(t *testing.T, tool string, body []byte, header http.Header) {
	r := httptest.NewRequest("POST", "/v1/tools/"+tool+"/calls", bytes.NewReader(body))
	r.Header = header
	begun, effects := f.begun.Load(), f.services.total()
	rec := httptest.NewRecorder()
	f.ServeHTTP(rec, r)

	// The downstream does what it is told and all is well: no answer is the gateway's fault.
	if rec.Code >= 500 || rec.Code < 200 {
		t.Fatalf("HTTP %d: %s", rec.Code, rec.Body)
	}
	if !json.Valid(rec.Body.Bytes()) {
		t.Fatalf("HTTP %d, not JSON: %s", rec.Code, rec.Body)
	}
	for name, values := range rec.Header() {
		if strings.ContainsAny(strings.Join(values, ""), "\r\n\x00") {
			t.Errorf("%s: %q", name, values)
		}
	}
	switch rec.Code {
	case http.StatusOK:
		return
	case http.StatusAccepted: // it did not wait: join it, so that what it does is done
		header.Del("Prefer")
		f.post(t, tool, body, header)
		return
	}
	got := reply{TB: t, code: rec.Code, header: rec.Header(), body: rec.Body.Bytes()}
	var p problem
	if err := json.Unmarshal(got.body, &p); err != nil {
		t.Fatal(err)
	}
	got.problem(rec.Code, p.Code, p.Retry)
	if open, err := f.lock.Overdue(t.Context(), 0, 1); err != nil || len(open) != 0 {
		t.Fatalf("a claim was left: %v, %v", open, err)
	}
	if b, e := f.begun.Load(), f.services.total(); b != begun || e != effects {
		t.Errorf("HTTP %d, and yet %d written ahead and %d effects: %s", rec.Code, b-begun, e-effects, got.body)
	}
}

// Any bytes as a body: no panic, no answer of 500 or more, and nothing stored or sent
// unless the answer is a result.
func FuzzCallBody(f *testing.F) {
	for _, seed := range []string{
		body(), body("args", `{"id":1,"to":" A@B "}`), body("args", `{"name":" .. "}`), body("args", `{"name":"a/b"}`), body("occurrence", "1048577"),
		`{"args":{"id":1},"idempotency_key":"k"}`, `{}`, `[]`, `null`, ``, `{"args":`, "\ufeff{}", "\xff", `{"run_id":"\ud800"}`, `{"run_id":"a\u0000"}`,
		`{"args":{"id":1e999999999}}`, `{"args":{"id":-0.0e-0}}`, body("args", strings.Repeat(`{"a":`, 100)+"1"+strings.Repeat("}", 100)),
		body("args", `{"id":1,"id":2}`), body("run_id", `"`+strings.Repeat("é", 128)+`"`),
	} {
		f.Add([]byte(seed), uint8(len(seed)))
	}
	front := newFront(f)
	tools := []string{"mail", "label", "put", "charge", "search"}
	f.Fuzz(func(t *testing.T, body []byte, tool uint8) {
		header := http.Header{"Authorization": {"Bearer " + acme}, "Content-Type": {"application/json"}}
		front.post(t, tools[int(tool)%len(tools)], body, header)
	})
}

// The same with any bytes in the headers that mean something.
func FuzzHeaders(f *testing.F) {
	f.Add("k-1", "wait=1", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "application/json", "Bearer "+acme)
	f.Add(`"k\"1"`, "wait=0;x, respond-async", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "application/x+json; charset=utf-8", "bearer "+acme)
	f.Add("a\r\nX: y", "wait=99999999999999999999", "00-"+strings.Repeat("0", 32)+"-"+strings.Repeat("0", 16)+"-00", "a/b;;", "Bearer")
	f.Add("\xff", `wait="`, "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x\r\n", "application/json; charset=x", "Bearer  ")
	f.Add("", "", "", "", "")
	front := newFront(f)
	f.Fuzz(func(t *testing.T, key, prefer, traceparent, contentType, authorization string) {
		for _, tool := range []string{"mail", "search"} {
			front.post(t, tool, []byte(`{"args":{"id":1,"q":"x"}}`), http.Header{
				"Idempotency-Key": {key}, "Prefer": {prefer}, "Traceparent": {traceparent}, "Content-Type": {contentType}, "Authorization": {authorization},
			})
		}
	})
}

// Any bytes as path and query of a question: no panic, and an answer in the contract's form.
func FuzzQuestions(f *testing.F) {
	for _, seed := range []string{"", "?status=completed", "/" + strings.Repeat("0", 64), "/" + strings.Repeat("0", 64) + "/attempts?wait=1", "?cursor=AAAA", "?q=%ff", "?since=2026-01-31T12:00:00Z",
		"/%00", "//", "?limit=1&limit=2", "?q=" + strings.Repeat("f", 32), "?a;b"} {
		f.Add(seed)
	}
	front := newFront(f)
	f.Fuzz(func(t *testing.T, rest string) {
		r, err := http.NewRequest("GET", "http://gateway/v1/receipts"+rest, nil)
		if err != nil {
			return // no client can send it
		}
		r.Header.Set("Authorization", "Bearer "+acme)
		rec := httptest.NewRecorder()
		front.ServeHTTP(rec, r)
		got := reply{TB: t, code: rec.Code, header: rec.Header(), body: rec.Body.Bytes()}
		if rec.Code == http.StatusOK {
			if !json.Valid(got.body) {
				t.Errorf("%s", got.body)
			}
			return
		}
		var p problem
		if err := json.Unmarshal(got.body, &p); err != nil || rec.Code >= 500 {
			t.Fatalf("HTTP %d, %v: %s", rec.Code, err, got.body)
		}
		if got.header.Get("Content-Type") != "application/problem+json" || p.Status != rec.Code {
			t.Errorf("%s", got.body)
		}
	})
}
