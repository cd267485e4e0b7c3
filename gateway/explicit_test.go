package gateway_test

import (
	"strings"
	"testing"
)

// The forms in which one explicit key may come.
func TestExplicitKey(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	first := *a.as(acme, "mail", `{"args":{"id":1}}`, "Idempotency-Key: k-1").completed().Key
	for name, got := range map[string]reply{
		"bare":                  a.as(acme, "mail", `{"args":{"id":1}}`, "Idempotency-Key: k-1"),
		"quoted":                a.as(acme, "mail", `{"args":{"id":1}}`, `Idempotency-Key: "k-1"`),
		"escaped":               a.as(acme, "mail", `{"args":{"id":1}}`, `idempotency-key:  "k-1" `),
		"in the body":           a.as(acme, "mail", `{"args":{"id":1},"idempotency_key":"k-1"}`),
		"in both":               a.as(acme, "mail", `{"args":{"id":1},"idempotency_key":"k-1"}`, `Idempotency-Key: "k-1"`),
		"run and step as label": a.as(acme, "mail", body("run_id", `"other"`, "step_id", `"9"`, "occurrence", "3"), "Idempotency-Key: k-1"),
	} {
		if r := got.completed(); *r.Key != first || !r.Replayed {
			t.Errorf("%s: %s", name, got.body)
		}
	}
	w.effects(1)

	// All arguments go to the fingerprint, and nothing but the key is guarded.
	if p := a.as(acme, "mail", `{"args":{"id":2}}`, "Idempotency-Key: k-1").problem(422, "idempotency_conflict", "never"); p.EarlierKey != first {
		t.Errorf("%+v", p)
	}
	w.effects(1)
	for _, other := range []reply{
		a.as(acme, "mail", body(), "Idempotency-Key: k-2"), // same run, step and arguments: another intention
		a.as(acme, "put", `{"args":{"id":1}}`, "Idempotency-Key: k-1"),
		a.as(acme, "mail", body()), // without the key: the step's own
		a.as(globex, "mail", `{"args":{"id":1}}`, "Idempotency-Key: k-1"),
		a.as(acme, "mail", `{"args":{"id":1}}`, "Idempotency-Key: K-1"),
	} {
		if r := other.completed(); *r.Key == first || r.Replayed {
			t.Errorf("%s", other.body)
		}
	}
	w.effects(6)
}

func TestExplicitKeyOfAnyVisibleASCII(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	quoted := []byte{'"'}
	for c := byte('!'); c <= '~'; c++ {
		if c == '"' || c == '\\' {
			quoted = append(quoted, '\\')
		}
		quoted = append(quoted, c)
	}
	quoted = append(quoted, '"')
	key := *a.as(acme, "mail", `{"args":{"id":1}}`, "Idempotency-Key: "+string(quoted)).completed().Key
	if got := a.as(acme, "mail", `{"args":{"id":1},"idempotency_key":`+string(quoted)+`}`).completed(); *got.Key != key || !got.Replayed {
		t.Errorf("%+v", got)
	}
	longest := strings.Repeat("k", 255)
	a.as(acme, "mail", `{"args":{"id":2}}`, "Idempotency-Key: "+longest).completed()
	w.effects(2)
}

func TestMalformedExplicitKey(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	for _, headers := range [][]string{
		{"Idempotency-Key: "},
		{`Idempotency-Key: ""`},
		{`Idempotency-Key: "open`},
		{`Idempotency-Key: "a" b`},
		{`Idempotency-Key: "a"b"`},
		{`Idempotency-Key: "a\b"`},
		{`Idempotency-Key: "a\`},
		{`Idempotency-Key: "a";p=1`},
		{`Idempotency-Key: "a b"`},
		{"Idempotency-Key: a b"},
		{"Idempotency-Key: a\tb"},
		{"Idempotency-Key: ké"},
		{"Idempotency-Key: k\xff"},
		{"Idempotency-Key: " + strings.Repeat("k", 256)},
		{`Idempotency-Key: "` + strings.Repeat("k", 256) + `"`},
		{"Idempotency-Key: a", "Idempotency-Key: b"},
		{"Idempotency-Key: a", "Idempotency-Key: a"},
	} {
		for _, tool := range []string{"mail", "wire", "search"} {
			a.as(acme, tool, body(), headers...).problem(400, "bad_request", "corrected")
		}
	}
	for header, inBody := range map[string]string{"a": "b", `"a"`: `\"a\"`, "k": "K"} {
		a.as(acme, "mail", `{"args":{"id":1},"idempotency_key":"`+inBody+`"}`, "Idempotency-Key: "+header).problem(400, "bad_request", "corrected")
	}
	w.untouched(0, 0)
}

// What a changed mind looks like, in the order in which an agent would try.
func TestChangedMinds(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"mail", "hot"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			w, a := oneReplica(t)
			b := w.replica("b")
			w.services.answer(inTurn(answer(400, `{}`), answer(200, `{}`)))
			call := func(r *replica, step, args, occurrence string) reply {
				return r.as(acme, tool, body("step_id", step, "args", args, "occurrence", occurrence))
			}
			refused := call(a, `"1"`, `{"id":1,"memo":"x"}`, "0").receipt(424, "rejected", "corrected")

			// Rejected: a corrected call runs, also under another identity, on any replica.
			done := call(b, `"1"`, `{"id":2,"memo":"x"}`, "0").completed()
			if *done.Key == *refused.Key {
				t.Error("the same key")
			}
			w.effects(2)
			for _, r := range []*replica{a, b} {
				for _, earlier := range []problem{
					call(r, `"1"`, `{"id":2,"memo":"y"}`, "0").problem(422, "idempotency_conflict", "never"),
					call(r, `"1"`, `{"id":3,"memo":"x"}`, "0").problem(409, "step_conflict", "never"),
					call(r, `"1"`, `{"id":1,"memo":"y"}`, "0").problem(409, "step_conflict", "never"),
				} {
					if earlier.EarlierKey != *done.Key {
						t.Errorf("%+v", earlier)
					}
				}
			}
			w.effects(2)

			// A genuine second action, and the same one in another step.
			second := call(a, `"1"`, `{"id":2,"memo":"x"}`, "1").completed()
			if second.Occurrence != 1 || second.Replayed || *second.Key == *done.Key {
				t.Errorf("%+v", second)
			}
			call(b, `"2"`, `{"id":2,"memo":"x"}`, "0").completed()
			w.effects(4)
			if again := call(b, `"1"`, `{"id":2,"memo":"x"}`, "1").completed(); !again.Replayed || *again.Key != *second.Key {
				t.Errorf("%+v", again)
			}
			w.effects(4)
		})
	}
}

// A tool whose step is not guarded acts once per key, as often as there are keys.
func TestUnguardedStep(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	for range 2 {
		a.call("put", `{"id":1}`).completed()
		a.call("put", `{"id":2}`).completed()
	}
	w.effects(2)
}
