package gateway

import (
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/gin-gonic/gin"

	"github.com/latchkey-gateway/latchkey/gateway/auth"
	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/tracing"
)

const (
	callRoute   = "/v1/tools/:tool/calls"
	spanKey     = "latchkey.span"
	answeredKey = "latchkey.answered"
	codeKey     = "latchkey.code" // of the problem that was written
)

// span is this request's span.
func span(c *gin.Context) tracing.Span { return c.MustGet(spanKey).(tracing.Span) }

// arrive opens the request's span, closes it when the request is over, and turns a panic
// into a problem. gin's own recovery is not used: it swallows http.ErrAbortHandler and logs
// request headers.
func (g *Gateway) arrive(c *gin.Context) {
	s := g.Telemetry.Arrive(c.Request.Header)
	c.Set(spanKey, s)
	c.Request = c.Request.WithContext(tracing.With(c.Request.Context(), s))
	defer func() {
		failure := recover()
		if failure != nil && failure != http.ErrAbortHandler {
			g.Log.Error("panic", "failure", failure, "trace_id", s.TraceID(), "stack", string(debug.Stack()))
			if !c.Writer.Written() {
				writeProblem(c, intent.Errorf(intent.Internal, nil, "The gateway failed on this request."), 0)
			}
		}
		route := c.FullPath()
		if route == callRoute {
			g.account(c, s)
		}
		s.Served(spanName(c.Request.Method, route), c.Request.Method, route, c.Writer.Status())
		if failure == http.ErrAbortHandler {
			panic(failure)
		}
	}()
	c.Next()
}

// spanName names a request's span by its route, never by its path. Probes, and streams that
// last for hours, have none.
func spanName(method, route string) string {
	switch route {
	case callRoute:
		return tracing.SpanCall
	case "/livez", "/readyz", "/v1/events":
		return ""
	case "":
		return method
	}
	return method + " " + route
}

// callAnswer is a call and what it was answered.
type callAnswer struct {
	request *once.Request
	answer  *once.Answer
}

// account says what became of a call: on its span, in the metrics, and in the canonical line
// of the log, one per call, with constant names, no argument and no result.
func (g *Gateway) account(c *gin.Context, s tracing.Span) {
	o := tracing.Outcome{Tool: tracing.UnknownTool, Decision: intent.Refused.String(), Code: c.GetString(codeKey), HTTPStatus: c.Writer.Status()}
	if t, ok := g.Catalogue.Tool(c.Param("tool")); ok {
		o.Tool, o.Class = t.Name, t.Class.String()
	}
	if v, ok := c.Get(principalKey); ok {
		p := v.(auth.Principal)
		o.Tenant, o.Credential = p.Tenant, p.ID
	}
	if v, ok := c.Get(answeredKey); ok {
		r, a := v.(callAnswer).request, v.(callAnswer).answer
		o.RunID, o.StepID = r.RunID, r.StepID
		o.Decision, o.Attempt, o.Execution = a.Decision.String(), a.Arrival, a.Execution
		if a.Err != nil {
			o.Key, o.Reason = a.Err.Earlier, a.Err.Reason
			if a.Err.Category == intent.KeyRequired {
				g.Engine.Metrics().WithoutStableKey(o.Tool)
			}
		} else {
			o.Key, o.Status, o.Fence, o.Reason = a.Receipt.Key, a.Receipt.Status.String(), a.Receipt.Fence, a.Receipt.Reason
			o.Execution = a.Receipt.Traceparent
		}
	}
	s.Answer(o)
	s.Log(c.Request.Context(), g.Log, slog.LevelInfo)
}
