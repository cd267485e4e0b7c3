package gateway

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// getReceipt answers GET /v1/receipts/{key}?wait=N.
func (g *Gateway) getReceipt(c *gin.Context) {
	key, err := intent.ParseKey(strings.ToLower(c.Param("key")))
	if err != nil {
		writeProblem(c, g.asError(c, err), 0)
		return
	}
	values, bad := parameters(c, "wait")
	var wait time.Duration
	if bad == nil {
		wait, bad = g.waitParameter(values)
	}
	if bad != nil {
		writeProblem(c, bad, 0)
		return
	}
	r, err := g.Engine.AwaitReceipt(c.Request.Context(), principal(c).Tenant, key, wait)
	if err != nil {
		writeProblem(c, g.asError(c, err), 0)
		return
	}
	g.writeReceipt(c, r)
}

func (g *Gateway) waitParameter(q url.Values) (time.Duration, *intent.Error) {
	s := q.Get("wait")
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, badRequest("wait must be a whole number of seconds.")
	}
	return min(time.Duration(min(n, longestWait))*time.Second, g.Wait), nil
}

// parameters reads the query. What is malformed, unknown or there twice is refused: a
// filter that was silently dropped would show more than was asked for.
func parameters(c *gin.Context, allowed ...string) (url.Values, *intent.Error) {
	values, err := url.ParseQuery(c.Request.URL.RawQuery)
	if err != nil {
		return nil, intent.Errorf(intent.BadRequest, err, "The query is not well-formed.")
	}
	for name, given := range values {
		if !slices.Contains(allowed, name) {
			return nil, badRequest("There is a parameter that is not one of " + strings.Join(allowed, ", ") + ".")
		}
		if len(given) > 1 {
			return nil, badRequest("The parameter " + name + " is there twice.")
		}
	}
	return values, nil
}

var listParameters = []string{"run_id", "step_id", "tool", "status", "since", "until", "q", "attention", "limit", "cursor"}

// listReceipts answers GET /v1/receipts, newest first.
func (g *Gateway) listReceipts(c *gin.Context) {
	values, bad := parameters(c, listParameters...)
	var q intentstore.Query
	if bad == nil {
		q, bad = listQuery(values)
	}
	if bad != nil {
		writeProblem(c, bad, 0)
		return
	}
	q.Tenant = principal(c).Tenant
	rows, next, err := g.Engine.List(c.Request.Context(), q)
	if err != nil {
		writeProblem(c, g.asError(c, err), 0)
		return
	}
	b := append(make([]byte, 0, 1024), `{"receipts":[`...)
	for i := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = rows[i].AppendJSON(b, false)
	}
	b = text(b, `],"next_cursor":`, next)
	if next != "" {
		values.Set("cursor", next)
		c.Writer.Header().Set("Link", `</v1/receipts?`+values.Encode()+`>; rel="next"`)
	}
	writeJSON(c, http.StatusOK, append(b, '}'))
}

func listQuery(values url.Values) (intentstore.Query, *intent.Error) {
	q := intentstore.Query{Limit: 50}
	q.RunID, q.StepID, q.Tool, q.Q, q.Cursor = values.Get("run_id"), values.Get("step_id"), values.Get("tool"), values.Get("q"), values.Get("cursor")
	for _, s := range []string{q.RunID, q.StepID, q.Tool, q.Q} {
		if s != "" && intent.CheckID(s) != "" {
			return q, badRequest("run_id, step_id, tool and q are up to 255 bytes of UTF-8 without control characters.")
		}
	}
	if s := values.Get("status"); s != "" {
		status, err := intent.ParseStatus(s)
		if err != nil {
			return q, intent.Errorf(intent.BadRequest, err, "status is one of awaiting_approval, started, unknown, completed, rejected.")
		}
		q.Status = status
	}
	switch values.Get("attention") {
	case "":
	case "true":
		q.Attention = true
	default:
		return q, badRequest("attention is true or is not given.")
	}
	if bad := times(values, map[string]*time.Time{"since": &q.Since, "until": &q.Until}); bad != nil {
		return q, bad
	}
	if s := values.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 200 {
			return q, badRequest("limit is a whole number from 1 to 200.")
		}
		q.Limit = n
	}
	return q, nil
}

type toolJSON struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Class       string          `json:"class"`
	Durability  string          `json:"durability,omitempty"`
	OnUnknown   string          `json:"on_unknown,omitempty"`
	Timeout     string          `json:"timeout"`
	Downstream  string          `json:"downstream"`
	Breaker     string          `json:"breaker"`
	InFlight    int             `json:"in_flight"`
	InputSchema json.RawMessage `json:"input_schema"`
}

// listTools answers GET /v1/tools.
func (g *Gateway) listTools(c *gin.Context) {
	tools := make([]toolJSON, 0)
	for _, t := range g.Catalogue.Tools() {
		tool := toolJSON{Name: t.Name, Description: t.Description, Class: t.Class.String(), OnUnknown: string(t.OnUnknown),
			Timeout: t.Timeout.String(), Downstream: t.Downstream, Breaker: g.Client.BreakerState(t.Downstream),
			InFlight: g.Client.InFlight(t.Downstream), InputSchema: t.Schema}
		if t.Class != intent.ReadOnly {
			tool.Durability = t.Durability.String()
		}
		tools = append(tools, tool)
	}
	c.JSON(http.StatusOK, gin.H{"tools": tools})
}

func writeJSON(c *gin.Context, status int, body []byte) {
	c.Writer.Header().Set("Content-Type", "application/json")
	c.Writer.WriteHeader(status)
	c.Writer.Write(append(body, '\n'))
}
