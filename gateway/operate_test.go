package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore/memstore"
)

// decide makes a decision at the operators' listener.
func (r *replica) decide(credential, key, verb, body string, headers ...string) reply {
	r.w.Helper()
	return r.do("POST", r.operators.URL+"/v1/receipts/"+key+"/"+verb, credential, body, headers...)
}

// decided checks the answer of a decision.
func (r reply) decided(status string) receipt {
	r.Helper()
	return r.read(status)
}

// unknown makes a receipt whose outcome is unknown, and returns its key and ETag.
func (r *replica) unknown(tool, step string) (key, etag string) {
	r.w.Helper()
	r.w.services.answer(answer(500, `{}`))
	got := r.as(acme, tool, callBody(step, `{"id":1}`)).receipt(202, "unknown", "never")
	r.w.services.answer(answer(200, `{"done":true}`))
	return *got.Key, r.etag(*got.Key)
}

func (r *replica) etag(key string) string {
	r.w.Helper()
	return r.get("/v1/receipts/" + key).header.Get("ETag")
}

type auditLine struct {
	ID       int64           `json:"id"`
	Time     time.Time       `json:"time"`
	Actor    string          `json:"actor"`
	Action   string          `json:"action"`
	Reason   string          `json:"reason"`
	Before   string          `json:"before"`
	After    string          `json:"after"`
	Evidence json.RawMessage `json:"evidence"`
	TraceID  string          `json:"trace_id"`
	SpanID   string          `json:"span_id"`
}

func (l auditLine) String() string {
	return fmt.Sprintf("%s %s: %s (%s -> %s)", l.Actor, l.Action, l.Reason, l.Before, l.After)
}

func (r *replica) audit(key string) []auditLine {
	r.w.Helper()
	got := r.do("GET", r.operators.URL+"/v1/receipts/"+key+"/audit", viewer, "")
	var answer struct {
		Key     string
		Entries []auditLine
	}
	if err := json.Unmarshal(got.body, &answer); err != nil || got.code != 200 || answer.Key != key {
		r.w.Fatalf("HTTP %d: %s", got.code, got.body)
	}
	for _, l := range answer.Entries {
		if !aTrace.MatchString(l.TraceID) || len(l.SpanID) != 16 || l.Time.IsZero() {
			r.w.Errorf("%+v", l)
		}
	}
	return answer.Entries
}

// audited fails unless the audit reads so.
func (r *replica) audited(key string, want ...string) {
	r.w.Helper()
	var got []string
	for _, l := range r.audit(key) {
		got = append(got, l.String())
	}
	if !slices.Equal(got, want) {
		r.w.Errorf("the audit reads\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	key, etag := a.unknown("mail", "1")
	got := a.decide(operator, key, "resolve", `{"outcome":"completed","result":{"id":12345678901234567890,"n":1.0},"reason":" seen in the outbox "}`, "If-Match: "+etag)
	r := got.decided("completed")
	if string(r.Outcome.Body) != `{"id":12345678901234567890,"n":1.0}` || r.SettledBy != "operator" || got.header.Get("ETag") == etag || r.Executions != 1 {
		t.Errorf("%s", got.body)
	}
	if again := a.call("mail", `{"id":1}`).completed(); !again.Replayed || string(again.Outcome.Body) != string(r.Outcome.Body) {
		t.Errorf("%+v", again)
	}
	a.audited(key, "id-of-acme-operator resolve: seen in the outbox (unknown 1.2 -> completed 1.3)")

	key, etag = a.unknown("mail", "2")
	a.decide(operator, key, "resolve", `{"outcome":"rejected","result":{},"reason":"not there"}`, "If-Match: "+etag).decided("rejected")
	a.as(acme, "mail", callBody("2", `{"id":1}`)).completed() // the same call may act again
	key, etag = a.unknown("mail", "3")
	a.decide(operator, key, "resolve", `{"outcome":"rejected","retry":"corrected","reason":"not there"}`, "If-Match: "+etag).decided("rejected")
	a.as(acme, "mail", callBody("3", `{"id":1}`)).receipt(424, "rejected", "corrected")
	w.effects(4)
}

func TestWhoMayDecide(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	key, etag := a.unknown("mail", "1")
	for _, verb := range []string{"resolve", "approve", "decline", "reconcile", "wait", "reexecute", "acknowledge"} {
		body := `{"reason":"x"}`
		if verb == "resolve" {
			body = `{"outcome":"completed","reason":"x"}`
		}
		for _, server := range []string{a.agents.URL, a.operators.URL} {
			url := server + "/v1/receipts/" + key + "/" + verb
			for _, credential := range []string{acme, viewer} {
				a.do("POST", url, credential, body, "If-Match: "+etag).problem(403, "forbidden", "corrected")
			}
			a.do("POST", url, "", body, "If-Match: "+etag).problem(401, "unauthenticated", "corrected")
			theirs := a.do("POST", url, globex, body, "If-Match: "+etag)
			theirs.problem(404, "not_found", "corrected")
			theirs.hides("acme", "mail", key)
			a.do("POST", server+"/v1/receipts/"+strings.Repeat("0", 64)+"/"+verb, operator, body, "If-Match: "+etag).problem(404, "not_found", "corrected")
			a.do("POST", server+"/v1/receipts/x/"+verb, operator, body, "If-Match: "+etag).problem(400, "bad_request", "corrected")
			a.do("GET", url, operator, "").problem(405, "method_not_allowed", "corrected")
		}
	}
	for _, path := range []string{"/audit", "/attempts"} {
		a.do("GET", a.operators.URL+"/v1/receipts/"+key+path, globex, "").problem(404, "not_found", "corrected")
	}
	a.get("/v1/receipts/" + key).read("unknown")
	a.audited(key)
	w.effects(1)
	// Both listeners decide.
	a.do("POST", a.agents.URL+"/v1/receipts/"+key+"/resolve", operator, `{"outcome":"completed","reason":"x"}`, "If-Match: "+etag).decided("completed")
}

func TestDecisionsThatAreMalformed(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	key, etag := a.unknown("asked", "1")
	for _, test := range []struct{ verb, body string }{
		{"resolve", ``}, {"resolve", `{}`}, {"resolve", `[]`}, {"resolve", `{"outcome":"completed"}`}, {"resolve", `{"reason":"x"}`},
		{"resolve", `{"outcome":"completed","reason":""}`}, {"resolve", `{"outcome":"completed","reason":"  "}`}, {"resolve", `{"outcome":"completed","reason":null}`},
		{"resolve", `{"outcome":"completed","reason":7}`}, {"resolve", `{"outcome":"completed","reason":"` + strings.Repeat("x", 1001) + `"}`},
		{"resolve", `{"outcome":"completed","reason":"x","reason":"x"}`}, {"resolve", `{"outcome":"completed","reason":"x","force":true}`},
		{"resolve", `{"outcome":"unknown","reason":"x"}`}, {"resolve", `{"outcome":"completed","retry":"corrected","reason":"x"}`},
		{"resolve", `{"outcome":"rejected","retry":"never","reason":"x"}`}, {"resolve", `{"outcome":"rejected","result":{"id":1},"reason":"x"}`},
		{"resolve", `{"outcome":"completed","reason":"x"} {}`}, {"resolve", `{"outcome":"completed","reason":"\u0000x"}`},
		{"approve", `{"reason":"x","fingerprint":"abc"}`}, {"approve", `{"reason":"x","fingerprint":"sha256:00"}`},
		{"approve", `{"reason":"x","fingerprint":"sha256:` + strings.Repeat("0", 64) + `"}`}, {"approve", `{"reason":"x","outcome":"completed"}`},
		{"decline", `{}`}, {"wait", `{"reason":"x","for":"soon"}`}, {"wait", `{"reason":"x","for":5}`}, {"wait", `{"reason":"x","for":"-1h"}`}, {"wait", `{"reason":"x","for":"9000h"}`},
		{"reconcile", `{"reason":""}`}, {"reconcile", `{"for":"1h"}`}, {"acknowledge", `{"reason":7}`}, {"reexecute", `{"reason":"x","again":1}`},
	} {
		if got := a.decide(operator, key, test.verb, test.body, "If-Match: "+etag, "Content-Type: application/json"); got.code != 400 {
			t.Errorf("%s %s: HTTP %d: %s", test.verb, test.body, got.code, got.body)
		}
	}
	p := a.decide(operator, key, "resolve", `{"outcome":"completed"}`, "If-Match: "+etag).problem(400, "bad_request", "corrected")
	if !strings.Contains(p.Detail, "reason") || strings.Contains(p.Advice, "Nothing was done") {
		t.Errorf("%+v", p) // the action itself may well have been done
	}
	a.decide(operator, key, "resolve?force=1", `{"outcome":"completed","reason":"x"}`, "If-Match: "+etag).problem(400, "bad_request", "corrected")
	a.decide(operator, key, "decline", `{"reason":"x"}`, "Content-Type: text/plain").problem(415, "unsupported_media_type", "corrected")
	a.decide(operator, key, "decline", `{"reason":"`+strings.Repeat("x", bodyCap)+`"}`).problem(413, "too_large", "corrected")
	a.audited(key)
	if n := w.services.read(); n != 0 {
		t.Errorf("%d lookups", n)
	}
}

func TestIfMatch(t *testing.T) {
	t.Parallel()
	_, a := oneReplica(t)
	key, etag := a.unknown("mail", "1")
	body := `{"outcome":"completed","reason":"x"}`
	for header, want := range map[string]string{
		"X-Nothing: 1": "428 precondition_required", "If-Match: *": "428 precondition_required",
		`If-Match: "1.1"`: "412 precondition_failed", `If-Match: "9.9"`: "412 precondition_failed", `If-Match: W/"1.2"`: "412 precondition_failed",
		`If-Match: "abc"`: "412 precondition_failed", `If-Match: "01.2"`: "412 precondition_failed", `If-Match: "1.2.3"`: "412 precondition_failed",
		`If-Match: "1.1", "1.2"`: "400 bad_request", `If-Match: 1.2`: "400 bad_request", `If-Match: "`: "400 bad_request", `If-Match: `: "400 bad_request",
	} {
		for _, verb := range []string{"resolve", "reexecute"} {
			send := body
			if verb == "reexecute" {
				send = `{"reason":"x"}`
			}
			got := a.decide(operator, key, verb, send, header)
			var p problem
			if err := json.Unmarshal(got.body, &p); err != nil || fmt.Sprint(p.Status, " ", p.Code) != want || p.Status != got.code {
				t.Errorf("%s %s: HTTP %d: %s", verb, header, got.code, got.body)
			}
			if got.code == 428 && !strings.Contains(p.Detail, `If-Match: "1.2"`) {
				t.Errorf("it does not say what to send: %s", p.Detail)
			}
		}
	}
	a.audited(key)
	// Where it is not needed it is honoured all the same.
	wire := *a.call("wire", `{"amount":1}`).receipt(202, "awaiting_approval", "never").Key
	a.decide(operator, wire, "decline", `{"reason":"x"}`, `If-Match: "7.7"`).problem(412, "precondition_failed", "corrected")
	a.decide(operator, wire, "decline", `{"reason":"x"}`, "If-Match: *").decided("rejected")
	a.decide(operator, key, "resolve", body, "If-Match: "+etag).decided("completed")
}

// A decision whose answer was lost is sent again: it stands, it is audited once, and the
// answer is the same.
func TestRepeatedDecisions(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	b := w.replica("b")
	key, etag := a.unknown("mail", "1")
	body := `{"outcome":"completed","result":{"id":1},"reason":"seen"}`
	first := a.decide(operator, key, "resolve", body, "If-Match: "+etag)
	first.decided("completed")
	if again := b.decide(operator, key, "resolve", body, "If-Match: "+etag); again.code != 200 || string(again.body) != string(first.body) || again.header.Get("ETag") != first.header.Get("ETag") {
		t.Errorf("HTTP %d %s\nfirst %s", again.code, again.body, first.body)
	}
	for name, got := range map[string]reply{
		"another person":  a.decide(colleague, key, "resolve", body, "If-Match: "+etag),
		"another reason":  a.decide(operator, key, "resolve", `{"outcome":"completed","result":{"id":1},"reason":"heard"}`, "If-Match: "+etag),
		"another outcome": a.decide(operator, key, "resolve", `{"outcome":"rejected","reason":"seen"}`, "If-Match: "+etag),
		"another result":  a.decide(operator, key, "resolve", `{"outcome":"completed","result":{"id":2},"reason":"seen"}`, "If-Match: "+etag),
	} {
		if got.code != 409 && got.code != 412 {
			t.Errorf("%s: HTTP %d %s", name, got.code, got.body)
		}
	}
	if n := len(a.audit(key)); n != 1 {
		t.Errorf("%d entries", n)
	}

	wire := *a.call("wire", `{"amount":1}`).receipt(202, "awaiting_approval", "never").Key
	for range 2 {
		a.decide(operator, wire, "approve", `{"reason":"agreed"}`).decided("completed")
	}
	a.decide(colleague, wire, "approve", `{"reason":"agreed"}`).problem(409, "state_conflict", "corrected")
	a.decide(operator, wire, "decline", `{"reason":"agreed"}`).problem(409, "state_conflict", "corrected")
	if n := len(a.audit(wire)); n != 1 {
		t.Errorf("%d entries", n)
	}
	w.effects(2)
}

// The store applies a decision, and the reply is lost on the way.
func TestADecisionWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	key, etag := a.unknown("mail", "1")
	for _, fault := range []memstore.Fault{memstore.Refused, memstore.AnswerLost} {
		w.store.SetFault(func(v memstore.Verb, _ intent.Key) memstore.Fault {
			if v == memstore.Replace {
				return fault
			}
			return memstore.Healthy
		})
		got := a.decide(operator, key, "resolve", `{"outcome":"completed","reason":"seen"}`, "If-Match: "+etag)
		if p := got.problem(503, "not_sent", "same_key"); strings.Contains(p.Advice, "Nothing was done") || strings.Contains(string(got.body), "injected") {
			t.Errorf("%s", got.body)
		}
	}
	w.store.SetFault(nil)
	a.decide(operator, key, "resolve", `{"outcome":"completed","reason":"seen"}`, "If-Match: "+etag).decided("completed")
	a.audited(key, "id-of-acme-operator resolve: seen (unknown 1.2 -> completed 1.3)")
}

func TestApprove(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	waits := a.call("wire", `{"amount":10}`).receipt(202, "awaiting_approval", "never")
	key := *waits.Key
	w.effects(0)
	a.decide(operator, key, "approve", `{"reason":"x","fingerprint":"sha256:`+strings.Repeat("1", 64)+`"}`).problem(409, "state_conflict", "corrected")
	w.effects(0)
	got := a.decide(operator, key, "approve", `{"reason":"agreed on the phone","fingerprint":"`+waits.Intent.Fingerprint+`"}`).decided("completed")
	if got.Executions != 1 || string(got.Outcome.Body) != `{"done":true}` || !slices.Equal(got.Recovery.ApprovedBy, []string{"id-of-acme-operator"}) {
		t.Errorf("%+v", got)
	}
	a.call("wire", `{"amount":10}`).completed()
	w.effects(1)

	// An execution that takes longer than the wait runs on.
	w.services.answer(w.services.hold(answer(200, `{"late":1}`)))
	slow := *a.as(acme, "wire", callBody("2", `{"amount":11}`)).receipt(202, "awaiting_approval", "never").Key
	running := a.decide(operator, slow, "approve", `{"reason":"x"}`, "Prefer: wait=0")
	if r := running.decided("started"); r.Executions != 1 || running.header.Get("Preference-Applied") != "wait=0" || running.header.Get("Retry-After") == "" {
		t.Errorf("%s", running.body)
	}
	w.services.release()
	a.get("/v1/receipts/" + slow + "?wait=10").read("completed")
	w.effects(2)
}

func TestApproveRaces(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	replicas := []*replica{a, w.replica("b"), w.replica("c")}
	const keys = 5
	for i := range keys {
		key := *a.as(acme, "wire", callBody(fmt.Sprint(i), `{"amount":1}`)).receipt(202, "awaiting_approval", "never").Key
		var deciding sync.WaitGroup
		codes := make([]int, 6)
		for n := range codes {
			who := []string{operator, colleague}[n%2]
			deciding.Go(func() {
				got, err := w.send(context.Background(), "POST", replicas[n%3].operators.URL+"/v1/receipts/"+key+"/approve", who, fmt.Sprintf(`{"reason":"no. %d"}`, n))
				if err == nil {
					codes[n] = got.code
				}
			})
		}
		deciding.Wait()
		slices.Sort(codes)
		if !slices.Equal(codes, []int{200, 409, 409, 409, 409, 409}) {
			t.Errorf("HTTP %v", codes)
		}
	}
	w.effects(keys)
}

func TestTwoPeopleApprove(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	key := *a.call("vault", `{"amount":10}`).receipt(202, "awaiting_approval", "never").Key
	one := a.decide(operator, key, "approve", `{"reason":"checked"}`).decided("awaiting_approval")
	if !slices.Equal(one.Recovery.ApprovedBy, []string{"id-of-acme-operator"}) {
		t.Errorf("%+v", one.Recovery)
	}
	a.decide(operator, key, "approve", `{"reason":"checked"}`).decided("awaiting_approval")
	a.decide(operator, key, "approve", `{"reason":"checked again"}`).problem(409, "state_conflict", "corrected")
	w.effects(0)
	a.decide(colleague, key, "approve", `{"reason":"checked too"}`).decided("completed")
	w.effects(1)
	if n := len(a.audit(key)); n != 2 {
		t.Errorf("%d entries", n)
	}
}

func TestDecline(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	key := *a.call("wire", `{"amount":10}`).receipt(202, "awaiting_approval", "never").Key
	for range 2 {
		a.decide(operator, key, "decline", `{"reason":"wrong amount"}`).decided("rejected")
	}
	if r := a.call("wire", `{"amount":10}`).receipt(424, "rejected", "corrected"); !strings.Contains(r.Advice, "declined") || r.Reason != "declined" {
		t.Errorf("%+v", r)
	}
	a.decide(operator, key, "approve", `{"reason":"after all"}`).problem(409, "state_conflict", "corrected")
	a.audited(key, "id-of-acme-operator decline: wrong amount (awaiting_approval 1.1 -> rejected 1.2)")
	w.effects(0)
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	key, _ := a.unknown("asked", "1")
	w.services.answer(answer(200, `{"found":false}`)) // which proves nothing yet
	if r := a.decide(operator, key, "reconcile", "").decided("unknown"); r.Recovery.Checks != 1 || string(r.Evidence) == "null" {
		t.Errorf("%+v", r)
	}
	w.services.answer(answer(200, `{"found":true}`))
	if r := a.decide(operator, key, "reconcile", `{"reason":"the customer called"}`).decided("completed"); r.SettledBy != "lookup" {
		t.Errorf("%+v", r)
	}
	lines := a.audit(key)
	if len(lines) != 2 || lines[0].Action != "lookup" || lines[0].Actor != "id-of-acme-operator" || string(lines[1].Evidence) == "null" {
		t.Errorf("%v", lines)
	}
	var attempts struct {
		Executions []struct {
			Fence    int
			Evidence []struct {
				Action, Actor string
				Evidence      json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(a.get("/v1/receipts/"+key+"/attempts").body, &attempts); err != nil || len(attempts.Executions) != 1 || len(attempts.Executions[0].Evidence) != 2 {
		t.Errorf("%+v %v", attempts, err)
	}
	w.effects(1)
	parked, _ := a.unknown("mail", "2")
	a.decide(operator, parked, "reconcile", "").problem(409, "state_conflict", "corrected")
	a.decide(operator, key, "reconcile", "").decided("completed") // as it was asked for above
	a.decide(colleague, key, "reconcile", "").problem(409, "state_conflict", "corrected")
}

func TestKeepWaiting(t *testing.T) {
	t.Parallel()
	_, a := oneReplica(t)
	key, etag := a.unknown("asked", "1")
	for range 2 {
		got := a.decide(operator, key, "wait", `{"reason":"they are looking into it","for":"48h"}`, "If-Match: "+etag).decided("unknown")
		if left := time.Until(*got.Recovery.NextCheckAt); left < 47*time.Hour || left > 48*time.Hour {
			t.Errorf("the next check comes in %v", left)
		}
	}
	a.audited(key, "id-of-acme-operator wait: they are looking into it (unknown 1.2 -> unknown 1.2)")
	a.decide(operator, key, "wait", `{"reason":"still","for":"1h"}`).decided("unknown")
	if n := len(a.audit(key)); n != 2 {
		t.Errorf("%d entries", n)
	}
}

func TestReexecute(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	key, etag := a.unknown("mail", "1")
	first := a.decide(operator, key, "reexecute", `{"reason":"it never arrived"}`, "If-Match: "+etag)
	if r := first.decided("completed"); r.Fence != 2 || r.Executions != 2 {
		t.Errorf("%s", first.body)
	}
	if again := a.decide(operator, key, "reexecute", `{"reason":"it never arrived"}`, "If-Match: "+etag); again.code != 200 || string(again.body) != string(first.body) {
		t.Errorf("HTTP %d %s", again.code, again.body)
	}
	w.effects(2)
	a.audited(key, "id-of-acme-operator reexecute: it never arrived (unknown 1.2 -> started 2.3)")
	w.services.answer(answer(500, `{}`))
	wire := *a.call("wire", `{"amount":1}`).receipt(202, "awaiting_approval", "never").Key
	a.decide(operator, wire, "approve", `{"reason":"x"}`).decided("unknown")
	a.decide(operator, wire, "reexecute", `{"reason":"x"}`, "If-Match: "+a.etag(wire)).problem(409, "state_conflict", "corrected")
	w.effects(3)
}

func TestAcknowledge(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	key := *a.call("mail", `{"id":1}`).completed().Key
	a.decide(operator, key, "acknowledge", `{"reason":"x"}`).problem(409, "state_conflict", "corrected")
	row := w.rows()[0]
	if _, err := w.store.Replace(t.Context(), row, row.Suspect(intent.DoubtLateAnswer, time.Time{}), nil); err != nil {
		t.Fatal(err)
	}
	if keys, _ := a.get("/v1/receipts?attention=true").list(); len(keys) != 1 {
		t.Errorf("%v", keys)
	}
	for range 2 {
		a.decide(operator, key, "acknowledge", `{"reason":"refunded"}`).decided("completed")
	}
	a.audited(key, "id-of-acme-operator acknowledge: refunded (completed 1.2 -> completed 1.2)")
	if keys, _ := a.get("/v1/receipts?attention=true").list(); len(keys) != 0 {
		t.Errorf("%v", keys)
	}
	if got := a.get("/v1/receipts?attention=false"); got.code != http.StatusBadRequest {
		t.Errorf("HTTP %d", got.code)
	}
}
