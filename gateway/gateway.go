// Package gateway is HTTP in and HTTP out: it reads calls, asks gateway/once, and writes
// receipts and problems as CONTRACT.md shows them.
package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/gateway/auth"
	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/tracing"
)

// Options wire a Gateway. All fields but Telemetry are required.
type Options struct {
	Engine    *once.Engine
	Catalogue *downstream.Catalogue
	Client    interface { // *downstream.Client
		BreakerState(downstream string) string
		InFlight(downstream string) int
	}
	Keys      *auth.Keys
	Telemetry *tracing.Telemetry
	// Ready are the checks of /readyz by name, Dispensable among them; each must end within a
	// second or so.
	Ready  map[string]func(context.Context) error
	Faults []string      // what is injected on purpose, in words; nil: nothing
	Body   int64         // bytes of a request body
	Wait   time.Duration // longest wait for an answer
	Log    *slog.Logger
}

// Gateway serves the two listeners.
type Gateway struct {
	Options
	feeds   feeds
	drain   sync.Once
	drained chan struct{} // closed by Drain
}

// New makes a gateway.
func New(o Options) *Gateway {
	g := &Gateway{Options: o, drained: make(chan struct{})}
	g.feeds.init(o.Engine.Changes, g.drained, o.Log)
	return g
}

// Drain makes /readyz fail from now on, so that load balancers send no more calls, and ends
// what goes on for long: those who watch, and bulk runs before their next receipt.
func (g *Gateway) Drain() { g.drain.Do(func() { close(g.drained) }) }

func (g *Gateway) draining() bool {
	select {
	case <-g.drained:
		return true
	default:
		return false
	}
}

// Agents is the handler of the agents' listener.
func (g *Gateway) Agents() http.Handler {
	e := g.engine()
	v1 := e.Group("/v1", g.authenticate)
	v1.POST(strings.TrimPrefix(callRoute, "/v1"), allow(auth.Agent), g.call)
	g.reads(v1)
	return e
}

// Operators is the handler of the operators' listener.
func (g *Gateway) Operators() http.Handler {
	e := g.engine()
	g.reads(e.Group("/v1", g.authenticate))
	e.GET("/openapi.json", g.authenticate, allow(auth.Agent, auth.Viewer, auth.Operator), g.getOpenAPI)
	return e
}

// reads are the routes of both listeners: who may read may, who may decide may.
func (g *Gateway) reads(v1 *gin.RouterGroup) {
	g.decisions(v1.Group("", allow(auth.Operator)))
	v1.Use(allow(auth.Agent, auth.Viewer, auth.Operator))
	v1.GET("/receipts", g.listReceipts)
	v1.GET("/receipts/:key", g.getReceipt)
	v1.GET("/receipts/:key/attempts", g.getAttempts)
	v1.GET("/receipts/:key/audit", g.getAudit)
	v1.GET("/tools", g.listTools)
	v1.GET("/stats", g.getStats)
	v1.GET("/events", g.getEvents)
}

func (g *Gateway) decisions(v1 *gin.RouterGroup) {
	for i := range verbs {
		v1.POST("/receipts/:key/"+verbs[i].name, g.decide(&verbs[i]))
	}
	v1.POST("/bulk/plan", g.planBulk)
	v1.POST("/bulk/run", g.runBulk)
}

func (g *Gateway) engine() *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.RedirectTrailingSlash = false // a redirected POST is a second request
	e.HandleMethodNotAllowed = true
	e.UseRawPath = true // %2F in a name is part of the name
	e.SetTrustedProxies(nil)
	e.Use(g.arrive)
	e.NoRoute(func(c *gin.Context) {
		writeProblem(c, intent.Errorf(intent.NotFound, nil, "There is nothing at this path."), 0)
	})
	e.NoMethod(func(c *gin.Context) {
		writeProblem(c, intent.Errorf(intent.MethodNotAllowed, nil, "This path does not take the method "+c.Request.Method+"."), 0)
	})
	e.GET("/livez", func(c *gin.Context) { c.String(http.StatusOK, "ok\n") }) // touches nothing
	e.GET("/readyz", g.readyz)
	return e
}

const principalKey = "latchkey.principal"

func principal(c *gin.Context) auth.Principal { return c.MustGet(principalKey).(auth.Principal) }

func (g *Gateway) authenticate(c *gin.Context) {
	p, err := g.Keys.Authenticate(c.Request.Header)
	if err != nil {
		writeProblem(c, err, 0)
		return
	}
	c.Set(principalKey, p)
}

// allow lets through who has one of the roles.
func allow(roles ...auth.Role) gin.HandlerFunc {
	return func(c *gin.Context) {
		if err := principal(c).Require(roles...); err != nil {
			writeProblem(c, err, 0)
		}
	}
}

// asError gives every failure of a read a category; the cause goes to the log.
func (g *Gateway) asError(c *gin.Context, err error) *intent.Error {
	if e, ok := errors.AsType[*intent.Error](err); ok {
		return e
	}
	switch {
	case errors.Is(err, intent.ErrNone):
		return intent.Errorf(intent.NotFound, err, "There is no such receipt.")
	case errors.Is(err, intent.ErrBadKey):
		return intent.Errorf(intent.BadRequest, err, "A receipt's key is 64 hex digits.")
	case errors.Is(err, intent.ErrBadCursor):
		return intent.Errorf(intent.BadRequest, err, "The cursor is not one that this list gave; start again without it.")
	}
	g.Log.Warn("a read failed", "error", err, "trace_id", span(c).TraceID())
	return intent.Errorf(intent.NotSent, err, "The gateway cannot read its store at the moment.")
}
