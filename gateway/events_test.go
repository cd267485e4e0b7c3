package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore/memstore"
)

// event is one server-sent event as a client dispatches it.
type event struct{ name, data, id string }

// watcher reads a stream of events in its own goroutine.
type watcher struct {
	*replica
	events chan event // closed at the end of the stream
	last   string     // id to go on from; read it after the channel gave something
	stop   context.CancelFunc
}

func (r *replica) watch(server, credential string, headers ...string) *watcher {
	r.w.Helper()
	ctx, stop := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", server+"/v1/events", nil)
	if err != nil {
		r.w.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+credential)
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.w.Fatal(err)
	}
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" || res.Header.Get("Cache-Control") != "no-store" {
		r.w.Fatalf("HTTP %d %v", res.StatusCode, res.Header)
	}
	w := &watcher{replica: r, events: make(chan event, 1000), stop: stop}
	go func() {
		defer res.Body.Close()
		defer close(w.events)
		var e event
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch field {
			case "event":
				e.name = value
			case "data":
				e.data = value
			case "id":
				e.id = value
			case "":
				w.events <- e
				e = event{}
			}
		}
	}()
	r.w.Cleanup(stop)
	return w
}

// next is the next change; the store is asked about once a second.
func (w *watcher) next() map[string]string {
	w.w.Helper()
	for {
		select {
		case e, open := <-w.events:
			if !open {
				w.w.Fatal("the stream ended")
			}
			if e.id != "" {
				w.last = e.id
			}
			if e.name == "change" {
				var change map[string]string
				if err := json.Unmarshal([]byte(e.data), &change); err != nil {
					w.w.Fatalf("%v: %s", err, e.data)
				}
				return change
			}
		case <-time.After(20 * time.Second):
			w.w.Fatal("no change in 20s")
		}
	}
}

// begun returns when the stream has said where it is.
func (w *watcher) begun() *watcher {
	w.w.Helper()
	for e := range w.events {
		if e.id != "" {
			w.last = e.id
			return w
		}
	}
	w.w.Fatal("the stream ended")
	return nil
}

func (w *watcher) ends() {
	w.w.Helper()
	timeout := time.After(20 * time.Second)
	for {
		select {
		case _, open := <-w.events:
			if !open {
				return
			}
		case <-timeout:
			w.w.Fatal("the stream goes on")
		}
	}
}

// flush writes the journal of the replica.
func (r *replica) flush(key string) { r.get("/v1/receipts/" + key + "/attempts") }

func TestEvents(t *testing.T) {
	t.Parallel()
	_, a := oneReplica(t)
	ops, theirs := a.watch(a.operators.URL, operator).begun(), a.watch(a.agents.URL, globex).begun()
	key := *a.call("wire", `{"amount":1}`).receipt(202, "awaiting_approval", "never").Key
	a.flush(key)
	change := ops.next()
	if at, err := time.Parse(time.RFC3339Nano, change["at"]); err != nil || time.Since(at) > time.Minute {
		t.Errorf("at %s", change["at"])
	}
	delete(change, "at")
	if fmt.Sprint(change) != "map[key:"+key+" kind:attempt tool:wire word:pending]" {
		t.Errorf("%v", change)
	}
	a.decide(operator, key, "decline", `{"reason":"SECRET"}`).decided("rejected")
	if change := ops.next(); change["kind"] != "audit" || change["word"] != "decline" {
		t.Errorf("%v", change)
	}
	seen := ops.last
	ops.stop()
	key = *a.as(acme, "mail", callBody("2", `{"id":2}`)).completed().Key // while nobody of acme watches
	a.flush(key)
	again := a.watch(a.agents.URL, acme, "Last-Event-ID: "+seen)
	if change := again.next(); change["key"] != key || change["word"] != "executed" {
		t.Errorf("%v", change)
	}
	mine := *a.as(globex, "mail", callBody("2", `{"id":2}`)).completed().Key
	a.do("GET", a.agents.URL+"/v1/receipts/"+mine+"/attempts", globex, "")
	if change := theirs.next(); change["key"] != mine {
		t.Errorf("another tenant's: %v", change)
	}
	for _, bad := range []string{"x", "1", "1.2.3", "-5.1", "1.-9"} {
		a.do("GET", a.operators.URL+"/v1/events", operator, "", "Last-Event-ID: "+bad).problem(400, "bad_request", "corrected")
	}
	a.do("GET", a.operators.URL+"/v1/events", "", "").problem(401, "unauthenticated", "corrected")
}

// One question at a time is asked for all who watch a tenant, and none when nobody does.
func TestEventsAreReadOnceForAll(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	asked := make(chan struct{}, 1000)
	w.store.SetFault(func(v memstore.Verb, _ intent.Key) memstore.Fault {
		if v == memstore.Changes {
			asked <- struct{}{}
		}
		return memstore.Healthy
	})
	var watchers []*watcher
	for range 20 {
		watchers = append(watchers, a.watch(a.operators.URL, operator).begun())
	}
	key := *a.call("mail", `{"id":1}`).completed().Key
	a.flush(key)
	began, questions := time.Now(), len(asked)
	for _, one := range watchers {
		if change := one.next(); change["key"] != key {
			t.Errorf("%v", change)
		}
	}
	if most := questions + 3 + int(time.Since(began)/(500*time.Millisecond)); len(asked) > most {
		t.Errorf("%d questions, want at most %d", len(asked), most)
	}
	a.gateway.Drain()
	for _, one := range watchers {
		one.ends()
	}
}

// A watcher outlives the time that the server gives a request to be read.
func TestEventsOutliveTheReadTimeout(t *testing.T) {
	t.Parallel()
	_, a := oneReplica(t)
	server := httptest.NewUnstartedServer(a.gateway.Operators())
	server.Config.ReadTimeout = 300 * time.Millisecond
	server.Start()
	t.Cleanup(server.CloseClientConnections)
	stream := a.watch(server.URL, operator).begun()
	begun := time.Now()
	for step := 0; time.Since(begun) < 2*server.Config.ReadTimeout; step++ {
		key := *a.as(acme, "mail", callBody(fmt.Sprint(step), `{"id":1}`)).completed().Key
		a.flush(key)
		stream.next()
	}
	a.gateway.Drain()
	stream.ends()
}
