package gateway

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/intent"
)

// The HTTP status of everything is chosen in this file, and only here.

// receiptStatus is the status of an answer that carries a receipt.
func receiptStatus(r *intent.Receipt) int {
	switch r.Status {
	case intent.Completed:
		return http.StatusOK
	case intent.Rejected:
		if r.Retry == intent.RetrySameKey {
			return http.StatusServiceUnavailable
		}
		return http.StatusFailedDependency
	}
	return http.StatusAccepted
}

// problemKind says how a category is answered.
type problemKind struct {
	status int
	title  string
	retry  intent.Retry
}

var problemKinds = map[intent.Category]problemKind{
	intent.Internal:             {http.StatusInternalServerError, "Internal error", intent.RetrySameKey},
	intent.BadRequest:           {http.StatusBadRequest, "Bad request", intent.RetryCorrected},
	intent.InvalidArguments:     {http.StatusBadRequest, "Invalid arguments", intent.RetryCorrected},
	intent.KeyRequired:          {http.StatusBadRequest, "Run and step, or a key, required", intent.RetryCorrected},
	intent.NotFound:             {http.StatusNotFound, "Not found", intent.RetryCorrected},
	intent.MethodNotAllowed:     {http.StatusMethodNotAllowed, "Method not allowed", intent.RetryCorrected},
	intent.TooLarge:             {http.StatusRequestEntityTooLarge, "Body too large", intent.RetryCorrected},
	intent.UnsupportedMedia:     {http.StatusUnsupportedMediaType, "Unsupported media type", intent.RetryCorrected},
	intent.Unauthenticated:      {http.StatusUnauthorized, "Not authenticated", intent.RetryCorrected},
	intent.Forbidden:            {http.StatusForbidden, "Not allowed", intent.RetryCorrected},
	intent.ConflictArguments:    {http.StatusUnprocessableEntity, "Same key, other arguments", intent.RetryNever},
	intent.ConflictStep:         {http.StatusConflict, "Step already used", intent.RetryNever},
	intent.ResultExpired:        {http.StatusGone, "Result no longer retained", intent.RetryNever},
	intent.NotSent:              {http.StatusServiceUnavailable, "Not sent", intent.RetrySameKey},
	intent.Overloaded:           {http.StatusServiceUnavailable, "Too many calls in flight", intent.RetrySameKey},
	intent.DownstreamFailed:     {http.StatusBadGateway, "Downstream failed", intent.RetrySameKey},
	intent.StateConflict:        {http.StatusConflict, "The receipt's status does not allow this", intent.RetryCorrected},
	intent.PreconditionFailed:   {http.StatusPreconditionFailed, "The receipt has changed", intent.RetryCorrected},
	intent.PreconditionRequired: {http.StatusPreconditionRequired, "If-Match required", intent.RetryCorrected},
	intent.DownstreamTimeout:    {http.StatusGatewayTimeout, "Downstream did not answer in time", intent.RetrySameKey},
}

// audience is whom a problem's advice is for.
type audience uint8

const (
	forCaller  audience = iota // of a tool: "nothing was done" means the tool's action
	forAsker                   // of a question: no answer may read as if an action had not happened
	forDecider                 // of a decision about a receipt, whose action may well have happened
)

func audienceOf(c *gin.Context) audience {
	switch path := c.FullPath(); {
	case c.Request.Method != http.MethodPost:
		return forAsker
	case strings.HasPrefix(path, "/v1/receipts/"), strings.HasPrefix(path, "/v1/bulk/"):
		return forDecider
	}
	return forCaller
}

// advise says in a sentence or two for a language model what to do about a problem. It
// never contains arguments or results.
func advise(e *intent.Error, to audience) string {
	asked := to == forAsker
	switch {
	case to == forDecider && e.Category == intent.Internal:
		return "The gateway failed on this decision. Read the receipt again: it says whether the decision stands."
	case to == forDecider && problemKinds[e.Category].retry == intent.RetrySameKey:
		return "Read the receipt again: it says where it stands. The same decision sent again is made once."
	case to == forDecider:
		return "This decision changed nothing. Read the receipt again and correct the request as the detail says."
	case asked && problemKinds[e.Category].retry == intent.RetrySameKey:
		return "The gateway could not answer this question. That says nothing about whether an action happened; ask again later."
	case asked:
		return "Correct the request as the detail says. This answer does not show that an action did not happen."
	}
	earlier := ""
	if e.Earlier != (intent.Key{}) {
		earlier = " Check GET /v1/receipts/" + e.Earlier.String() + "."
	}
	switch e.Category {
	case intent.ConflictArguments:
		return "Nothing was done by this call: the same action was already asked for with other arguments. Do not repeat it in another form." + earlier
	case intent.ConflictStep:
		return "Nothing was done by this call: this step already used the tool for something else. Do not send it again in another form." + earlier
	case intent.ResultExpired:
		return "This action was already settled long ago and is not done again. Do not repeat it." + earlier
	case intent.NotSent, intent.Overloaded:
		return "Nothing was done. It is safe to send exactly the same call again later."
	case intent.DownstreamFailed, intent.DownstreamTimeout:
		return "The information could not be read. Asking again is safe."
	case intent.Internal:
		return "The gateway failed. Send exactly the same call again: if it was done, you will get its result and it is not done twice."
	case intent.InvalidArguments:
		return "Nothing was done: the arguments are not valid. Correct them as the detail says and call again."
	case intent.KeyRequired:
		return "Nothing was done: the host program must give run_id and step_id, or an Idempotency-Key."
	}
	return "Nothing was done. Correct the request as the detail says."
}

// writeProblem answers with an RFC 9457 problem.
func writeProblem(c *gin.Context, e *intent.Error, retryAfter time.Duration) {
	kind, ok := problemKinds[e.Category]
	if !ok {
		kind = problemKinds[intent.Internal]
	}
	code := e.Category.Code()
	c.Set(codeKey, code)
	b := make([]byte, 0, 512)
	b = append(b, `{"type":"urn:latchkey:problem:`...)
	b = append(b, code...)
	b = text(b, `","title":`, kind.title)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(kind.status), 10)
	b = text(b, `,"detail":`, e.Public)
	b = text(b, `,"code":`, code)
	b = text(b, `,"retry":`, kind.retry.String())
	b = text(b, `,"advice":`, advise(e, audienceOf(c)))
	if e.Reason != "" {
		b = text(b, `,"reason":`, e.Reason)
	}
	if e.Pointer != "" {
		b = text(b, `,"pointer":`, e.Pointer)
	}
	h := c.Writer.Header()
	if e.Earlier != (intent.Key{}) {
		earlier := e.Earlier.String()
		b = text(b, `,"earlier_key":`, earlier)
		b = text(b, `,"earlier_receipt":`, "/v1/receipts/"+earlier)
		h.Set("Latchkey-Receipt", earlier)
	}
	b = text(b, `,"trace_id":`, span(c).TraceID())
	b = append(b, '}', '\n')
	h.Set("Content-Type", "application/problem+json")
	if kind.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="latchkey"`)
	}
	if kind.retry == intent.RetrySameKey && (kind.status == http.StatusServiceUnavailable || retryAfter > 0) {
		h.Set("Retry-After", seconds(retryAfter))
	}
	shouldRetry(h, kind.retry)
	h.Set("Idempotent-Replayed", "false")
	c.Writer.WriteHeader(kind.status)
	c.Writer.Write(b)
	c.Abort()
}

// writeAnswer answers a call.
func writeAnswer(c *gin.Context, a once.Answer) {
	if a.Err != nil {
		writeProblem(c, a.Err, a.RetryAfter)
		return
	}
	h := c.Writer.Header()
	r := &a.Receipt
	status := receiptStatus(r)
	if r.Key != (intent.Key{}) {
		key := r.Key.String()
		h.Set("Latchkey-Receipt", key)
		if status == http.StatusAccepted {
			h.Set("Location", "/v1/receipts/"+key)
		}
	}
	switch status {
	case http.StatusAccepted:
		h.Set("Retry-After", "1")
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", seconds(a.RetryAfter))
	}
	h.Set("Idempotent-Replayed", strconv.FormatBool(a.Replayed))
	shouldRetry(h, r.RetryWord())
	h.Set("Content-Type", "application/json")
	buf := buffers.Get().(*[]byte)
	b := append(a.AppendJSON((*buf)[:0]), '\n')
	c.Writer.WriteHeader(status)
	c.Writer.Write(b)
	*buf = b
	buffers.Put(buf)
}

func shouldRetry(h http.Header, retry intent.Retry) {
	if retry != intent.RetrySameKey {
		h.Set("X-Should-Retry", "false")
	}
}

// seconds rounds up to whole seconds, at least one.
func seconds(d time.Duration) string {
	return strconv.FormatInt(max(1, int64((d+time.Second-1)/time.Second)), 10)
}

func text(b []byte, label, s string) []byte { return intent.AppendString(append(b, label...), s) }
