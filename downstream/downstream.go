// Package downstream makes one attempt at an effect and says what its answer means. It
// knows nothing of claims or stores.
//
// A call passes through it like this:
//
//	Tool.Validate    do the arguments fit schema and template?      nothing was sent
//	Client.Admit     is there a permit, is the breaker closed?      nothing was sent
//	Client.Execute   one request, written at most once              Observed: facts
//	Classify         what do the facts mean (DESIGN §5)?            Verdict
//	Client.Lookup    where that is unknown: did it happen?          Finding
//
// Two facts carry the promise. An effect's bytes are written at most once per Execute:
// conn.exchange holds the only write, and the client goes round again only when the counted
// bytes of that write are zero. And "not sent" is claimed only with such a count, or when
// there was no connection at all. Everything else that is not a whole answer is unknown.
//
// Only HTTP/1.1 is spoken, without redirects and without proxies from the environment.
// HTTP/2 shares one connection between calls, so no count of bytes belongs to one of them.
package downstream

import (
	"net/http"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
)

// Call is one request to be made for a tool.
type Call struct {
	Tool        *Tool
	Args        intent.Value // normalised; what a person approved is what is sent
	Key         intent.Key   // zero for read-only calls
	RunID       string
	StepID      string
	Traceparent string // sent along, as are the next two; each may be ""
	Tracestate  string
	Baggage     string
	// MayBegin is asked right before the request is written: the holder's own lease, on
	// the monotonic clock. False means that nothing is sent. nil means yes.
	MayBegin func() bool
}

// Observed is what came back, as facts. Classify gives them a meaning.
type Observed struct {
	Sent       bool   // a byte of the request may have been written
	TimedOut   bool   // the tool's own deadline ran out
	Err        error  // why there is no whole answer; nil when there is one
	NotSentWhy string // bounded word when !Sent: breaker_open, no_permit, dns, dial, tls, lease, cancelled, closed, request
	HTTPStatus int    // 0: no status line came
	Header     http.Header
	Body       []byte // nil when over the cap
	Truncated  bool   // over the cap: the effect is done, the body is not kept
	Length     int64  // of the whole body, when Truncated
	SHA256     string // hex, of the whole body, when Truncated
}

// Verdict is the meaning of what was observed (DESIGN §5).
type Verdict struct {
	Status     intent.Status // completed, rejected or unknown
	Retry      intent.Retry
	RetryAfter time.Duration
	Unsent     bool            // provably no byte was written
	Reason     string          // bounded: our words, never the downstream's
	Outcome    *intent.Outcome // nil when there was no whole answer
}
