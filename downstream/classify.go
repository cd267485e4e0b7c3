package downstream

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
)

// Words of Observed.NotSentWhy. All of them mean: provably no byte was written.
const (
	notSentBreaker   = "breaker_open"
	notSentPermit    = "no_permit"
	notSentDNS       = "dns"
	notSentDial      = "dial"
	notSentTLS       = "tls"
	notSentLease     = "lease"     // the holder's own lease ran out first
	notSentCancelled = "cancelled" // the gateway gave up first
	notSentClosed    = "closed"    // the connection broke before the first byte
	notSentRequest   = "request"   // the arguments do not make a request
)

// maxRetryAfter bounds what a downstream may tell callers to wait.
const maxRetryAfter = time.Hour

// Classify says what an observation means (DESIGN §5). It is pure. What proves nothing is
// unknown: "not sent" needs a reason, "completed" needs a whole answer.
func Classify(t *Tool, o Observed) Verdict {
	switch {
	case !o.Sent && o.NotSentWhy != "" && o.HTTPStatus == 0:
		return notSent(o.NotSentWhy, 0)
	case o.Err != nil || o.HTTPStatus == 0:
		return Verdict{Status: intent.Unknown, Retry: intent.RetryNever, Reason: whyUnknown(o)}
	}
	v := Verdict{Outcome: t.outcome(o)}
	switch meaning(t.Statuses[o.HTTPStatus], o.HTTPStatus) {
	case statusAccepted:
		v.Status, v.Retry = intent.Completed, intent.RetryNever
	case statusNotAccepted:
		v.Status, v.Retry, v.Reason = intent.Rejected, intent.RetryCorrected, "answered "+strconv.Itoa(o.HTTPStatus)
	case statusNotAcceptedForNow:
		v.Status, v.Retry, v.Reason = intent.Rejected, intent.RetrySameKey, "answered "+strconv.Itoa(o.HTTPStatus)
		v.RetryAfter = retryAfter(o.Header)
	default:
		v.Status, v.Retry, v.Reason = intent.Unknown, intent.RetryNever, "answered "+strconv.Itoa(o.HTTPStatus)+", which does not tell whether it happened"
	}
	return v
}

// meaning gives a status one of the four words: the tool's own, or DESIGN §5's. A tool's
// not_accepted on a status that speaks of the moment (401, 429, 5xx ...) and not of the
// arguments means not accepted for now.
func meaning(override string, status int) string {
	switch {
	case override == statusNotAccepted && ofTheMoment(status):
		return statusNotAcceptedForNow
	case override != "":
		return override
	case status == http.StatusTemporaryRedirect || status == http.StatusPermanentRedirect:
		return statusNotAccepted // would repeat the request elsewhere; never followed
	case status >= 200 && status < 400:
		return statusAccepted
	case status == http.StatusRequestTimeout || status == http.StatusTooEarly:
		return statusUnknown
	case status >= 400 && status < 500 && ofTheMoment(status):
		return statusNotAcceptedForNow
	case status >= 400 && status < 500:
		return statusNotAccepted
	}
	return statusUnknown
}

func ofTheMoment(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusTooManyRequests,
		http.StatusRequestTimeout, http.StatusTooEarly:
		return true
	}
	return status >= 500
}

func notSent(why string, after time.Duration) Verdict {
	v := Verdict{Status: intent.Rejected, Retry: intent.RetrySameKey, RetryAfter: after, Unsent: true, Reason: "not sent: " + why}
	if why == notSentRequest {
		v.Retry = intent.RetryCorrected
	}
	return v
}

func whyUnknown(o Observed) string {
	switch {
	case o.TimedOut:
		return "sent, but not answered within the tool's timeout"
	case o.HTTPStatus != 0:
		return "sent, but the answer did not come whole"
	case o.Err == nil:
		return "nothing was observed"
	}
	return "sent, but the connection broke before an answer"
}

// retryAfter reads Retry-After (RFC 9110 §10.2.3): seconds, or a date, which counts from the
// answer's own Date so that the two clocks need not agree. 0: no usable hint.
func retryAfter(h http.Header) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if text == "" {
		return 0
	}
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil {
		return time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(text)
	sent, err2 := http.ParseTime(h.Get("Date"))
	if err != nil || err2 != nil {
		return 0
	}
	return min(max(at.Sub(sent), 0), maxRetryAfter)
}
