package gateway

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/intent"
)

// bulkItem is one receipt of a run, at the version that the plan showed.
type bulkItem struct {
	key intent.Key
	tag once.Tag
}

// bulkLine tells of one receipt of a run. Result is done; skipped (it was not decided on,
// Code says why); refused (it moved after the plan, or the decision does not fit it); failed
// (the gateway could not say: the audit can).
type bulkLine struct {
	Key    string `json:"key"`
	Result string `json:"result"`
	Status string `json:"status,omitempty"` // of the receipt, as it stands
	ETag   string `json:"etag,omitempty"`
	Code   string `json:"code,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// bulkSummary is a run's last line. One that ends without it was cut off.
type bulkSummary struct {
	Summary bool           `json:"summary"`
	Total   int            `json:"total"`
	Results map[string]int `json:"results"`
	Stopped string         `json:"stopped,omitempty"` // why the rest was left alone
}

// runBulk answers POST /v1/bulk/run with a line of JSON per receipt, as each is done. Every
// one is an ordinary decision of its own, with its version and its line in the audit. It is
// aborted by closing the connection: nothing begins after that, and what was done is in the
// audit.
func (g *Gateway) runBulk(c *gin.Context) {
	b, body, bad := g.bulkOrder(c, "items")
	var items []bulkItem
	if bad == nil {
		items, bad = bulkItems(body.Member("items"))
	}
	if bad != nil {
		writeProblem(c, bad, 0)
		return
	}
	began := time.Now()
	// A run takes as long as it takes: the server's bound is for reading a request, and it
	// would end this one's context.
	control := http.NewResponseController(c.Writer)
	_ = control.SetReadDeadline(time.Time{})
	h := c.Writer.Header()
	h.Set("Content-Type", "application/x-ndjson")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy that buffers would hide the progress
	c.Writer.WriteHeader(http.StatusOK)

	ctx := c.Request.Context()
	summary := bulkSummary{Summary: true, Total: len(items), Results: map[string]int{}}
	write := func(line any) bool {
		_ = control.SetWriteDeadline(time.Now().Add(slowWrite)) // who does not read has left
		text, err := json.Marshal(line)
		if err == nil {
			_, err = c.Writer.Write(append(text, '\n'))
		}
		if err == nil {
			err = control.Flush()
		}
		return err == nil
	}
	for _, item := range items {
		if ctx.Err() != nil {
			summary.Stopped = "aborted"
		} else if g.draining() {
			summary.Stopped = "draining"
		}
		if summary.Stopped != "" {
			break
		}
		line := g.runOne(c, &b, item)
		summary.Results[line.Result]++
		if !write(line) {
			summary.Stopped = "aborted"
			break
		}
	}
	write(summary)
	g.Log.Info("bulk decision", "action", b.verb.name, "tenant", b.Tenant, "credential", b.By, "total", summary.Total,
		"results", summary.Results, "stopped", summary.Stopped, "duration", time.Since(began), "trace_id", span(c).TraceID())
}

func (g *Gateway) runOne(c *gin.Context, b *bulk, item bulkItem) bulkLine {
	line := bulkLine{Key: item.key.String()}
	skipped := func(code string) bulkLine {
		line.Result, line.Code, line.Detail = "skipped", code, skipText[code]
		return line
	}
	r, err := g.Engine.Receipt(c.Request.Context(), b.Tenant, item.key)
	if err == nil {
		line.Status, line.ETag = r.Status.String(), r.ETag()
		// What this very run settled before its answer was lost is for the engine to tell.
		if why := g.skip(b, &r); why != "" && why != skipSettled {
			return skipped(why)
		}
		d := b.decision
		d.Key, d.If = item.key, &item.tag
		var failed *intent.Error
		if r, failed = g.carryOut(c, b.verb, d); failed == nil {
			line.Result, line.Status, line.ETag = "done", r.Status.String(), r.ETag()
			return line
		}
		err = failed
	}
	e := g.asError(c, err)
	switch e.Category {
	case intent.NotFound:
		return skipped(skipNone)
	case intent.StateConflict, intent.PreconditionFailed:
		line.Result = "refused"
	default:
		line.Result = "failed"
	}
	line.Code, line.Detail = e.Category.Code(), e.Public
	return line
}

func bulkItems(v intent.Value) ([]bulkItem, *intent.Error) {
	if v.Kind() != intent.Array || len(v.Items()) == 0 || len(v.Items()) > bulkMost {
		return nil, badRequest("items is an array of 1 to " + strconv.Itoa(bulkMost) + ` objects such as {"key":"...","etag":"\"1.2\""}, as the plan gave them.`)
	}
	items := make([]bulkItem, 0, len(v.Items()))
	for _, one := range v.Items() {
		if bad := known(one, "An item", "key", "etag"); bad != nil {
			return nil, bad
		}
		key, err := intent.ParseKey(strings.ToLower(one.Member("key").Text()))
		tag, ok := parseTag(strings.Trim(one.Member("etag").Text(), `"`))
		if err != nil || !ok {
			return nil, badRequest("An item needs the key and the etag that the plan gave.")
		}
		if slices.ContainsFunc(items, func(i bulkItem) bool { return i.key == key }) {
			return nil, badRequest("An item is there twice.")
		}
		items = append(items, bulkItem{key, tag})
	}
	return items, nil
}
