package gateway

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
)

// Dispensable is the one check of Options.Ready without which durable calls go on.
const Dispensable = "redis"

// readyz asks everything that a call needs to be written to. A gateway whose Redis is down
// still answers durable calls, but it is not what a load balancer should prefer; one that
// would rather have it than none asks with degraded=ok.
func (g *Gateway) readyz(c *gin.Context) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), 2*time.Second)
	defer cancel()
	state := make(map[string]string, len(g.Ready)+1)
	ready, degraded := true, false
	var mu sync.Mutex
	var checks sync.WaitGroup
	for name, check := range g.Ready {
		checks.Go(func() {
			err := check(ctx)
			mu.Lock()
			defer mu.Unlock()
			state[name] = "ok"
			if err != nil {
				// The cause may name hosts; it belongs in the log.
				state[name] = "cannot be written to"
				degraded = degraded || name == Dispensable
				ready = ready && name == Dispensable
				g.Log.Warn("not ready", "check", name, "error", err)
			}
		})
	}
	checks.Wait()
	if g.draining() {
		state["gateway"], ready = "draining", false
	}
	ready = ready && (!degraded || c.Query("degraded") == "ok")
	status := http.StatusOK
	if !ready {
		status = http.StatusServiceUnavailable
	}
	answer := gin.H{"ready": ready, "degraded": degraded, "checks": state}
	if len(g.Faults) > 0 {
		answer["faults"] = g.Faults
	}
	c.JSON(status, answer)
}
