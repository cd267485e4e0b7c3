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

	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// bulkMost is how many receipts one plan or run holds: as many as a person can still look
// through. What is left over is planned again afterwards.
const bulkMost = 1000

// bulkVerbs are the decisions that may be made about many receipts at once. Never about
// irreversible tools: each of those is looked at by itself.
var bulkVerbs = []string{"resolve", "reconcile", "wait"}

// bulk is a decision about many receipts.
type bulk struct {
	verb *verb
	decision
}

// bulkOrder reads the part of a body that plan and run share.
func (g *Gateway) bulkOrder(c *gin.Context, members ...string) (bulk, intent.Value, *intent.Error) {
	p := principal(c)
	b := bulk{decision: decision{Order: once.Order{Tenant: p.Tenant, By: p.ID, Span: span(c)}}}
	if _, bad := parameters(c); bad != nil {
		return b, intent.Value{}, bad
	}
	body, bad := g.object(c, append(members, "action", "reason", "outcome", "retry", "for")...)
	if bad != nil {
		return b, body, bad
	}
	action := body.Member("action").Text()
	if !slices.Contains(bulkVerbs, action) {
		return b, body, badRequest("action is one of " + strings.Join(bulkVerbs, ", ") + ".")
	}
	b.verb = verbNamed(action)
	for _, name := range []string{"outcome", "retry", "for"} {
		if body.Member(name).Exists() && !slices.Contains(b.verb.members, name) {
			return b, body, badRequest(name + " does not go with action " + action + ".")
		}
	}
	if b.Reason, bad = reason(body, false); bad != nil {
		return b, body, bad
	}
	return b, body, b.verb.read(body, &b.decision)
}

// would says in words what the decision does.
func (b *bulk) would() string {
	switch {
	case b.verb.action == intent.ActionLookup:
		return "ask the downstream now whether it happened"
	case b.verb.action == intent.ActionWait:
		return "leave it unknown and check again in " + b.pause.String()
	case b.resolution.Status == intent.Completed:
		return "settle it as completed: callers are told that it happened"
	case b.resolution.Retry == intent.RetryCorrected:
		return "settle it as rejected: callers are told that it did not happen, and only a corrected call may act"
	}
	return "settle it as rejected: callers are told that it did not happen, and the same call may act again"
}

// Why a receipt is left out. Words for programs; skipText says the same to people.
const (
	skipIrreversible = "irreversible"
	skipAwaiting     = "awaiting_approval"
	skipStarted      = "started"
	skipSettled      = "settled"
	skipNone         = "not_found"
	skipNoLookup     = "no_lookup"
)

var skipText = map[string]string{
	skipIrreversible: "Nobody can undo this tool: decide on each receipt by itself.",
	skipAwaiting:     "It waits for approval: approve or decline it by itself.",
	skipStarted:      "It is still running.",
	skipSettled:      "It is settled already.",
	skipNone:         "There is no such receipt.",
	skipNoLookup:     "Its tool has no lookup that could be made.",
}

// skip says why a receipt is left out; "" where the decision can be made.
func (g *Gateway) skip(b *bulk, r *intent.Receipt) string {
	tool, known := g.Catalogue.Tool(r.Tool)
	switch {
	case r.Class == intent.Irreversible || known && tool.Class == intent.Irreversible:
		return skipIrreversible
	case r.Status == intent.AwaitingApproval:
		return skipAwaiting
	case r.Status == intent.Started:
		return skipStarted
	case r.Status != intent.Unknown:
		return skipSettled
	case b.verb.action == intent.ActionLookup && (!known || tool.Lookup == nil):
		return skipNoLookup
	}
	return ""
}

type plannedJSON struct {
	Key        string          `json:"key"`
	ETag       string          `json:"etag"`
	Tool       string          `json:"tool"`
	RunID      string          `json:"run_id"`
	StepID     string          `json:"step_id"`
	Status     string          `json:"status"`
	AgeSeconds int64           `json:"age_seconds"` // since it became unknown
	Parked     string          `json:"parked"`
	Checks     int             `json:"checks"`
	Evidence   json.RawMessage `json:"evidence"` // null where there is none, or more than a plan shows
	Would      string          `json:"would"`
}

type skippedJSON struct {
	Key    string `json:"key"`
	ETag   string `json:"etag,omitempty"`
	Tool   string `json:"tool,omitempty"`
	Status string `json:"status,omitempty"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// evidenceShown bounds the evidence of one receipt in a plan.
const evidenceShown = 2 << 10

// planBulk answers POST /v1/bulk/plan: what a run would do, and to what. It changes nothing.
func (g *Gateway) planBulk(c *gin.Context) {
	b, body, bad := g.bulkOrder(c, "filter", "keys")
	var rows []intent.Receipt
	var missing []string
	var more bool
	if bad == nil {
		rows, missing, more, bad = g.selected(c, body)
	}
	if bad != nil {
		writeProblem(c, bad, 0)
		return
	}
	items, skipped := make([]plannedJSON, 0), make([]skippedJSON, 0)
	now := time.Now()
	for i := range rows {
		r := &rows[i]
		if why := g.skip(&b, r); why != "" {
			skipped = append(skipped, skippedJSON{r.Key.String(), r.ETag(), r.Tool, r.Status.String(), why, skipText[why]})
			continue
		}
		item := plannedJSON{Key: r.Key.String(), ETag: r.ETag(), Tool: r.Tool, RunID: r.RunID, StepID: r.StepID, Status: r.Status.String(),
			AgeSeconds: int64(now.Sub(r.UnknownSince) / time.Second), Parked: r.Parked.String(), Checks: r.Checks, Would: b.would()}
		if len(r.Evidence) <= evidenceShown {
			item.Evidence = r.Evidence
		}
		items = append(items, item)
	}
	for _, key := range missing {
		skipped = append(skipped, skippedJSON{Key: key, Code: skipNone, Detail: skipText[skipNone]})
	}
	c.JSON(http.StatusOK, gin.H{"action": b.verb.name, "items": items, "skipped": skipped, "limit": bulkMost, "more": more})
}

// selected reads the receipts that a plan is about: those of a filter, newest first, or
// those with the given keys.
func (g *Gateway) selected(c *gin.Context, body intent.Value) (rows []intent.Receipt, missing []string, more bool, bad *intent.Error) {
	keys, filter := body.Member("keys"), body.Member("filter")
	if keys.Exists() == filter.Exists() {
		return nil, nil, false, badRequest("Either filter (an object with the list's parameters) or keys (an array) says what it is about.")
	}
	ctx, tenant := c.Request.Context(), principal(c).Tenant
	if keys.Exists() {
		named, bad := bulkKeys(keys)
		for _, key := range named {
			switch r, err := g.Engine.Receipt(ctx, tenant, key); {
			case err == nil:
				rows = append(rows, r)
			case errors.Is(err, intent.ErrNone):
				missing = append(missing, key.String())
			default:
				return nil, nil, false, g.asError(c, err)
			}
		}
		return rows, missing, false, bad
	}
	q, bad := bulkFilter(filter)
	if bad != nil {
		return nil, nil, false, bad
	}
	q.Tenant, q.Limit = tenant, intentstore.MaxLimit
	for {
		page, next, err := g.Engine.List(ctx, q)
		if err != nil {
			return nil, nil, false, g.asError(c, err)
		}
		rows = append(rows, page...)
		if next == "" || len(rows) >= bulkMost {
			return rows[:min(len(rows), bulkMost)], nil, next != "" || len(rows) > bulkMost, nil
		}
		q.Cursor = next
	}
}

func bulkKeys(keys intent.Value) ([]intent.Key, *intent.Error) {
	if keys.Kind() != intent.Array || len(keys.Items()) > bulkMost {
		return nil, badRequest("keys is an array of at most " + strconv.Itoa(bulkMost) + " keys.")
	}
	named := make([]intent.Key, 0, len(keys.Items()))
	for _, v := range keys.Items() {
		key, err := intent.ParseKey(strings.ToLower(v.Text()))
		if err != nil || slices.Contains(named, key) {
			return nil, badRequest("keys holds one that is not 64 hex digits, or one twice.")
		}
		named = append(named, key)
	}
	return named, nil
}

// bulkFilter reads the list's parameters, but for those that make pages.
func bulkFilter(filter intent.Value) (intentstore.Query, *intent.Error) {
	if filter.Kind() != intent.Object {
		return intentstore.Query{}, badRequest("filter is an object with the list's parameters.")
	}
	allowed := slices.DeleteFunc(slices.Clone(listParameters), func(s string) bool { return s == "limit" || s == "cursor" })
	if bad := known(filter, "filter", allowed...); bad != nil {
		return intentstore.Query{}, bad
	}
	values := url.Values{}
	for _, m := range filter.Members() {
		switch m.Value.Kind() {
		case intent.String:
			values.Set(m.Name, m.Value.Text())
		case intent.True:
			values.Set(m.Name, "true")
		default:
			return intentstore.Query{}, badRequest("filter's " + m.Name + " must be a string.")
		}
	}
	return listQuery(values)
}
