package gateway

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/intent"
)

var buffers = sync.Pool{New: func() any { return new(make([]byte, 0, 4096)) }}

// settling is what a caller waits beyond the tool's own timeout when it did not say how
// long: the time to settle, so that a timed-out call answers unknown and not started.
const settling = time.Second

// call answers POST /v1/tools/{tool}/calls.
func (g *Gateway) call(c *gin.Context) {
	r, err := g.request(c)
	var a once.Answer
	switch {
	case err != nil:
		a.Err, a.Decision = err, intent.Refused
	case r.Tool.Class == intent.ReadOnly:
		a = g.Engine.Forward(c.Request.Context(), r)
	default:
		a = g.Engine.Do(c.Request.Context(), r)
	}
	writeAnswer(c, a)
	c.Set(answeredKey, callAnswer{&r, &a})
}

// request reads and checks a call. Whatever is wrong is said before anything is stored.
func (g *Gateway) request(c *gin.Context) (once.Request, *intent.Error) {
	r := once.Request{Span: span(c)}
	p := principal(c)
	r.Tenant, r.Credential = p.Tenant, p.ID

	var ok bool
	if r.Tool, ok = g.Catalogue.Tool(c.Param("tool")); !ok {
		return r, intent.Errorf(intent.NotFound, nil, "There is no such tool. GET /v1/tools lists them.")
	}
	body, err := g.body(c)
	if err != nil {
		return r, err
	}
	if err := parseCall(body, &r.Call); err != nil {
		return r, err
	}
	if err := explicitKey(c.Request.Header, &r.Call); err != nil {
		return r, err
	}
	if err := required(&r); err != nil {
		return r, err
	}
	r.Wait = min(r.Tool.Timeout+settling, g.Wait)
	// A read is passed on whole: there is nothing to wait for apart from it.
	if n, ok := preferWait(c.Request.Header); ok && r.Tool.Class != intent.ReadOnly {
		r.Wait, r.Patient = min(n, g.Wait), true
		c.Writer.Header().Set("Preference-Applied", "wait="+strconv.Itoa(int(r.Wait/time.Second)))
	}
	return r, nil
}

// body reads the whole body, at most limits.body.
func (g *Gateway) body(c *gin.Context) ([]byte, *intent.Error) {
	media, params, err := mime.ParseMediaType(c.Request.Header.Get("Content-Type"))
	if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") ||
		params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8") {
		return nil, intent.Errorf(intent.UnsupportedMedia, err, "The body must be JSON: send Content-Type: application/json.")
	}
	if coding := c.Request.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, intent.Errorf(intent.UnsupportedMedia, nil, "The body must not be compressed: send it without Content-Encoding.")
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, g.Body))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		c.Writer.Header().Set("Connection", "close")
		return nil, intent.Errorf(intent.TooLarge, err, fmt.Sprintf("The body is larger than %d bytes.", g.Body))
	}
	if err != nil {
		return nil, intent.Errorf(intent.BadRequest, err, "The body could not be read to its end.")
	}
	return body, nil
}
