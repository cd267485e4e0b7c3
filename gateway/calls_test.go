package gateway_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/intentstore/memstore"
)

// The rows of CONTRACT.md's table "situation", one test each or more; reply.receipt and
// reply.problem check the headers and names that go with each.

func TestTheResultFirstTimeAndReplayed(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"mail", "note", "hot", "put"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			w, a := oneReplica(t)
			first := a.call(tool, `{"id":1,"memo":"thanks"}`, "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
			got := first.completed()
			if got.Replayed || got.Tool != tool || got.Tenant != "acme" || got.RunID != "run" || got.StepID != "1" || got.Occurrence != 0 ||
				got.Attempts != 1 || got.Executions != 1 || got.Fence != 1 || got.SettledBy != "downstream" || got.Reason != "" ||
				string(got.Evidence) != "null" || got.UnknownSince != nil || got.StartedAt == nil ||
				string(got.Intent.Args) != `{"id":1,"memo":"thanks"}` || string(got.Outcome.Body) != `{"done":true}` || got.Outcome.HTTPStatus != 200 {
				t.Errorf("%s", first.body)
			}
			if got.Durable != (tool != "hot") { // a hot result is archived afterwards
				t.Errorf("durable: %v", got.Durable)
			}
			if got.TraceID != "0af7651916cd43dd8448eb211c80319c" {
				t.Errorf("trace_id %s", got.TraceID)
			}
			again := a.call(tool, `{"id":1,"memo":"thanks"}`)
			if !again.completed().Replayed {
				t.Errorf("not replayed: %s", again.body)
			}
			w.effects(1)
			if e := w.services.entries()[0]; e.tool != tool || e.key != *got.Key || e.body != `{"id":1,"memo":"thanks"}` || !strings.Contains(e.traceparent, got.TraceID) {
				t.Errorf("sent %+v", e)
			}
		})
	}
}

func TestStillRunningAfterTheWait(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	w.services.answer(w.services.hold(answer(200, `{"done":true}`)))
	first := a.call("mail", `{"id":1}`, "Prefer: wait=1")
	key := *first.receipt(202, "started", "same_key").Key
	first.headers(map[string]string{"Preference-Applied": "wait=1"})
	joined := a.call("mail", `{"id":1}`, "Prefer: wait=0") // joins the call under way
	if got := *joined.receipt(202, "started", "same_key").Key; got != key {
		t.Errorf("another key: %s", got)
	}
	running := a.get("/v1/receipts/" + key)
	running.read("started")
	running.retryAfter(true)
	w.services.release()
	if got := a.get("/v1/receipts/" + key + "?wait=10").read("completed"); string(got.Outcome.Body) != `{"done":true}` {
		t.Errorf("%s", got.Outcome.Body)
	}
	if got := a.call("mail", `{"id":1}`).completed(); !got.Replayed {
		t.Error("not replayed")
	}
	w.effects(1)
}

// An answer with an address is worth nothing unless something is at that address.
func TestStartedHasAReceiptToAskFor(t *testing.T) {
	w, a := oneReplica(t)
	w.services.answer(w.services.hold(answer(200, `{"done":true}`)))
	for _, tool := range []string{"mail", "hot"} {
		key := *a.call(tool, `{"id":1}`, "Prefer: wait=0").receipt(202, "started", "same_key").Key
		a.get("/v1/receipts/" + key).read("started")
	}
}

// Not waiting for the effect is not the same as not being told that there will be none.
func TestNotWaitingStillTellsWhatWillNotRun(t *testing.T) {
	_, a := oneReplica(t)
	a.call("mail", `{"id":1,"memo":"x"}`).completed()
	for range 20 {
		a.call("mail", `{"id":1,"memo":"y"}`, "Prefer: wait=0").problem(422, "idempotency_conflict", "never")
		a.call("mail", `{"id":2,"memo":"x"}`, "Prefer: wait=0").problem(409, "step_conflict", "never")
		a.call("wire", `{"id":1}`, "Prefer: wait=0").receipt(202, "awaiting_approval", "never")
	}
}

func TestOutcomeUnknown(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	w.services.answer(answer(500, `{"error":"private"}`))
	for range 3 {
		got := a.call("mail", `{"id":1}`)
		r := got.receipt(202, "unknown", "never")
		if want := "The outcome of mail is unknown: it may already have happened. Do not repeat this action or send it in another form. Check GET /v1/receipts/" + *r.Key + "."; r.Advice != want {
			t.Errorf("advice: %s", r.Advice)
		}
		if r.Executions != 1 || r.Replayed {
			t.Errorf("%s", got.body)
		}
	}
	w.effects(1)
}

func TestWaitingForApproval(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	for range 3 {
		got := a.call("wire", `{"amount":10}`).receipt(202, "awaiting_approval", "never")
		if got.Executions != 0 || got.Fence != 1 || got.StartedAt != nil || got.Outcome != nil {
			t.Errorf("%+v", got)
		}
		a.get("/v1/receipts/" + *got.Key).read("awaiting_approval")
	}
	w.effects(0)
}

func TestNotAccepted(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	w.services.answer(inTurn(answer(422, `{"error":"no such invoice"}`), answer(200, `{"done":true}`)))
	first := a.call("mail", `{"id":1,"memo":"bad"}`)
	got := first.receipt(424, "rejected", "corrected")
	if got.Outcome.HTTPStatus != 422 || string(got.Outcome.Body) != `{"error":"no such invoice"}` || got.Executions != 1 {
		t.Errorf("%s", first.body)
	}
	again := a.call("mail", `{"id":1,"memo":"bad"}`)
	again.receipt(424, "rejected", "corrected")
	sameButReplayed(t, first, again)
	w.effects(1)
	corrected := a.call("mail", `{"id":1,"memo":"good"}`).completed()
	if *corrected.Key != *got.Key || corrected.Fence != 2 || corrected.Executions != 2 {
		t.Errorf("%+v", corrected)
	}
	w.effects(2)
}

func TestNotSentForNow(t *testing.T) {
	t.Parallel()
	t.Run("dial", func(t *testing.T) {
		t.Parallel()
		w, a := oneReplica(t)
		w.unreachable.Store(true)
		got := a.call("mail", `{"id":1}`).receipt(503, "rejected", "same_key")
		if got.Executions != 0 || got.Outcome != nil || got.SettledBy != "gateway" || got.Reason != "not sent: dial" {
			t.Errorf("%+v", got)
		}
		w.unreachable.Store(false)
		if now := a.call("mail", `{"id":1}`).completed(); *now.Key != *got.Key || now.Executions != 1 || now.Replayed {
			t.Errorf("%+v", now)
		}
		w.effects(1)
	})
	t.Run("store down before the effect", func(t *testing.T) {
		t.Parallel()
		w, a := oneReplica(t)
		w.storeDown(memstore.Begin)
		a.call("mail", `{"id":1}`).problem(503, "not_sent", "same_key")
		a.call("wire", `{"id":1}`).problem(503, "not_sent", "same_key")
		w.store.SetFault(nil)
		w.untouched(0, 0)
		a.call("mail", `{"id":1}`).completed()
	})
	t.Run("redis down", func(t *testing.T) {
		t.Parallel()
		w, a := oneReplica(t)
		w.redisDown(true)
		a.call("hot", `{"id":1}`).problem(503, "not_sent", "same_key")
		w.effects(0)
		a.call("mail", `{"id":1}`).completed() // the store alone is arbiter
		a.call("search", `{"q":"x"}`).receipt(200, "completed", "same_key")
		w.effects(1)
	})
	t.Run("redis and store down", func(t *testing.T) {
		t.Parallel()
		w, a := oneReplica(t)
		w.redisDown(true)
		w.storeDown(memstore.Begin, memstore.Get)
		a.call("mail", `{"id":1}`).problem(503, "not_sent", "same_key")
		w.effects(0)
	})
}

// The effect is done and known, the store is not to be had: the caller gets the result and
// is told that it is not durable yet.
func TestResultThatCannotBeStoredYet(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	w.storeDown(memstore.Settle)
	got := a.call("mail", `{"id":1}`).completed()
	if got.Durable || string(got.Outcome.Body) != `{"done":true}` {
		t.Errorf("%+v", got)
	}
	if again := a.call("mail", `{"id":1}`).completed(); !again.Replayed || again.Durable {
		t.Errorf("%+v", again)
	}
	a.get("/v1/receipts/" + *got.Key).read("completed")
	w.store.SetFault(nil)
	deadline, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for !a.get("/v1/receipts/" + *got.Key).read("completed").Durable {
		if deadline.Err() != nil {
			t.Fatal("the result was never stored")
		}
	}
	w.effects(1)
}

func TestSameKeyOtherArguments(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	w.services.answer(answer(200, `{"secret":"result"}`))
	key := *a.call("mail", `{"id":1,"memo":"lorem"}`).completed().Key
	got := a.call("mail", `{"id":1,"memo":"ipsum"}`)
	if p := got.problem(422, "idempotency_conflict", "never"); p.EarlierKey != key || !strings.Contains(p.Advice, key) {
		t.Errorf("%s", got.body)
	}
	got.hides("lorem", "ipsum", "secret")
	w.effects(1)
}

func TestSameSlotOtherKey(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	w.services.answer(answer(200, `{"secret":"result"}`))
	key := *a.call("mail", `{"id":1,"to":"Lorem@Example.com"}`).completed().Key
	got := a.call("mail", `{"id":1,"to":"ipsum@example.com"}`)
	if p := got.problem(409, "step_conflict", "never"); p.EarlierKey != key || !strings.Contains(p.Advice, key) {
		t.Errorf("%s", got.body)
	}
	got.hides("orem", "ipsum", "secret")
	w.effects(1)
}

func TestResultNoLongerRetained(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	key := *a.call("mail", `{"id":1}`).completed().Key
	if n, err := w.store.Expire(t.Context(), time.Now().Add(time.Hour), 10); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	w.forgetRedis()
	b := w.replica("b")
	for range 2 {
		got := b.call("mail", `{"id":1}`)
		if p := got.problem(410, "result_expired", "never"); p.EarlierKey != key {
			t.Errorf("%s", got.body)
		}
	}
	b.call("mail", `{"id":1,"memo":"x"}`).problem(422, "idempotency_conflict", "never")
	b.call("mail", `{"id":2}`).problem(409, "step_conflict", "never")
	if r := b.get("/v1/receipts/" + key).read("completed"); r.Outcome != nil {
		t.Errorf("%+v", r.Outcome)
	}
	w.effects(1)
}
