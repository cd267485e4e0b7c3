package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/downstream"
)

// What each status of a downstream means to the caller, and how often it was asked when
// the same call came three times.
func TestStatusesOfADownstream(t *testing.T) {
	t.Parallel()
	type meaning struct {
		code          int
		status, retry string
		effects       int
	}
	completed, rejected := meaning{200, "completed", "never", 1}, meaning{424, "rejected", "corrected", 1}
	forNow, unknown := meaning{503, "rejected", "same_key", 3}, meaning{202, "unknown", "never", 1}
	for status, want := range map[int]meaning{
		200: completed, 201: completed, 202: completed, 204: completed, 206: completed, 226: completed,
		301: completed, 302: completed, 303: completed, 304: completed,
		307: rejected, 308: rejected,
		400: rejected, 402: rejected, 404: rejected, 405: rejected, 409: rejected, 410: rejected, 412: rejected, 413: rejected, 415: rejected,
		422: rejected, 424: rejected, 451: rejected, 499: rejected,
		401: forNow, 403: forNow, 407: forNow, 429: forNow,
		408: unknown, 425: unknown, 500: unknown, 501: unknown, 502: unknown, 503: unknown, 504: unknown, 599: unknown,
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			w, a := oneReplica(t)
			script := answer(status, "", "Location", "/elsewhere")
			w.services.answer(script)
			for range 3 {
				got := a.call("mail", `{"id":1}`).receipt(want.code, want.status, want.retry)
				if got.Outcome == nil || got.Outcome.HTTPStatus != status {
					t.Errorf("outcome %+v", got.Outcome)
				}
			}
			w.effects(want.effects)
			if want == forNow {
				w.services.answer(answer(200, `{}`))
				if got := a.call("mail", `{"id":1}`).completed(); got.Replayed || got.Fence != 4 || got.Executions != 4 {
					t.Errorf("%+v", got)
				}
				w.effects(4)
			}
		})
	}
}

func TestRetryAfterIsPassedOn(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	w.services.answer(answer(429, `{}`, "Retry-After", "17"))
	a.call("mail", `{"id":1}`).headers(map[string]string{"Retry-After": "17"})
	for _, nonsense := range []string{"-1", "soon", "", "Mon, 02 Jan 2006 15:04:05 GMT"} {
		w.services.answer(answer(429, `{}`, "Retry-After", nonsense))
		a.call("mail", `{"id":1}`).receipt(503, "rejected", "same_key")
	}
}

// Answers that tell nothing: it may have happened, so nobody sends it again; neither this
// replica, nor another one, nor one that knows the store alone.
func TestUnknownIsNeverSentAgain(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]http.HandlerFunc{
		"500":                   answer(500, `{"error":"x"}`),
		"reset":                 reset,
		"cut short":             cutShort,
		"chunked and cut short": raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhalf"),
		"empty answer":          raw(""),
		"no HTTP":               raw("hello\r\n\r\n"),
		"half a status line":    raw("HTTP/1.1 2"),
		"gzip that is none":     answer(200, "plain", "Content-Encoding", "gzip"),
		"endless interim":       raw(strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 100)),
		"head too large":        raw("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2<<20)),
		"never":                 nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a, b := w.replica("a"), w.replica("b")
			if script == nil {
				script = w.services.hold(answer(200, `{}`))
			}
			w.services.answer(inTurn(script, answer(200, `{"again":true}`)))
			first := a.call("slow", `{"id":1}`).receipt(202, "unknown", "never")
			if first.Executions != 1 || first.Reason == "" || first.UnknownSince == nil {
				t.Errorf("%+v", first)
			}
			a.call("slow", `{"id":1}`).receipt(202, "unknown", "never")
			b.call("slow", `{"id":1}`).receipt(202, "unknown", "never")
			w.forgetRedis()
			b.call("slow", `{"id":1}`).receipt(202, "unknown", "never")
			b.call("slow", `{"id":2}`).problem(409, "step_conflict", "never")
			a.get("/v1/receipts/" + *first.Key + "?wait=0").read("unknown")
			w.effects(1)
		})
	}
}

// An interim answer is no answer, and nothing of it is kept.
func TestInterimAnswers(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	w.services.answer(raw("HTTP/1.1 103 Early Hints\r\nX-Ticket: early\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
	if got := a.call("mail", `{"id":1}`).completed(); string(got.Outcome.Body) != `{}` || len(got.Outcome.Headers) != 0 {
		t.Errorf("%+v", got.Outcome)
	}
}

// A connection that the downstream closed while it was idle costs nothing; one that breaks
// under a request costs the answer, and never a second effect.
func TestKeptConnectionsBreak(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	for i := range 5 {
		a.as(acme, "mail", body("step_id", fmt.Sprintf(`"warm %d"`, i))).completed()
		w.services.CloseClientConnections()
		a.as(acme, "mail", body("step_id", fmt.Sprintf(`"after %d"`, i)))
		w.services.answer(reset)
		a.as(acme, "mail", body("step_id", fmt.Sprintf(`"broken %d"`, i))).receipt(202, "unknown", "never")
		w.services.answer(answer(200, `{}`))
	}
	perKey := map[string]int{}
	for _, e := range w.services.entries() {
		if perKey[e.key]++; perKey[e.key] > 1 {
			t.Errorf("%s acted twice", e.key)
		}
	}
}

func TestBreakerOpen(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t, func(s *downstream.Spec) {
		s.Breaker = downstream.BreakerSpec{Window: time.Hour, MinRequests: 4, FailureRatio: 0.5, OpenFor: time.Minute, HalfOpenProbes: 1}
	})
	b := w.replica("b")
	step := func(s string) string { return body("step_id", `"`+s+`"`) }
	a.as(acme, "mail", step("good")).completed()
	w.services.answer(answer(400, `{}`))
	a.as(acme, "mail", step("refused")).receipt(424, "rejected", "corrected") // no failure of the downstream
	w.services.answer(answer(500, `{}`))
	a.as(acme, "mail", step("lost 1")).receipt(202, "unknown", "never")
	a.as(acme, "mail", step("lost 2")).receipt(202, "unknown", "never")
	w.services.answer(answer(200, `{}`))

	for _, tool := range []string{"mail", "hot", "put", "search"} { // one breaker for all tools of a downstream
		got := a.as(acme, tool, body("step_id", `"fresh"`, "args", `{"id":1,"q":"x"}`))
		if p := got.problem(503, "not_sent", "same_key"); p.Reason != "breaker_open" {
			t.Errorf("%s", got.body)
		}
	}
	w.effects(4)
	if rows := w.rows(); len(rows) != 4 {
		t.Errorf("%d rows", len(rows))
	}
	// What is known about a key does not depend on the breaker, in memory or in Redis.
	for _, r := range []*replica{a, b} {
		if got := r.as(acme, "mail", step("good")).completed(); !got.Replayed {
			t.Error("not replayed")
		}
		r.as(acme, "mail", step("lost 1")).receipt(202, "unknown", "never")
		r.as(acme, "mail", step("refused")).receipt(424, "rejected", "corrected")
		r.as(acme, "mail", body("step_id", `"good"`, "args", `{"id":2}`)).problem(409, "step_conflict", "never")
	}
	// Nothing is sent to approve either, so it may wait.
	a.as(acme, "wire", step("fresh")).receipt(202, "awaiting_approval", "never")
	w.effects(4)
}

func TestBreakerClosesAgain(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t, func(s *downstream.Spec) {
		s.Breaker = downstream.BreakerSpec{Window: time.Hour, MinRequests: 1, FailureRatio: 1, OpenFor: time.Millisecond, HalfOpenProbes: 1}
	})
	w.unreachable.Store(true)
	got := a.call("mail", `{"id":1}`).receipt(503, "rejected", "same_key")
	w.unreachable.Store(false)
	for range 1000 { // until the millisecond has passed
		if again := a.call("mail", `{"id":1}`); again.code == 200 {
			if now := again.completed(); *now.Key != *got.Key || now.Executions != 1 {
				t.Errorf("%s", again.body)
			}
			w.effects(1)
			return
		}
	}
	t.Error("the breaker stays open")
}

func TestNoPermit(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t, func(s *downstream.Spec) { s.MaxInFlight = 1 })
	a.as(acme, "mail", body("step_id", `"known"`)).completed()
	w.services.answer(w.services.hold(answer(200, `{}`)))
	a.as(acme, "mail", body("step_id", `"running"`), "Prefer: wait=0").receipt(202, "started", "same_key")
	<-w.services.arrived
	<-w.services.arrived
	for _, tool := range []string{"mail", "search"} {
		got := a.as(acme, tool, body("step_id", `"fresh"`, "args", `{"id":1,"q":"x"}`))
		if p := got.problem(503, "not_sent", "same_key"); p.Reason != "no_permit" {
			t.Errorf("%s", got.body)
		}
	}
	if got := a.as(acme, "mail", body("step_id", `"known"`)).completed(); !got.Replayed {
		t.Error("not replayed")
	}
	w.effects(2)
	w.services.release()
	a.as(acme, "mail", body("step_id", `"running"`)).completed()
	if got := a.as(acme, "mail", body("step_id", `"fresh"`)).completed(); got.Replayed {
		t.Error("replayed")
	}
	w.effects(3)
}

// More calls at once than limits.in_flight: refused, and nothing done. Duplicates of what is
// under way need no room, nor do replays.
func TestTooManyCallsInFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.inFlight = 1
	a := w.replica("a")
	a.as(acme, "mail", body("step_id", `"known"`)).completed()
	w.services.answer(w.services.hold(answer(200, `{}`)))
	running := make(chan reply)
	go func() { running <- a.as(acme, "mail", body("step_id", `"running"`)) }()
	<-w.services.arrived
	<-w.services.arrived
	a.as(acme, "mail", body("step_id", `"fresh"`)).problem(503, "overloaded", "same_key")
	a.as(acme, "mail", body("step_id", `"running"`), "Prefer: wait=0").receipt(202, "started", "same_key")
	if got := a.as(acme, "mail", body("step_id", `"known"`)).completed(); !got.Replayed {
		t.Error("not replayed")
	}
	w.services.release()
	(<-running).completed()
	a.as(acme, "mail", body("step_id", `"fresh"`)).completed()
	w.effects(3)
}
