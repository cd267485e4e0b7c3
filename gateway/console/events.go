package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

const (
	maxStreams  = 64               // open at once in this replica
	maxChanges  = 200              // told in one event
	streamQuiet = 15 * time.Second // after which a comment shows that the stream lives
	writeWithin = 10 * time.Second
)

// events tells what changed, as server-sent events: "change" with the keys. Pages that get it
// fetch themselves again. It carries no content, so nothing in it needs escaping or masking.
func (c *Console) events(v *visit) error {
	select {
	case c.streams <- struct{}{}:
		defer func() { <-c.streams }()
	default:
		return intent.Errorf(intent.NotSent, nil, "Too many pages are open. This one goes on without live updates.")
	}
	_, mark, err := c.Engine.Changes(v.ctx(), v.who.Tenant, intentstore.Mark{}, maxChanges)
	if err != nil {
		return err
	}
	h := v.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	stream := http.NewResponseController(v.w)
	defer stream.SetWriteDeadline(time.Time{}) // the connection may serve another request
	write := func(text string) bool {
		stream.SetWriteDeadline(time.Now().Add(writeWithin))
		_, err := fmt.Fprint(v.w, text)
		return err == nil && stream.Flush() == nil
	}
	if !write("retry: 3000\n\n") {
		return nil
	}
	expired := time.NewTimer(v.expires.Sub(v.now))
	defer expired.Stop()
	tick := time.NewTicker(c.interval)
	defer tick.Stop()
	told := time.Now()
	for {
		select {
		case <-v.ctx().Done():
			return nil
		case <-c.closing:
			return nil
		case <-expired.C:
			write("event: end\ndata: {}\n\n") // the page signs out
			return nil
		case <-tick.C:
		}
		changes, next, err := c.Engine.Changes(v.ctx(), v.who.Tenant, mark, maxChanges)
		switch {
		case err != nil: // the page asks again by itself; the next look may succeed
		case len(changes) > 0:
			mark = next
			if !write("event: change\ndata: " + keysOf(changes) + "\n\n") {
				return nil
			}
			told = time.Now()
			continue
		default:
			mark = next
		}
		if time.Since(told) >= streamQuiet {
			if told = time.Now(); !write(": still here\n\n") {
				return nil
			}
		}
	}
}

// keysOf lists the keys that changed, each once.
func keysOf(changes []intentstore.Change) string {
	seen := make(map[intent.Key]bool, len(changes))
	keys := make([]string, 0, len(changes))
	for i := range changes {
		if k := changes[i].Key; !seen[k] {
			seen[k] = true
			keys = append(keys, k.String())
		}
	}
	b, _ := json.Marshal(struct { // strings alone: it cannot fail
		Keys []string `json:"keys"`
	}{keys})
	return string(b)
}
