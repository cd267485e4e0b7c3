package downstream

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
)

// want is the table of DESIGN §5, written a second time and independently: by ranges.
func want(status int) (intent.Status, intent.Retry) {
	switch {
	case status < 200:
		return intent.Unknown, intent.RetryNever
	case status == 307 || status == 308:
		return intent.Rejected, intent.RetryCorrected
	case status < 400:
		return intent.Completed, intent.RetryNever
	case status == 401 || status == 403 || status == 407 || status == 429:
		return intent.Rejected, intent.RetrySameKey
	case status == 408 || status == 425 || status >= 500:
		return intent.Unknown, intent.RetryNever
	}
	return intent.Rejected, intent.RetryCorrected
}

func TestEveryStatusHasItsMeaning(t *testing.T) {
	t.Parallel()
	tool := &Tool{}
	for status := 100; status < 600; status++ {
		o := Observed{Sent: true, HTTPStatus: status, Header: http.Header{"Retry-After": {"7"}}, Body: []byte("x")}
		v := Classify(tool, o)
		s, retry := want(status)
		if v.Status != s || v.Retry != retry || v.Unsent {
			t.Errorf("%d: %v %v, want %v %v", status, v.Status, v.Retry, s, retry)
		}
		if v.Outcome == nil || v.Outcome.HTTPStatus != status || string(v.Outcome.Body) != "x" {
			t.Errorf("%d: outcome %+v", status, v.Outcome)
		}
		if (v.RetryAfter != 0) != (retry == intent.RetrySameKey) {
			t.Errorf("%d: retry after %v", status, v.RetryAfter)
		}
		if (v.Reason == "") != (s == intent.Completed) {
			t.Errorf("%d: reason %q", status, v.Reason)
		}
	}
}

func TestATruncatedAnswerIsStillAnAnswer(t *testing.T) {
	t.Parallel()
	v := Classify(&Tool{}, Observed{Sent: true, HTTPStatus: 200, Truncated: true, Length: 10 << 20, SHA256: "ab"})
	if v.Status != intent.Completed || !v.Outcome.Truncated || v.Outcome.Length != 10<<20 || v.Outcome.SHA256 != "ab" || v.Outcome.Body != nil {
		t.Errorf("%+v %+v", v, v.Outcome)
	}
}

// Every combination of facts: "not sent" and "completed" are claimed only where they are proven.
func TestEveryFailureShape(t *testing.T) {
	t.Parallel()
	whys := []string{"", "breaker_open", "no_permit", "dns", "dial", "tls", "lease", "cancelled", "closed", "request"}
	for _, sent := range []bool{false, true} {
		for _, timedOut := range []bool{false, true} {
			for _, err := range []error{nil, io.ErrUnexpectedEOF, errors.New("secret")} {
				for _, status := range []int{0, 200, 404, 503} {
					for _, why := range whys {
						o := Observed{Sent: sent, TimedOut: timedOut, Err: err, HTTPStatus: status, NotSentWhy: why}
						v := Classify(&Tool{}, o)
						switch {
						case !sent && why != "" && status == 0:
							retry := intent.RetrySameKey
							if why == "request" {
								retry = intent.RetryCorrected
							}
							if v.Status != intent.Rejected || v.Retry != retry || !v.Unsent || v.Outcome != nil || v.Reason != "not sent: "+why {
								t.Errorf("%+v: %+v", o, v)
							}
						case err != nil || status == 0:
							if v.Status != intent.Unknown || v.Retry != intent.RetryNever || v.Unsent || v.Outcome != nil || v.Reason == "" || len(v.Reason) > 80 {
								t.Errorf("%+v: %+v", o, v)
							}
						default:
							if s, _ := want(status); v.Status != s || v.Unsent {
								t.Errorf("%+v: %+v", o, v)
							}
						}
					}
				}
			}
		}
	}
}

func TestAToolKnowsItsProvider(t *testing.T) {
	t.Parallel()
	tests := []struct {
		status int
		word   string
		want   intent.Status
		retry  intent.Retry
	}{
		{503, "not_accepted", intent.Rejected, intent.RetrySameKey},
		{500, "not_accepted", intent.Rejected, intent.RetrySameKey},
		{429, "not_accepted", intent.Rejected, intent.RetrySameKey},
		{408, "not_accepted", intent.Rejected, intent.RetrySameKey},
		{200, "not_accepted", intent.Rejected, intent.RetryCorrected},
		{302, "not_accepted", intent.Rejected, intent.RetryCorrected},
		{409, "not_accepted_for_now", intent.Rejected, intent.RetrySameKey},
		{409, "accepted", intent.Completed, intent.RetryNever},
		{500, "accepted", intent.Completed, intent.RetryNever},
		{404, "unknown", intent.Unknown, intent.RetryNever},
		{202, "unknown", intent.Unknown, intent.RetryNever},
	}
	for _, tt := range tests {
		tool := &Tool{Statuses: map[int]string{tt.status: tt.word}}
		if v := Classify(tool, Observed{Sent: true, HTTPStatus: tt.status}); v.Status != tt.want || v.Retry != tt.retry || v.Outcome == nil {
			t.Errorf("%d %s: %+v", tt.status, tt.word, v)
		}
		if v := Classify(tool, Observed{Sent: true, HTTPStatus: tt.status, Err: io.ErrUnexpectedEOF}); v.Status != intent.Unknown {
			t.Errorf("%d %s, cut short: %+v", tt.status, tt.word, v)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	const date = "Mon, 01 Jan 2024 00:00:00 GMT"
	tests := []struct {
		value, date string
		want        time.Duration
	}{
		{"", "", 0},
		{"0", "", 0},
		{"120", "", 2 * time.Minute},
		{" 5 ", "", 5 * time.Second},
		{"-5", "", 0},
		{"1.5", "", 0},
		{"99999999999", "", maxRetryAfter},
		{"99999999999999999999999", "", 0},
		{"Mon, 01 Jan 2024 00:00:30 GMT", date, 30 * time.Second},
		{"Mon, 01 Jan 2024 00:00:30 GMT", "", 0},
		{"Sun, 31 Dec 2023 00:00:00 GMT", date, 0},
		{"Mon, 01 Jan 2035 00:00:00 GMT", date, maxRetryAfter},
		{"soon", date, 0},
	}
	for _, tt := range tests {
		h := http.Header{"Retry-After": {tt.value}, "Date": {tt.date}}
		if got := retryAfter(h); got != tt.want {
			t.Errorf("%q at %q: %v, want %v", tt.value, tt.date, got, tt.want)
		}
	}
}

func TestKeptHeadersAreBounded(t *testing.T) {
	t.Parallel()
	tool := &Tool{}
	h := http.Header{}
	for i := range 2 * maxHeaders {
		name := keep("X-" + strconv.Itoa(i))
		tool.kept = append(tool.kept, name)
		h.Set(name.canonical, "v")
	}
	if v := Classify(tool, Observed{Sent: true, HTTPStatus: 200, Header: h}); len(v.Outcome.Headers) != maxHeaders {
		t.Errorf("%d headers kept", len(v.Outcome.Headers))
	}
}
