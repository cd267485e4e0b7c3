package gateway_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

const card = "4111222233334444"

// A redacted argument reaches the downstream and nobody else: no answer, no row, no record
// in Redis, no log line holds it, whatever becomes of the call.
func TestRedactedArguments(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	b := w.replica("b")
	var seen []reply
	step := 0
	charge := func(r *replica, args string, headers ...string) reply {
		t.Helper()
		got := r.as(acme, "charge", body("step_id", fmt.Sprintf(`"%d"`, step), "args", args), headers...)
		seen = append(seen, got)
		return got
	}
	next := func() { step++ }
	args := `{"order":7,"card_number":"` + card + `","memo":"gift"}`

	// completed, replayed, mismatch, step conflict
	key := *charge(a, args).completed().Key
	charge(a, args).completed()
	charge(b, args).completed()
	charge(b, `{"order":7,"card_number":"`+card+`","memo":"other"}`).problem(422, "idempotency_conflict", "never")
	charge(b, `{"order":7,"card_number":"`+card[1:]+`9","memo":"gift"}`).problem(409, "step_conflict", "never")
	// other forms of the same secret
	next()
	charge(a, `{"order":7,"card_number":`+card+`}`).completed()
	next()
	charge(a, `{"order":7,"card_number":{"pan":"`+card+`","digits":["`+card+`"]}}`).completed()
	next()
	charge(a, args, "Idempotency-Key: k").completed()
	// rejected, unknown, not sent
	next()
	w.services.answer(answer(402, `{}`))
	charge(a, args).receipt(424, "rejected", "corrected")
	next()
	w.services.answer(reset)
	charge(a, args).receipt(202, "unknown", "never")
	next()
	w.unreachable.Store(true)
	charge(a, args).receipt(503, "rejected", "same_key")
	next()
	// refused before anything is done
	for _, malformed := range []string{
		args[1:], args + args, `{"card_number":"` + card + `","card_number":"` + card + `"}`, `["` + card + `"]`, `"` + card + `"`, card, card + "e", `{"order":` + card + "." + `}`,
	} {
		charge(a, malformed).problem(400, "bad_request", "corrected")
	}
	seen = append(seen, a.as(acme, "search", `{"args":{"q":"x","card_number":"`+card+`"}}`))

	seen = append(seen, a.get("/v1/receipts"), a.get("/v1/receipts/"+key), a.get("/v1/receipts/"+key+"/attempts"), a.get("/v1/receipts?q="+card))
	for _, got := range seen {
		got.hides(card[1:])
	}
	if keys, _ := a.get("/v1/receipts?q=" + card).list(); len(keys) != 0 {
		t.Errorf("a redacted argument can be searched for: %v", keys)
	}
	if got := a.get("/v1/receipts/" + key).read("completed"); string(got.Intent.Args) != `{"order":7,"card_number":"[redacted]","memo":"gift"}` {
		t.Errorf("%s", got.Intent.Args)
	}
	for _, row := range w.rows() {
		if bytes.Contains(row.Encode(), []byte(card[1:])) {
			t.Errorf("a row holds it: %s", row.Args)
		}
		if rec, err := w.lock.Get(t.Context(), row.Guard); err == nil && bytes.Contains(rec.Receipt, []byte(card[1:])) {
			t.Errorf("redis holds it: %s", rec.Receipt)
		}
	}
	if log := w.log.String(); strings.Contains(log, card[1:]) || !strings.Contains(log, `"decision":"mismatch"`) {
		t.Errorf("log: %s", log)
	}
	if e := w.services.entries(); len(e) != 6 || e[0].body != args {
		t.Errorf("sent %+v", e)
	}
}

// One line per call, with constant names; no argument, no result, and no more of a key than
// its first eight digits.
func TestLogLines(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	w.services.answer(answer(200, `{"result":"confidential"}`))
	key := *a.call("mail", `{"id":1,"memo":"whispered"}`, "Idempotency-Key: spoken", "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").completed().Key
	a.call("mail", `{"id":1,"memo":"muttered"}`, "Idempotency-Key: spoken").problem(422, "idempotency_conflict", "never")
	a.call("search", `{"q":"whispered"}`)
	a.call("nothing", `{"q":"whispered"}`)
	log := w.log.String()
	for _, secret := range []string{"confidential", "whispered", "muttered", "spoken", key[:9], acme + `"}`, "Bearer", "downstream-token"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log holds %q: %s", secret, log)
		}
	}
	for _, there := range []string{
		`"msg":"call","tool":"mail","class":"effectful","decision":"executed","status":"completed","http_status":200`, `"duration_ms":`, `"steps_ms":{"claim":`, `"trace_id":"0af7651916cd43dd8448eb211c80319c"`,
		`"tenant":"acme"`, `"credential":"id-of-acme-agent"`, `"key":"` + key[:8] + `"`, `"decision":"mismatch","http_status":422,"code":"idempotency_conflict"`,
	} {
		if !strings.Contains(log, there) {
			t.Errorf("no %s in the log: %s", there, log)
		}
	}
	if n := strings.Count(log, `"msg":"call"`); n != 4 {
		t.Errorf("%d lines for 4 calls: %s", n, log)
	}
}
