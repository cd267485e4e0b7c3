package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/latchkey-gateway/latchkey/intentstore"
)

const (
	heartbeat = 15 * time.Second // so that neither side waits on a connection that is gone
	// catchUpMost is how many changes a watcher gets that comes back after a while. Who was
	// away for longer reads the list instead; the event "missed" says so.
	catchUpMost = 5000
	slowWrite   = 30 * time.Second // a client that takes nothing for so long is gone
)

type changeJSON struct {
	Key  string    `json:"key"`
	Tool string    `json:"tool"`
	Kind string    `json:"kind"`
	Word string    `json:"word"`
	At   time.Time `json:"at"`
}

// getEvents answers GET /v1/events with server-sent events: one "change" for each arrival and
// each line of the audit. The id of an event is where to go on from; only the last event of
// what was read together has one, so that a watcher that comes back with Last-Event-ID may
// get a change twice and never misses one. The stream ends when the gateway drains, and for
// a watcher that does not keep up; a browser comes back by itself.
func (g *Gateway) getEvents(c *gin.Context) {
	_, bad := parameters(c)
	from, resumes := intentstore.Mark{}, false
	if id := c.Request.Header.Get("Last-Event-ID"); bad == nil && id != "" {
		if from, resumes = parseMark(id); !resumes {
			bad = badRequest("Last-Event-ID is not the id of an event of this stream.")
		}
	}
	if bad != nil {
		writeProblem(c, bad, 0)
		return
	}
	ctx, tenant := c.Request.Context(), principal(c).Tenant
	batches, leave := g.feeds.watch(tenant)
	defer leave()

	s := stream{c.Writer, http.NewResponseController(c.Writer)}
	_ = s.control.SetReadDeadline(time.Time{}) // the server's bound is for reading a request
	h := c.Writer.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	c.Writer.WriteHeader(http.StatusOK)
	if s.write("retry: 2000\n\n") != nil {
		return
	}
	for missed := 0; resumes; {
		changes, next, err := g.Engine.Changes(ctx, tenant, from, feedBatch)
		if err != nil {
			g.Log.Warn("changes cannot be read", "error", err, "trace_id", span(c).TraceID())
			return // it comes back with the same id
		}
		if s.send(batch{changes, next}) != nil {
			return
		}
		from, resumes = next, len(changes) == feedBatch
		if missed += len(changes); resumes && missed >= catchUpMost {
			if s.write("event: missed\ndata: {}\n\n") != nil {
				return
			}
			resumes = false
		}
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		var err error
		select {
		case b, open := <-batches:
			if !open {
				return
			}
			err = s.send(b)
		case <-beat.C:
			err = s.write(": still here\n\n")
		case <-g.drained:
			return
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// stream is the writing side of one watcher.
type stream struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (s stream) send(b batch) error {
	var text []byte
	for i, change := range b.changes {
		data, err := json.Marshal(changeJSON{change.Key.String(), change.Tool, change.Kind, change.Word, change.At})
		if err != nil {
			return err
		}
		if i == len(b.changes)-1 {
			text = fmt.Appendf(text, "id: %s\n", markText(b.mark))
		}
		text = fmt.Appendf(text, "event: change\ndata: %s\n\n", data)
	}
	if len(b.changes) == 0 { // an id without data is no event: it only says where we are
		text = fmt.Appendf(text, "id: %s\n\n", markText(b.mark))
	}
	return s.write(string(text))
}

// write gives up on a watcher that does not read.
func (s stream) write(text string) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(slowWrite))
	if _, err := s.ResponseWriter.Write([]byte(text)); err != nil {
		return err
	}
	return s.control.Flush()
}
