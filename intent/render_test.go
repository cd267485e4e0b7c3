package intent_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	. "github.com/latchkey-gateway/latchkey/intent"
)

// example is CONTRACT.md's receipt: the names, and their order.
const example = `{"key":"<64 hex>","tool":"send_invoice_email","class":"effectful","tenant":"acme","run_id":"run-42","step_id":"7","occurrence":0,
 "status":"completed","replayed":false,"durable":true,"retry":"never","advice":"",
 "outcome":{"http_status":200,"headers":{"content-type":"application/json"},"body":{"id":"em_1"}},
 "intent":{"args":{"invoice_id":"inv-1"},"fingerprint":"sha256:<hex>"},
 "attempts":1,"executions":1,"fence":1,
 "created_at":"...","started_at":"...","settled_at":"...","unknown_since":null,"settled_by":"downstream","reason":"","evidence":null,
 "trace_id":"<32 hex>","links":{"self":"/v1/receipts/<key>","attempts":"/v1/receipts/<key>/attempts"}}`

const (
	keyHex = "0100000000000000000000000000000000000000000000000000000000000000"
	fpHex  = "0300000000000000000000000000000000000000000000000000000000000000"
	trace  = "4bf92f3577b34da6a3ce929d0e0e4736"
)

// shown is a receipt as the example has it, in the given status.
func shown(s Status) Receipt {
	r := at(s, 1)
	r.Tool, r.RunID, r.StepID, r.Args = "send_invoice_email", "run-42", "7", []byte(`{"invoice_id":"inv-1"}`)
	r.Attempts, r.Durable, r.Traceparent = 1, true, "00-"+trace+"-00f067aa0ba902b7-01"
	switch s {
	case AwaitingApproval:
		r.Recovery = Recovery{}
	case Unknown:
		r.Recovery = Recovery{}
	case Completed:
		r.Outcome = &Outcome{HTTPStatus: 200, Headers: map[string]string{"content-type": "application/json"}, Body: []byte(`{"id":"em_1"}`)}
	case Rejected:
		r.Reason, r.Outcome = "answered 422", &Outcome{HTTPStatus: 422, Headers: map[string]string{"x-b": "2", "x-a": "1\""}, Body: []byte("no such invoice\n")}
	}
	return r
}

// names lists an object's member names in order, with those of the objects inside.
func names(v Value) (list []string) {
	for _, m := range v.Members() {
		list = append(list, m.Name)
		if m.Name == "outcome" || m.Name == "intent" || m.Name == "links" {
			list = append(list, fmt.Sprint(names(m.Value)))
		}
	}
	return list
}

func TestReceiptsNamesAreTheContracts(t *testing.T) {
	t.Parallel()
	r := shown(Completed)
	got, want := names(parse(t, string(r.AppendJSON(nil, false)))), names(parse(t, example))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("shown\n%v, want\n%v", got, want)
	}
}

// TestGoldenReceipts fixes every byte of a receipt in every status.
func TestGoldenReceipts(t *testing.T) {
	t.Parallel()
	const (
		head     = `{"key":"` + keyHex + `","tool":"send_invoice_email","class":"effectful","tenant":"acme","run_id":"run-42","step_id":"7","occurrence":0,`
		intended = `"intent":{"args":{"invoice_id":"inv-1"},"fingerprint":"sha256:` + fpHex + `"},"attempts":1,"executions":1,"fence":1,"created_at":"2026-03-01T12:00:00Z","started_at":"2026-03-01T12:00:00Z",`
		tail     = `"evidence":null,"trace_id":"` + trace + `","links":{"self":"/v1/receipts/` + keyHex + `","attempts":"/v1/receipts/` + keyHex + `/attempts"}}`
		check    = ` Check GET /v1/receipts/` + keyHex + `."`
	)
	tests := map[Status]string{
		AwaitingApproval: head + `"status":"awaiting_approval","replayed":false,"durable":true,"retry":"never","advice":"send_invoice_email has not been done yet: a person must approve these exact arguments first. Do not repeat this action or send it in another form.` + check + `,"outcome":null,` +
			`"intent":{"args":{"invoice_id":"inv-1"},"fingerprint":"sha256:` + fpHex + `"},"attempts":1,"executions":0,"fence":1,"created_at":"2026-03-01T12:00:00Z","started_at":null,` +
			`"settled_at":null,"unknown_since":null,"settled_by":"","reason":"",` + tail,
		Started: head + `"status":"started","replayed":false,"durable":true,"retry":"same_key","advice":"send_invoice_email is still running; its result is not known yet. Do not report it as done and do not send it in another form; the same call again will be joined to this one.` + check + `,"outcome":null,` +
			intended + `"settled_at":null,"unknown_since":null,"settled_by":"","reason":"",` + tail,
		Unknown: head + `"status":"unknown","replayed":false,"durable":true,"retry":"never","advice":"The outcome of send_invoice_email is unknown: it may already have happened. Do not repeat this action or send it in another form.` + check + `,"outcome":null,` +
			intended + `"settled_at":null,"unknown_since":"2026-03-01T12:00:01Z","settled_by":"","reason":"timeout",` + tail,
		Completed: head + `"status":"completed","replayed":false,"durable":true,"retry":"never","advice":"","outcome":{"http_status":200,"headers":{"content-type":"application/json"},"body":{"id":"em_1"}},` +
			intended + `"settled_at":"2026-03-01T12:00:01Z","unknown_since":null,"settled_by":"downstream","reason":"",` + tail,
		Rejected: head + `"status":"rejected","replayed":false,"durable":true,"retry":"corrected","advice":"send_invoice_email was not accepted and did not happen. The same call would be refused again; correct the arguments before you call it again.",` +
			`"outcome":{"http_status":422,"headers":{"x-a":"1\"","x-b":"2"},"body_text":"no such invoice\n"},` +
			intended + `"settled_at":"2026-03-01T12:00:01Z","unknown_since":null,"settled_by":"downstream","reason":"answered 422",` + tail,
	}
	for _, status := range statuses {
		r := shown(status)
		if got := string(r.AppendJSON(nil, false)); got != tests[status] {
			t.Errorf("%v is\n%s, want\n%s", status, got, tests[status])
		}
		replay := string(r.AppendJSON([]byte("kept"), true))
		if want := "kept" + strings.Replace(tests[status], `"replayed":false`, `"replayed":true`, 1); replay != want {
			t.Errorf("a replay differs in more than replayed:\n%s, want\n%s", replay, want)
		}
	}
}

// TestRecoveryIsShownWhenThereIsSome: a receipt that only completes is not longer for it.
func TestRecoveryIsShownWhenThereIsSome(t *testing.T) {
	t.Parallel()
	const empty = `{"checks":0,"next_check_at":null,"parked":"","doubt":"","approved_by":[]}`
	with := func(old, new string) string { return strings.Replace(empty, old, new, 1) }
	for want, c := range map[string]Recovery{
		"":                               {Plan: Plan{NotifyAt: epoch}, Notices: 3}, // when people are told is no caller's business
		with(`"checks":0`, `"checks":7`): {Checks: 7},
		with(`"next_check_at":null`, `"next_check_at":"2026-03-01T12:00:00.5Z"`): {Plan: Plan{NextCheck: epoch.Add(time.Second / 2)}},
		with(`"parked":""`, `"parked":"gave_up"`):                                {Plan: Plan{Parked: ParkedGaveUp}},
		with(`"doubt":""`, `"doubt":"possible_double"`):                          {Doubt: DoubtLateAnswer},
		with(`"approved_by":[]`, `"approved_by":["ann","\"\u003cü"]`):            {ApprovedBy: []string{"ann", `"<ü`}},
	} {
		r := shown(Unknown)
		r.Recovery = c
		out := string(r.AppendJSON(nil, false))
		_, got, found := strings.Cut(out, `,"recovery":`)
		got, _, _ = strings.Cut(got, `,"links":`)
		if !json.Valid([]byte(out)) || found != (want != "") || !sameJSON(got, want) {
			t.Errorf("%+v is shown as %s, want %s", c, got, want)
		}
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	return a == b || json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// TestReadOnlyReceipt: the same envelope without a key, for nothing is kept.
func TestReadOnlyReceipt(t *testing.T) {
	t.Parallel()
	r := shown(Completed)
	r.Key, r.Class = Key{}, ReadOnly
	v := parse(t, string(r.AppendJSON(nil, false)))
	for name, want := range map[string]string{"key": "null", "retry": `"same_key"`, "links": "{}", "status": `"completed"`} {
		if got := string(v.Member(name).AppendJSON(nil)); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func TestOutcomeBodies(t *testing.T) {
	t.Parallel()
	png := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
	deep := strings.Repeat("[", 9999) + strings.Repeat("]", 9999)
	tests := []struct {
		why, media, body, want string // want follows `"headers":{...}`
	}{
		{"exact numbers", "application/json", `{"id":9007199254740993,"x":1.50,"y":-0,"z":1E400}`, `,"body":{"id":9007199254740993,"x":1.50,"y":-0,"z":1E400}`},
		{"as sent, members twice and all", "application/json; charset=utf-8", "\n{ \"a\" : 1, \"a\" : 2 }\r\n", `,"body":{ "a" : 1, "a" : 2 }`},
		{"null", "application/json", `null`, `,"body":null`},
		{"zero", "application/json", `0`, `,"body":0`},
		{"empty string", "application/json", `""`, `,"body":""`},
		{"a media type of its own", "Application/Problem+JSON", `{}`, `,"body":{}`},
		{"no media type", "", `[]`, `,"body":[]`},
		{"empty", "application/json", "", ""},
		{"204", "", "", ""},
		{"text", "text/plain", `{"a":1}`, `,"body_text":"{\"a\":1}"`},
		{"text that is no JSON", "application/json", "oops", `,"body_text":"oops"`},
		{"text with a NUL", "text/plain", "a\x00b", `,"body_text":"a\u0000b"`},
		{"white space", "application/json", " \n", `,"body_text":" \n"`},
		{"half an object", "application/json", `{"a":`, `,"body_text":"{\"a\":"`},
		{"two values", "application/x+json", `{} {}`, `,"body_text":"{} {}"`},
		{"BOM", "application/json", "\ufeff{}", ",\"body_text\":\"\ufeff{}\""},
		{"PNG", "image/png", string(png), `,"body_base64":"` + base64.StdEncoding.EncodeToString(png) + `"`},
		{"JSON of bad UTF-8", "application/json", "{\"a\":\"\xff\"}", `,"body_base64":"` + base64.StdEncoding.EncodeToString([]byte("{\"a\":\"\xff\"}")) + `"`},
		{"nested as deep as we read", "", nested(MaxDepth), `,"body":` + nested(MaxDepth)},
		{"brackets in strings", "", `["\"` + strings.Repeat("[{", 200) + `\\"]`, `,"body":["\"` + strings.Repeat("[{", 200) + `\\"]`},
		{"nested deeper than readers like", "application/json", deep, `,"body_text":"` + deep + `"`},
	}
	for _, test := range tests {
		r := shown(Completed)
		r.Outcome = &Outcome{HTTPStatus: 200, Body: []byte(test.body)}
		if test.media != "" {
			r.Outcome.Headers = map[string]string{"content-type": test.media}
		}
		out := r.AppendJSON(nil, false)
		_, rest, _ := bytes.Cut(out, []byte(`"outcome":{"http_status":200,"headers":{`))
		_, rest, _ = bytes.Cut(rest, []byte("}"))
		got, _, _ := bytes.Cut(rest, []byte(`},"intent":{`))
		if string(got) != test.want || !json.Valid(out) {
			t.Errorf("%s: %.200s, want %.200s (valid: %v)", test.why, got, test.want, json.Valid(out))
		}
	}
	r := shown(Completed)
	r.Outcome = &Outcome{HTTPStatus: 200, Headers: map[string]string{"content-type": "application/json"}, Truncated: true, Length: 10 << 20, SHA256: "ab"}
	if out := string(r.AppendJSON(nil, false)); !strings.Contains(out, `"body":{"truncated":true,"length":10485760,"sha256":"ab"}},"intent"`) {
		t.Errorf("over the cap: %s", out)
	}
}

// TestReceiptsAreAlwaysJSON: whatever ids, headers and bodies hold, a receipt is one JSON
// object of valid UTF-8, and a body can be had back from it byte for byte.
func TestReceiptsAreAlwaysJSON(t *testing.T) {
	t.Parallel()
	anything := rapid.Custom(func(t *rapid.T) string {
		return string(rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "bytes"))
	})
	text := rapid.OneOf(rapid.String(), anything)
	rapid.Check(t, func(t *rapid.T) {
		r := shown(rapid.SampledFrom(statuses).Draw(t, "status"))
		for name, field := range map[string]*string{"tool": &r.Tool, "tenant": &r.Tenant, "run": &r.RunID, "step": &r.StepID,
			"reason": &r.Reason, "by": &r.SettledBy, "trace": &r.Traceparent} {
			*field = text.Draw(t, name)
		}
		r.Args = parse(t, pairs().Draw(t, "args").a).AppendJSON(nil)
		if rapid.Bool().Draw(t, "evidence") {
			r.Evidence = []byte(pairs().Draw(t, "evidence").a)
		}
		body := rapid.OneOf(text, rapid.Map(pairs(), func(p spelled) string { return p.a })).Draw(t, "body")
		r.Outcome = &Outcome{HTTPStatus: 200, Headers: rapid.MapOfN(text, text, 0, 3).Draw(t, "headers"), Body: []byte(body)}
		if media := rapid.SampledFrom([]string{"", "application/json", "text/plain"}).Draw(t, "media"); media != "" {
			r.Outcome.Headers["content-type"] = media
		}
		out := r.AppendJSON(nil, true)
		var back struct {
			Outcome struct {
				Body   json.RawMessage `json:"body"`
				Text   string          `json:"body_text"`
				Base64 []byte          `json:"body_base64"`
			} `json:"outcome"`
		}
		if err := json.Unmarshal(out, &back); err != nil || !utf8.Valid(out) {
			t.Fatalf("%v (valid UTF-8: %v)\n%s", err, utf8.Valid(out), out)
		}
		got := string(back.Outcome.Body) + back.Outcome.Text + string(back.Outcome.Base64)
		if got != body && got != strings.TrimSpace(body) {
			t.Fatalf("body %q came back as %q", body, got)
		}
	})
}

// TestAdvice: it says what is true and where to look, and never what was stored.
func TestAdvice(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t"
	for _, status := range statuses {
		for _, retry := range []Retry{RetryNever, RetrySameKey, RetryCorrected} {
			r := shown(status)
			r.Retry, r.Args, r.Evidence, r.Reason = retry, []byte(`"`+secret+`"`), []byte(`"`+secret+`"`), secret
			r.RunID, r.StepID, r.Tenant = secret, secret, secret
			r.Outcome = &Outcome{HTTPStatus: 500, Body: []byte(secret), Headers: map[string]string{"x": secret}}
			advice := r.Advice()
			if strings.Contains(advice, secret) {
				t.Errorf("%v shows what is stored: %s", status, advice)
			}
			open := !status.Settled()
			if got := strings.HasSuffix(advice, "Check GET /v1/receipts/"+keyHex+"."); got != open {
				t.Errorf("%v: names the receipt: %v: %s", status, got, advice)
			}
			if invites := strings.Contains(advice, "safe to send exactly the same call again"); invites != (status == Rejected && retry == RetrySameKey) {
				t.Errorf("%v, %v: invites a repeat: %s", status, retry, advice)
			}
			if n := strings.Count(advice, ". "); n > 2 || (advice == "") != (status == Completed) {
				t.Errorf("%v: %s", status, advice)
			}
		}
	}
	for reason, want := range map[string]string{
		ReasonDeclined: "A person declined send_invoice_email: it did not happen. Do not send the same call again; ask the person, or correct the arguments first.",
		ReasonExpired:  "Nobody approved send_invoice_email in time: it did not happen. Do not send the same call again; ask a person first.",
	} {
		held := shown(AwaitingApproval)
		r, err := held.Decline("operator", reason, nil, epoch)
		if err != nil || r.Advice() != want || r.RetryWord() != RetryCorrected {
			t.Errorf("%s: %s, retry %v, %v", reason, r.Advice(), r.RetryWord(), err)
		}
	}
	r := shown(Unknown) // the contract's sentence, letter for letter
	if want := "The outcome of send_invoice_email is unknown: it may already have happened. Do not repeat this action or send it in another form. Check GET /v1/receipts/" + keyHex + "."; r.Advice() != want {
		t.Errorf("unknown: %s", r.Advice())
	}
}

func TestRetryWord(t *testing.T) {
	t.Parallel()
	for _, status := range statuses {
		for _, class := range []Class{ReadOnly, Idempotent, Effectful, Irreversible} {
			for _, retry := range []Retry{RetryNever, RetrySameKey, RetryCorrected} {
				want := RetryNever
				switch {
				case status == Started || status == Completed && class == ReadOnly:
					want = RetrySameKey
				case status == Rejected:
					want = retry
				}
				r := Receipt{Status: status, Class: class, Retry: retry}
				if got := r.RetryWord(); got != want {
					t.Errorf("%v %v with %v: %v, want %v", class, status, retry, got, want)
				}
			}
		}
	}
}

func TestETagAndTraceID(t *testing.T) {
	t.Parallel()
	r := Receipt{Fence: 2, Version: 17}
	if got := r.ETag(); got != `"2.17"` {
		t.Errorf("ETag is %s", got)
	}
	for parent, want := range map[string]string{"": "", "junk": "", "00-" + trace + "-00f067aa0ba902b7-01": trace, "a-b": ""} {
		r.Traceparent = parent
		if got := r.TraceID(); got != want {
			t.Errorf("%q: %q", parent, got)
		}
	}
}
