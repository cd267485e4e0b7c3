package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// reply is what a caller got, read to its end.
type reply struct {
	testing.TB
	code   int
	header http.Header
	body   []byte
}

// receipt is a receipt as CONTRACT.md shows it: these names, all of them and no others.
type receipt struct {
	Key        *string `json:"key"`
	Tool       string  `json:"tool"`
	Class      string  `json:"class"`
	Tenant     string  `json:"tenant"`
	RunID      string  `json:"run_id"`
	StepID     string  `json:"step_id"`
	Occurrence int     `json:"occurrence"`
	Status     string  `json:"status"`
	Replayed   bool    `json:"replayed"`
	Durable    bool    `json:"durable"`
	Retry      string  `json:"retry"`
	Advice     string  `json:"advice"`
	Outcome    *struct {
		HTTPStatus int               `json:"http_status"`
		Headers    map[string]string `json:"headers"`
		Body       json.RawMessage   `json:"body"`
		BodyText   *string           `json:"body_text"`
		BodyBase64 *[]byte           `json:"body_base64"`
	} `json:"outcome"`
	Intent struct {
		Args        json.RawMessage `json:"args"`
		Fingerprint string          `json:"fingerprint"`
	} `json:"intent"`
	Attempts     int             `json:"attempts"`
	Executions   int             `json:"executions"`
	Fence        int             `json:"fence"`
	CreatedAt    *time.Time      `json:"created_at"`
	StartedAt    *time.Time      `json:"started_at"`
	SettledAt    *time.Time      `json:"settled_at"`
	UnknownSince *time.Time      `json:"unknown_since"`
	SettledBy    string          `json:"settled_by"`
	Reason       string          `json:"reason"`
	Evidence     json.RawMessage `json:"evidence"`
	TraceID      string          `json:"trace_id"`
	Recovery     *struct {
		Checks      int        `json:"checks"`
		NextCheckAt *time.Time `json:"next_check_at"`
		Parked      string     `json:"parked"`
		Doubt       string     `json:"doubt"`
		ApprovedBy  []string   `json:"approved_by"`
	} `json:"recovery"` // where there is one to tell of
	Links map[string]string `json:"links"`
}

var receiptNames = []string{"key", "tool", "class", "tenant", "run_id", "step_id", "occurrence", "status", "replayed", "durable", "retry",
	"advice", "outcome", "intent", "attempts", "executions", "fence", "created_at", "started_at", "settled_at", "unknown_since",
	"settled_by", "reason", "evidence", "trace_id", "links"}

var (
	aKey         = regexp.MustCompile(`^[0-9a-f]{64}$`)
	aTrace       = regexp.MustCompile(`^[0-9a-f]{32}$`)
	aFingerprint = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// parseReceipt reads a receipt and checks what is true of every one.
func parseReceipt(t testing.TB, b []byte) receipt {
	t.Helper()
	var r receipt
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		t.Fatalf("not a receipt: %v: %s", err, b)
	}
	var names map[string]json.RawMessage
	if err := json.Unmarshal(b, &names); err != nil {
		t.Fatal(err)
	}
	for _, name := range receiptNames {
		if names[name] == nil {
			t.Errorf("%s is missing: %s", name, b)
		}
	}
	fail := func(format string, a ...any) { t.Helper(); t.Errorf(format+": %s", append(a, b)...) }
	if !aFingerprint.MatchString(r.Intent.Fingerprint) && r.Key != nil {
		fail("fingerprint")
	}
	if !aTrace.MatchString(r.TraceID) {
		fail("trace_id")
	}
	if r.CreatedAt == nil || r.Key == nil && len(r.Links) != 0 {
		fail("created_at or links")
	}
	if r.Key != nil {
		self := "/v1/receipts/" + *r.Key
		if !aKey.MatchString(*r.Key) || !maps.Equal(r.Links, map[string]string{"self": self, "attempts": self + "/attempts"}) {
			fail("key or links")
		}
	}
	settled := r.Status == "completed" || r.Status == "rejected"
	if settled != (r.SettledAt != nil) || settled != (r.SettledBy != "") || (r.Status == "unknown") != (r.UnknownSince != nil) && !settled {
		fail("times do not go with status %s", r.Status)
	}
	if retry := map[string]string{"started": "same_key", "unknown": "never", "awaiting_approval": "never"}[r.Status]; retry != "" && r.Retry != retry {
		fail("retry of %s", r.Status)
	}
	ask := slices.Contains([]string{"started", "unknown", "awaiting_approval"}, r.Status)
	if (r.Advice == "") != (r.Status == "completed") || r.Key != nil && ask != strings.Contains(r.Advice, "GET /v1/receipts/"+*r.Key) {
		fail("advice of %s", r.Status)
	}
	return r
}

// receipt checks a call's answer that carries a receipt, headers and all, and returns it.
func (r reply) receipt(code int, status, retry string) receipt {
	r.Helper()
	if r.code != code {
		r.Fatalf("HTTP %d, want %d: %s", r.code, code, r.body)
	}
	got := parseReceipt(r.TB, r.body)
	if got.Status != status || got.Retry != retry {
		r.Errorf("%s, retry %s; want %s, %s: %s", got.Status, got.Retry, status, retry, r.body)
	}
	want := map[string]string{"Content-Type": "application/json", "Idempotent-Replayed": fmt.Sprint(got.Replayed), "X-Should-Retry": shouldRetry(retry)}
	if got.Key != nil {
		want["Latchkey-Receipt"] = *got.Key
	}
	if code == 202 {
		want["Location"] = "/v1/receipts/" + *got.Key
	}
	r.headers(want)
	r.retryAfter(code == 202 || code == 503)
	return got
}

// completed is the usual case.
func (r reply) completed() receipt {
	r.Helper()
	return r.receipt(200, "completed", "never")
}

// problem is an RFC 9457 problem as CONTRACT.md shows it.
type problem struct {
	Type           string `json:"type"`
	Title          string `json:"title"`
	Status         int    `json:"status"`
	Detail         string `json:"detail"`
	Code           string `json:"code"`
	Retry          string `json:"retry"`
	Advice         string `json:"advice"`
	Reason         string `json:"reason"`
	Pointer        string `json:"pointer"`
	EarlierKey     string `json:"earlier_key"`
	EarlierReceipt string `json:"earlier_receipt"`
	TraceID        string `json:"trace_id"`
}

// problem checks an answer that is a problem, and returns it.
func (r reply) problem(status int, code, retry string) problem {
	r.Helper()
	if r.code != status {
		r.Fatalf("HTTP %d, want %d: %s", r.code, status, r.body)
	}
	var p problem
	d := json.NewDecoder(bytes.NewReader(r.body))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		r.Fatalf("not a problem: %v: %s", err, r.body)
	}
	if p.Status != status || p.Code != code || p.Retry != retry {
		r.Errorf("code %s, retry %s, status %d; want %s, %s, %d", p.Code, p.Retry, p.Status, code, retry, status)
	}
	if !strings.HasSuffix(p.Type, code) || p.Title == "" || p.Detail == "" || p.Advice == "" || !aTrace.MatchString(p.TraceID) {
		r.Errorf("a field is missing: %s", r.body)
	}
	want := map[string]string{"Content-Type": "application/problem+json", "Idempotent-Replayed": "false", "X-Should-Retry": shouldRetry(retry),
		"Latchkey-Receipt": p.EarlierKey, "Location": ""}
	if p.EarlierKey != "" && (p.EarlierReceipt != "/v1/receipts/"+p.EarlierKey || !aKey.MatchString(p.EarlierKey)) {
		r.Errorf("earlier receipt: %s", r.body)
	}
	r.headers(want)
	if status == 503 {
		r.retryAfter(true)
	}
	return p
}

func shouldRetry(retry string) string {
	if retry == "same_key" {
		return ""
	}
	return "false"
}

func (r reply) headers(want map[string]string) {
	r.Helper()
	for name, value := range want {
		if got := r.header.Get(name); got != value {
			r.Errorf("%s: %q, want %q", name, got, value)
		}
	}
}

// retryAfter is whole seconds, one at least, exactly where it says when to come back.
func (r reply) retryAfter(there bool) {
	r.Helper()
	if value := r.header.Get("Retry-After"); there != regexp.MustCompile(`^[1-9][0-9]*$`).MatchString(value) {
		r.Errorf("Retry-After: %q", value)
	}
}

// hides fails where one of the texts is in the answer.
func (r reply) hides(texts ...string) {
	r.Helper()
	for _, text := range texts {
		if bytes.Contains(r.body, []byte(text)) {
			r.Errorf("the answer holds %q: %s", text, r.body)
		}
	}
}

// sameButReplayed fails unless again is first byte for byte, but for "replayed".
func sameButReplayed(t testing.TB, first, again reply) {
	t.Helper()
	want := bytes.Replace(first.body, []byte(`"replayed":false`), []byte(`"replayed":true`), 1)
	if again.code != first.code || !bytes.Equal(again.body, want) {
		t.Errorf("HTTP %d, first %d\nagain %s\nfirst %s", again.code, first.code, again.body, first.body)
	}
	if again.header.Get("Idempotent-Replayed") != "true" || first.header.Get("Idempotent-Replayed") != "false" {
		t.Errorf("Idempotent-Replayed: %q, first %q", again.header.Get("Idempotent-Replayed"), first.header.Get("Idempotent-Replayed"))
	}
}

// read checks the answer of GET /v1/receipts/{key}.
func (r reply) read(status string) receipt {
	r.Helper()
	if r.code != 200 {
		r.Fatalf("HTTP %d: %s", r.code, r.body)
	}
	got := parseReceipt(r.TB, r.body)
	if got.Status != status {
		r.Errorf("%s, want %s: %s", got.Status, status, r.body)
	}
	r.headers(map[string]string{"Content-Type": "application/json", "Latchkey-Receipt": *got.Key, "X-Should-Retry": shouldRetry(got.Retry)})
	if !regexp.MustCompile(`^"[0-9]+\.[0-9]+"$`).MatchString(r.header.Get("ETag")) {
		r.Errorf("ETag: %s", r.header.Get("ETag"))
	}
	return got
}
