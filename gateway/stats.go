package gateway

import (
	"net/http"
	"net/url"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

const (
	statsSpan  = 24 * time.Hour // what is counted unless it is said
	statsSteps = 1500           // most steps of one answer
)

type countJSON struct {
	At   time.Time `json:"at"`
	Tool string    `json:"tool"`
	Kind string    `json:"kind"`
	Word string    `json:"word"`
	N    int64     `json:"n"`
}

type openJSON struct {
	Tool          string    `json:"tool"`
	What          string    `json:"what"`
	N             int64     `json:"n"`
	OldestAt      time.Time `json:"oldest_at"`
	OldestSeconds int64     `json:"oldest_seconds"`
}

// getStats answers GET /v1/stats?since=&until=&step=: what happened, in steps, and what is
// open now.
func (g *Gateway) getStats(c *gin.Context) {
	now := time.Now()
	values, bad := parameters(c, "since", "until", "step")
	var q intentstore.StatsQuery
	if bad == nil {
		q, bad = statsQuery(values, now)
	}
	if bad != nil {
		writeProblem(c, bad, 0)
		return
	}
	q.Tenant = principal(c).Tenant
	stats, err := g.Engine.Stats(c.Request.Context(), q)
	if err != nil {
		writeProblem(c, g.asError(c, err), 0)
		return
	}
	counts, open := make([]countJSON, 0, len(stats.Counts)), make([]openJSON, 0, len(stats.Open))
	totals := map[string]map[string]int64{"attempt": {}, "audit": {}, "execution": {}}
	for _, n := range stats.Counts {
		counts = append(counts, countJSON{n.At, n.Tool, n.Kind, n.Word, n.N})
		if totals[n.Kind] == nil {
			totals[n.Kind] = map[string]int64{}
		}
		totals[n.Kind][n.Word] += n.N
	}
	for _, o := range stats.Open {
		open = append(open, openJSON{o.Tool, o.What, o.N, o.Oldest, max(0, int64(now.Sub(o.Oldest)/time.Second))})
	}
	c.JSON(http.StatusOK, gin.H{"since": q.Since, "until": q.Until, "step": q.Step.String(), "counts": counts, "totals": totals, "open": open})
}

// statsQuery reads the times. The step is one that gives a readable plot unless it is said.
func statsQuery(values url.Values, now time.Time) (intentstore.StatsQuery, *intent.Error) {
	q := intentstore.StatsQuery{Until: now}
	if bad := times(values, map[string]*time.Time{"since": &q.Since, "until": &q.Until}); bad != nil {
		return q, bad
	}
	if values.Get("since") == "" {
		q.Since = q.Until.Add(-statsSpan)
	}
	span := q.Until.Sub(q.Since)
	if span <= 0 {
		return q, badRequest("since must be before until.")
	}
	q.Step = (span/100 + time.Minute - 1).Truncate(time.Minute)
	if s := values.Get("step"); s != "" {
		var err error
		if q.Step, err = time.ParseDuration(s); err != nil || q.Step < time.Minute || q.Step%time.Minute != 0 {
			return q, badRequest("step is a whole number of minutes, such as 5m or 1h.")
		}
	}
	if span/q.Step >= statsSteps {
		return q, badRequest("That is more than 1500 steps: make step longer or the time shorter.")
	}
	return q, nil
}

// times reads parameters that are times.
func times(values url.Values, to map[string]*time.Time) *intent.Error {
	for name, to := range to {
		if s := values.Get(name); s != "" {
			t, err := time.Parse(time.RFC3339, s)
			if err != nil {
				return intent.Errorf(intent.BadRequest, err, name+" is a time as in RFC 3339, such as 2026-01-31T12:00:00Z.")
			}
			*to = t
		}
	}
	return nil
}
