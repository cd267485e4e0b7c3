package intent_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/latchkey-gateway/latchkey/intent"
)

// TestWords fixes the words that config, SQL, receipts, spans and metrics share. Rows and
// other replicas hold them: a word may be added, but none may change.
func TestWords(t *testing.T) {
	t.Parallel()
	words(t, ParseClass, Class.String, "read_only", "idempotent", "effectful", "irreversible")
	words(t, ParseStatus, Status.String, "awaiting_approval", "started", "unknown", "completed", "rejected")
	words(t, ParseRetry, Retry.String, "never", "same_key", "corrected")
	words(t, ParseDurability, Durability.String, "durable", "hot")
	words(t, ParseDecision, Decision.String, "executed", "collapsed", "replayed", "mismatch", "step_conflict", "refused", "pending")
	words(t, ParseAction, Action.String, "lookup", "retry", "reexecute", "park", "approve", "decline", "expire", "resolve", "wait", "late_answer", "acknowledge")
	optional(t, ParseParking, Parking.String, "policy", "gave_up", "tries", "window_passed", "request_changed", "no_tool", "arguments_not_kept")
	optional(t, ParseDoubt, Doubt.String, "possible_double", "contradicted")
}

// words checks that the values 1, 2, 3 ... of T have these words, both ways, and no others.
func words[T ~uint8](t *testing.T, parse func(string) (T, error), text func(T) string, want ...string) {
	for i, word := range want {
		v := T(i + 1)
		if got, err := parse(word); err != nil || got != v || text(v) != word {
			t.Errorf("%T %d: reads %q as %d, %v; writes %q", v, v, word, got, err, text(v))
		}
	}
	for _, v := range []T{0, T(len(want) + 1), 255} {
		if text(v) != "invalid" {
			t.Errorf("%T %d has the word %q", v, v, text(v))
		}
	}
	for _, word := range []string{"", "invalid", " " + want[0], "NEVER"} {
		if got, err := parse(word); err == nil || got != 0 {
			t.Errorf("%T: %q is read as %d", got, word, got)
		}
	}
}

// optional is words for an enumeration whose zero value means none, and whose word is "".
func optional[T ~uint8](t *testing.T, parse func(string) (T, error), text func(T) string, want ...string) {
	for i, word := range append([]string{""}, want...) {
		if got, err := parse(word); err != nil || got != T(i) || text(got) != word {
			t.Errorf("%T %d: reads %q as %d, %v; writes %q", got, i, word, got, err, text(got))
		}
	}
	for _, v := range []T{T(len(want) + 1), 255} {
		if text(v) != "invalid" {
			t.Errorf("%T %d has the word %q", v, v, text(v))
		}
	}
	for _, word := range []string{"invalid", " ", " " + want[0], "NEVER"} {
		if got, err := parse(word); err == nil || got != 0 {
			t.Errorf("%T: %q is read as %d", got, word, got)
		}
	}
}

// TestCategories fixes the codes of CONTRACT.md's problems.
func TestCategories(t *testing.T) {
	t.Parallel()
	codes := map[Category]string{
		Internal: "internal", BadRequest: "bad_request", InvalidArguments: "invalid_arguments", KeyRequired: "idempotency_key_required",
		NotFound: "not_found", TooLarge: "too_large", UnsupportedMedia: "unsupported_media_type", Unauthenticated: "unauthenticated",
		Forbidden: "forbidden", ConflictArguments: "idempotency_conflict", ConflictStep: "step_conflict", ResultExpired: "result_expired",
		NotSent: "not_sent", DownstreamFailed: "downstream_error", DownstreamTimeout: "downstream_error", Overloaded: "overloaded",
		MethodNotAllowed: "method_not_allowed", StateConflict: "state_conflict", PreconditionFailed: "precondition_failed",
		PreconditionRequired: "precondition_required",
	}
	for category, code := range codes {
		if got := category.Code(); got != code {
			t.Errorf("category %d: %s, want %s", category, got, code)
		}
	}
}

func TestErrorKeepsItsCauseToItself(t *testing.T) {
	t.Parallel()
	cause := errors.New("dial tcp: refused")
	err := Errorf(NotSent, cause, "Nothing was sent.")
	if err.Public != "Nothing was sent." || err.Error() != "not_sent: Nothing was sent.: dial tcp: refused" || !errors.Is(err, cause) {
		t.Errorf("%q, %q", err.Public, err)
	}
	if bare := Errorf(BadRequest, nil, "Bad."); bare.Error() != "bad_request: Bad." || errors.Unwrap(bare) != nil {
		t.Errorf("%q", bare)
	}
}

func TestPointers(t *testing.T) {
	t.Parallel()
	doc := `{"a":{"b":[10,{"c":null}]},"":1,"/":2,"~":3,"~1":4,"0":5,"é":6}`
	tests := map[string]string{ // "" where it names nothing
		"": doc, "/a/b/0": "10", "/a/b/1/c": "null", "/": "1", "/~1": "2", "/~0": "3", "/~01": "4", "/0": "5", "/é": "6",
		"/x": "", "/a/b/2": "", "/a/b/-": "", "/a/b/-1": "", "/a/b/00": "", "/a/b/01": "", "/a/b/+1": "", "/a/b/ 1": "", "/a/b/0/x": "", "/a/b/1/c/d": "", "/a/": "",
		"/a/b/99999999999999999999": "",
	}
	v := parse(t, doc)
	for text, want := range tests {
		p, err := ParsePointer(text)
		if err != nil || p.String() != text {
			t.Errorf("%q is read as %q, %v", text, p, err)
		}
		if got := v.At(p); string(got.AppendJSON(nil)) != want || got.Exists() != (want != "") {
			t.Errorf("%q names %s, want %s", text, got.AppendJSON(nil), want)
		}
		marked := v.Edit(p, func(Value) Value { return StringValue("new") })
		if got := marked.At(p).Text(); (got == "new") != (want != "") {
			t.Errorf("%q: edited, it holds %q", text, got)
		}
		if string(v.AppendJSON(nil)) != doc {
			t.Fatalf("%q: Edit changed the value itself", text)
		}
	}
	for _, text := range []string{"a", "a/b", "#/a", "/~", "/~2", "/a~", "/~~0"} {
		if p, err := ParsePointer(text); err == nil {
			t.Errorf("%q is read as %q", text, p)
		}
	}
}

func TestEditRemoves(t *testing.T) {
	t.Parallel()
	const doc = `{"a":1,"b":[1,2,{"c":3,"d":4}]}`
	tests := map[string]string{
		"": "", "/a": `{"b":[1,2,{"c":3,"d":4}]}`, "/b": `{"a":1}`, "/x": doc, "/a/x": doc,
		"/b/0": `{"a":1,"b":[null,2,{"c":3,"d":4}]}`, "/b/2/c": `{"a":1,"b":[1,2,{"d":4}]}`,
	}
	for text, want := range tests {
		p, _ := ParsePointer(text)
		if got := string(parse(t, doc).Edit(p, func(Value) Value { return Value{} }).AppendJSON(nil)); got != want {
			t.Errorf("without %q: %s, want %s", text, got, want)
		}
	}
}

func TestExecution(t *testing.T) {
	t.Parallel()
	held := shown(AwaitingApproval)
	if e, ok := held.Execution(); ok {
		t.Errorf("while awaiting approval there is an execution: %+v", e)
	}
	r := shown(Rejected)
	r.Replica, r.Region = "a", "eu"
	e, ok := r.Execution()
	want := Execution{Key: r.Key, Fence: 1, ClaimID: r.ClaimID, StartedAt: r.StartedAt, EndedAt: r.SettledAt, Status: Rejected,
		Retry: RetryCorrected, Reason: "answered 422", HTTPStatus: 422, Traceparent: r.Traceparent, Replica: "a", Region: "eu"}
	if !ok || e != want {
		t.Errorf("%v %+v, want %+v", ok, e, want)
	}
	if started := shown(Started); func() int { e, _ := started.Execution(); return e.HTTPStatus }() != 0 {
		t.Error("an execution without an answer has a status")
	}
}

func TestMicros(t *testing.T) {
	t.Parallel()
	in := time.Date(2026, 3, 1, 13, 0, 0, 1999, time.FixedZone("", 3600))
	if got := Micros(in); !got.Equal(epoch.Add(time.Microsecond)) || got.Location() != time.UTC {
		t.Errorf("%v became %v", in, got)
	}
	if !Micros(time.Time{}).IsZero() {
		t.Error("the zero time did not stay zero")
	}
}

func TestParseKey(t *testing.T) {
	t.Parallel()
	k := Key{0xab, 31: 0x0f}
	if got, err := ParseKey(k.String()); err != nil || got != k || k.Short() != "ab000000" {
		t.Errorf("%s: %v %v", k, got, err)
	}
	if got, err := ParseKey(strings.ToUpper(k.String())); err != nil || got != k {
		t.Errorf("in capitals: %v %v", got, err)
	}
	for _, s := range []string{"", "ab", k.String()[1:], k.String() + "0", strings.Repeat("g", 64), " " + k.String()[1:], strings.Repeat("é", 32)} {
		if got, err := ParseKey(s); err != ErrBadKey || got != (Key{}) {
			t.Errorf("%q: %v %v", s, got, err)
		}
	}
	if fmt.Sprint(ClaimID{1}) != hex.EncodeToString(append([]byte{1}, make([]byte, 15)...)) {
		t.Error("a claim id is not 32 hex digits")
	}
}
