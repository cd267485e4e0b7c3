package gateway

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/latchkey-gateway/latchkey/intent"
)

// attemptsShown is how many arrivals one answer lists, the newest.
const attemptsShown = 1000

type attemptJSON struct {
	Time         time.Time `json:"time"`
	Decision     string    `json:"decision"`
	TraceID      string    `json:"trace_id"`
	SpanID       string    `json:"span_id"`
	Replica      string    `json:"replica"`
	Region       string    `json:"region"`
	CredentialID string    `json:"credential_id"`
}

type executionJSON struct {
	Fence      uint64     `json:"fence"`
	Status     string     `json:"status"`
	StartedAt  time.Time  `json:"started_at"`
	EndedAt    *time.Time `json:"ended_at"`
	HTTPStatus int        `json:"http_status,omitempty"`
	Retry      string     `json:"retry,omitempty"`
	Reason     string     `json:"reason"`
	TraceID    string     `json:"trace_id"`
	SpanID     string     `json:"span_id"`
	Replica    string     `json:"replica"`
	Region     string     `json:"region"`

	// Evidence is what lookups, people and late answers brought about it, oldest first.
	Evidence []evidenceJSON `json:"evidence"`
}

type evidenceJSON struct {
	Time     time.Time       `json:"time"`
	Action   string          `json:"action"`
	Actor    string          `json:"actor"`
	Evidence json.RawMessage `json:"evidence"`
}

// getAttempts answers GET /v1/receipts/{key}/attempts.
func (g *Gateway) getAttempts(c *gin.Context) {
	ctx := c.Request.Context()
	r, bad := g.named(c)
	if bad != nil {
		writeProblem(c, bad, 0)
		return
	}
	key := r.Key
	attempts, total, executions, err := g.Engine.Attempts(ctx, key, attemptsShown)
	var entries []intent.Entry
	if err == nil {
		entries, err = g.Engine.Audit(ctx, r.Tenant, key, auditShown)
	}
	if err != nil {
		writeProblem(c, g.asError(c, err), 0)
		return
	}
	arrivals, runs := make([]attemptJSON, 0, len(attempts)), make([]executionJSON, 0, len(executions))
	for _, a := range attempts {
		arrivals = append(arrivals, attemptJSON{a.At, a.Decision.String(), a.TraceID, a.SpanID, a.Replica, a.Region, a.Credential})
	}
	for _, x := range executions {
		run := executionJSON{Fence: x.Fence, Status: x.Status.String(), StartedAt: x.StartedAt, HTTPStatus: x.HTTPStatus,
			Reason: x.Reason, Replica: x.Replica, Region: x.Region, Evidence: evidenceOf(entries, x.Fence)}
		if !x.EndedAt.IsZero() {
			run.EndedAt = &x.EndedAt
		}
		if x.Status == intent.Rejected {
			run.Retry = x.Retry.String()
		}
		run.TraceID, run.SpanID = ids(x.Traceparent)
		runs = append(runs, run)
	}
	c.JSON(http.StatusOK, gin.H{"key": key.String(), "total": total, "attempts": arrivals, "executions": runs})
}

// named is the receipt in the path, if it is the caller's.
func (g *Gateway) named(c *gin.Context) (intent.Receipt, *intent.Error) {
	if _, bad := parameters(c); bad != nil {
		return intent.Receipt{}, bad
	}
	key, err := intent.ParseKey(strings.ToLower(c.Param("key")))
	if err != nil {
		return intent.Receipt{}, g.asError(c, err)
	}
	r, err := g.Engine.Receipt(c.Request.Context(), principal(c).Tenant, key)
	if err != nil {
		return r, g.asError(c, err)
	}
	return r, nil
}

func evidenceOf(entries []intent.Entry, fence uint64) []evidenceJSON {
	found := make([]evidenceJSON, 0)
	for _, e := range entries {
		if len(e.Evidence) > 0 && fenceOf(e.Before) == fence {
			found = append(found, evidenceJSON{e.At, e.Action.String(), e.Actor, e.Evidence})
		}
	}
	return found
}

// fenceOf reads the fence of a Receipt.Standing.
func fenceOf(standing string) uint64 {
	_, version, _ := strings.Cut(standing, " ")
	tag, _ := parseTag(version)
	return tag.Fence
}

// ids takes a traceparent apart.
func ids(traceparent string) (traceID, spanID string) {
	if parts := strings.Split(traceparent, "-"); len(parts) == 4 {
		return parts[1], parts[2]
	}
	return "", ""
}

// auditShown is how many entries one answer lists, the newest.
const auditShown = 1000

type entryJSON struct {
	ID       int64           `json:"id"`
	Time     time.Time       `json:"time"`
	Actor    string          `json:"actor"`
	Action   string          `json:"action"`
	Reason   string          `json:"reason"`
	Before   string          `json:"before"`
	After    string          `json:"after"`
	Evidence json.RawMessage `json:"evidence"`
	TraceID  string          `json:"trace_id"`
	SpanID   string          `json:"span_id"`
}

// getAudit answers GET /v1/receipts/{key}/audit, oldest first.
func (g *Gateway) getAudit(c *gin.Context) {
	r, bad := g.named(c)
	if bad != nil {
		writeProblem(c, bad, 0)
		return
	}
	entries, err := g.Engine.Audit(c.Request.Context(), r.Tenant, r.Key, auditShown)
	if err != nil {
		writeProblem(c, g.asError(c, err), 0)
		return
	}
	shown := make([]entryJSON, 0, len(entries))
	for _, e := range entries {
		line := entryJSON{ID: e.ID, Time: e.At, Actor: e.Actor, Action: e.Action.String(), Reason: e.Reason,
			Before: e.Before, After: e.After, Evidence: e.Evidence}
		line.TraceID, line.SpanID = ids(e.Traceparent)
		shown = append(shown, line)
	}
	c.JSON(http.StatusOK, gin.H{"key": r.Key.String(), "entries": shown})
}
