package gateway_test

import (
	"fmt"
	"strings"
	"testing"
)

// body is a whole request body for acme, with members replaced or left out ("-").
func body(members ...string) string {
	all := map[string]string{"run_id": `"run"`, "step_id": `"1"`, "args": `{"id":1}`}
	for i := 0; i < len(members); i += 2 {
		all[members[i]] = members[i+1]
	}
	var b []string
	for name, value := range all {
		if value != "-" {
			b = append(b, fmt.Sprintf("%q:%s", name, value))
		}
	}
	return "{" + strings.Join(b, ",") + "}"
}

// Pairs of calls that must be two intentions, and pairs that must be one.
func TestWhatMakesAKey(t *testing.T) {
	t.Parallel()
	ids := func(run, step string) string { return body("run_id", run, "step_id", step) }
	args := func(a string) string { return body("args", a) }
	for _, c := range []struct {
		name, tool, one, other string
		same                   bool
	}{
		{"field boundaries", "put", ids(`"a:b"`, `"c"`), ids(`"a"`, `"b:c"`), false},
		{"run and step swapped", "put", ids(`"a"`, `"b"`), ids(`"b"`, `"a"`), false},
		{"occurrence is not part of the step", "put", ids(`"a"`, `"1"`), body("run_id", `"a"`, "step_id", `""`, "occurrence", "1"), false},
		{"integers beyond 2^53", "put", args(`{"id":9007199254740992}`), args(`{"id":9007199254740993}`), false},
		{"64-bit integers", "put", args(`{"id":18446744073709551615}`), args(`{"id":18446744073709551614}`), false},
		{"1 and 1.0", "put", args(`{"id":1}`), args(`{"id":1.0}`), true},
		{"100 and 1e2", "put", args(`{"id":100}`), args(`{"id":1E+2}`), true},
		{"0 and -0", "put", args(`{"id":0}`), args(`{"id":-0.0}`), true},
		{"1 and \"1\"", "put", args(`{"id":1}`), args(`{"id":"1"}`), false},
		{"member order", "put", args(`{"id":1,"b":{"x":1,"y":2}}`), args(`{ "b" : {"y":2,"x":1}, "id":1 }`), true},
		{"array order", "put", args(`{"id":[1,2]}`), args(`{"id":[2,1]}`), false},
		{"absent and null", "put", args(`{"id":1}`), args(`{"id":1,"memo":null}`), false},
		{"escapes", "put", args(`{"id":"a\u00e9\/"}`), args(`{"id":"aé/"}`), true},
		{"surrogate pair", "put", args(`{"id":"\ud83d\ude00"}`), args(`{"id":"😀"}`), true},
		{"Unicode is not normalised", "put", args(`{"id":"\u00e9"}`), args(`{"id":"e\u0301"}`), false},
		{"normalised where the tool asks", "mail", args(`{"id":1,"to":" A@Example.com"}`), args(`{"id":1,"to":"a@example.com "}`), true},
		{"volatile arguments", "mail", args(`{"id":1,"at":"now"}`), args(`{"id":1,"at":"later"}`), true},
		{"another occurrence", "mail", body(), body("occurrence", "1"), false},
		{"occurrence 0 is the default", "mail", body(), body("occurrence", "0"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, a := oneReplica(t)
			one, other := a.as(acme, c.tool, c.one), a.as(acme, c.tool, c.other)
			if strings.Contains(c.other, `""`) { // an empty step is no step
				other.problem(400, "bad_request", "corrected")
				w.effects(1)
				return
			}
			k1, k2 := *one.completed().Key, *other.completed().Key
			if (k1 == k2) != c.same || other.completed().Replayed != c.same {
				t.Errorf("keys %s and %s: %s", k1, k2, other.body)
			}
			w.effects(map[bool]int{true: 1, false: 2}[c.same])
		})
	}
}

func TestNumbersReachTheDownstreamAsWritten(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	const args = `{"id":9007199254740993,"x":1.10,"y":1E400,"z":-0}`
	if got := a.call("put", args).completed(); string(got.Intent.Args) != args {
		t.Errorf("intent.args %s", got.Intent.Args)
	}
	if e := w.services.entries(); len(e) != 1 || e[0].body != args {
		t.Errorf("sent %+v", e)
	}
}

func TestMalformedBodies(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	long := `"` + strings.Repeat("x", 256) + `"`
	for name, b := range map[string]string{
		"empty":                      " ",
		"no JSON":                    "run_id=run",
		"cut short":                  `{"run_id":"run","step_id":"1","args":{"id":1}`,
		"two values":                 body() + body(),
		"byte order mark":            "\ufeff" + body(),
		"trailing comma":             `{"run_id":"run","step_id":"1","args":{"id":1,}}`,
		"NaN":                        body("args", `{"id":NaN}`),
		"leading zero":               body("args", `{"id":01}`),
		"array":                      `[` + body() + `]`,
		"null":                       `null`,
		"duplicate member":           `{"run_id":"run","run_id":"run","step_id":"1","args":{"id":1}}`,
		"duplicate argument":         body("args", `{"id":1,"id":1}`),
		"duplicate by escape":        body("args", `{"id":1,"\u0069d":2}`),
		"duplicate inside":           body("args", `{"id":{"a":[{"b":1,"b":2}]}}`),
		"bad UTF-8 in a value":       body("args", "{\"id\":\"a\xffb\"}"),
		"bad UTF-8 in a name":        body("args", "{\"\xc3\":1}"),
		"overlong UTF-8":             body("args", "{\"id\":\"\xc0\xaf\"}"),
		"UTF-8 surrogate":            body("args", "{\"id\":\"\xed\xa0\x80\"}"),
		"lone high surrogate":        body("args", `{"id":"\ud800"}`),
		"lone low surrogate":         body("args", `{"id":"\udc00x"}`),
		"reversed surrogates":        body("args", `{"id":"\udc00\ud800"}`),
		"raw control character":      body("args", "{\"id\":\"a\nb\"}"),
		"too deep":                   body("args", `{"id":`+strings.Repeat("[", 1000)+strings.Repeat("]", 1000)+`}`),
		"NUL in run_id":              body("run_id", `"a\u0000b"`),
		"newline in run_id":          body("run_id", `"a\nb"`),
		"NUL in step_id":             body("step_id", `"\u0000"`),
		"newline in step_id":         body("step_id", `"1\r\n"`),
		"C1 control in step_id":      body("step_id", `"\u0085"`),
		"run_id too long":            body("run_id", long),
		"step_id too long":           body("step_id", long),
		"run_id empty":               body("run_id", `""`),
		"run_id a number":            body("run_id", `42`),
		"step_id a number":           body("step_id", `7`),
		"run_id null":                body("run_id", `null`),
		"args a string":              body("args", `"{}"`),
		"args an array":              body("args", `[1]`),
		"args null":                  body("args", `null`),
		"occurrence negative":        body("occurrence", `-1`),
		"occurrence a fraction":      body("occurrence", `1.5`),
		"occurrence a string":        body("occurrence", `"1"`),
		"occurrence null":            body("occurrence", `null`),
		"occurrence huge":            body("occurrence", `4294967296`),
		"unknown member":             body("ocurrence", `1`),
		"tenant in the body":         body("tenant", `"globex"`),
		"idempotency_key a number":   body("idempotency_key", `1`),
		"idempotency_key empty":      body("idempotency_key", `""`),
		"idempotency_key with space": body("idempotency_key", `"a b"`),
		"idempotency_key too long":   body("idempotency_key", `"`+strings.Repeat("k", 256)+`"`),
		"idempotency_key not ASCII":  body("idempotency_key", `"ké"`),
	} {
		for _, tool := range []string{"mail", "put", "wire", "search"} {
			got := a.as(acme, tool, b)
			if got.code != 400 {
				t.Errorf("%s: HTTP %d: %s", name, got.code, got.body)
				continue
			}
			got.problem(400, "bad_request", "corrected")
		}
	}
	w.untouched(0, 0)
	if n := w.services.read(); n != 0 {
		t.Errorf("%d reads", n)
	}
}

func TestArgumentsAgainstTheSchema(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	for args, pointer := range map[string]string{
		`{}`:                          "/id",
		`{"id":1,"memo":7}`:           "/memo",
		`{"id":1,"to":{"a":"tell"}}`:  "/to",
		`{"id":1,"memo":["tell me"]}`: "/memo",
	} {
		got := a.call("mail", args)
		if p := got.problem(400, "invalid_arguments", "corrected"); p.Pointer != pointer || !strings.Contains(p.Detail, pointer) {
			t.Errorf("%s: %s", args, got.body)
		}
		got.hides("tell")
	}
	// The arguments of a template must fit it too; and what counts is the normalised form,
	// for that is what is sent.
	for _, name := range []string{`null`, `{}`, `".."`, `""`, `"  "`, `" .. "`, `"a/../b"`, `"a\u0000"`} {
		got := a.call("label", `{"name":`+name+`}`)
		if p := got.problem(400, "invalid_arguments", "corrected"); p.Pointer != "/name" {
			t.Errorf("%s: %s", name, got.body)
		}
	}
	w.untouched(0, 0)
	key := *a.call("label", `{"name":"a b/c?d#e%2F"}`).completed().Key
	if e := w.services.entries(); len(e) != 1 || e[0].tool != "label/run/1/a%20b%2Fc%3Fd%23e%252F" || e[0].query != "key="+key {
		t.Errorf("sent %+v", e)
	}
}

func TestWhoNamesTheIntention(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	for _, tool := range []string{"mail", "put", "wire", "hot"} {
		a.as(acme, tool, body("run_id", "-")).problem(400, "idempotency_key_required", "corrected")
		a.as(acme, tool, body("step_id", "-")).problem(400, "idempotency_key_required", "corrected")
		a.as(acme, tool, `{"args":{"id":1}}`).problem(400, "idempotency_key_required", "corrected")
		a.as(acme, tool, `{"args":{"id":1}}`, "X-Idempotency-Key: k").problem(400, "idempotency_key_required", "corrected")
	}
	// A template that sends the run along needs one, also with an explicit key.
	a.as(acme, "label", `{"args":{"name":"x"}}`, "Idempotency-Key: k").problem(400, "idempotency_key_required", "corrected")
	a.as(acme, "label", `{"run_id":"r","args":{"name":"x"}}`, "Idempotency-Key: k").problem(400, "idempotency_key_required", "corrected")
	w.untouched(0, 0)
	a.as(acme, "search", `{"args":{"q":"x"}}`).receipt(200, "completed", "same_key")
	a.as(acme, "mail", `{"args":{"id":1}}`, "Idempotency-Key: k").completed()
}

func TestRequestsThatAreNoCalls(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	a.call("nothing", `{}`).problem(404, "not_found", "corrected")
	a.call("mail%2Fx", `{}`).problem(404, "not_found", "corrected")
	a.do("POST", a.agents.URL+"/v1/tools/mail/calls/", acme, body()).problem(404, "not_found", "corrected")
	a.do("POST", a.agents.URL+"/v2/tools/mail/calls", acme, body()).problem(404, "not_found", "corrected")
	a.do("PUT", a.agents.URL+"/v1/tools/mail/calls", acme, body()).problem(405, "method_not_allowed", "corrected")
	if got := a.get("/v1/tools/mail/calls"); got.problem(405, "method_not_allowed", "corrected").Code == "" || got.header.Get("Allow") != "POST" {
		t.Errorf("Allow: %s", got.header.Get("Allow"))
	}
	for _, media := range []string{"-", "text/plain", "text/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
		"application/json; charset=utf-16", "application/jsonp", "nonsense;;", "*/*"} {
		a.as(acme, "mail", body(), "Content-Type: "+media).problem(415, "unsupported_media_type", "corrected")
	}
	a.as(acme, "mail", body(), "Content-Encoding: gzip").problem(415, "unsupported_media_type", "corrected")
	padded := func(n int) string { b := body(); return b + strings.Repeat(" ", n-len(b)) }
	a.as(acme, "mail", padded(bodyCap+1)).problem(413, "too_large", "corrected")
	a.as(acme, "mail", padded(bodyCap*20)).problem(413, "too_large", "corrected")
	w.untouched(0, 0)
	a.as(acme, "mail", padded(bodyCap), "Content-Type: application/vnd.call+json; charset=UTF-8").completed()
}

func TestMalformedPreferIsIgnored(t *testing.T) {
	t.Parallel()
	_, a := oneReplica(t)
	for _, value := range []string{"wait", "wait=", "wait=-1", "wait=1.5", "wait=x", "wait==1", "respond-async", ",;=", `wait="`} {
		got := a.call("mail", `{"id":1}`, "Prefer: "+value)
		got.completed()
		got.headers(map[string]string{"Preference-Applied": ""})
	}
	for value, applied := range map[string]string{"wait=7": "wait=7", `respond-async, Wait="7";x=y`: "wait=7", "wait=3600": "wait=20", "wait=99999999999999999999": "wait=20"} {
		got := a.call("mail", `{"id":1}`, "Prefer: "+value)
		got.completed()
		got.headers(map[string]string{"Preference-Applied": applied})
	}
	// A read is waited for in any case; what was not applied is not claimed.
	a.call("search", `{"q":"x"}`, "Prefer: wait=7").headers(map[string]string{"Preference-Applied": ""})
}
