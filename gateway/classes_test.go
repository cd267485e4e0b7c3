package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestReadOnly(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	w.services.answer(answer(200, `{"n":9007199254740993}`, "ETag", `"x"`))
	for _, b := range []string{`{"args":{"q":"a b&c"}}`, body("args", `{"q":"a b&c"}`)} {
		got := a.as(acme, "search", b, "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		r := got.receipt(200, "completed", "same_key")
		if r.Key != nil || r.Class != "read_only" || r.Replayed || string(r.Outcome.Body) != `{"n":9007199254740993}` || r.Outcome.Headers["etag"] != `"x"` ||
			r.TraceID != "0af7651916cd43dd8448eb211c80319c" || string(r.Intent.Args) != `{"q":"a b&c"}` {
			t.Errorf("%s", got.body)
		}
	}
	w.untouched(0, 0)
	if n := w.services.read(); n != 2 {
		t.Errorf("%d reads", n)
	}
}

func TestReadsThatFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tool   string
		script http.HandlerFunc
		code   int
		reads  int
	}{
		"404":         {"search", answer(404, `{"private":1}`), 502, 1},
		"401":         {"search", answer(401, `{"private":1}`), 502, 1},
		"429":         {"search", answer(429, `{"private":1}`, "Retry-After", "9"), 502, 1},
		"500":         {"search", answer(500, `{"private":1}`), 502, 1},
		"503 bounded": {"search", answer(503, `{"private":1}`), 502, 3},
		"502 bounded": {"search", answer(502, `{"private":1}`), 502, 3},
		"reset":       {"search", reset, 502, 3},
		"cut short":   {"search", cutShort, 502, 3},
		"no HTTP":     {"search", raw("private\r\n\r\n"), 502, 3},
		"never":       {"glance", nil, 504, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, a := oneReplica(t)
			if c.script == nil {
				c.script = w.services.hold(answer(200, `{}`))
			}
			w.services.answer(c.script)
			got := a.call(c.tool, `{"q":"x"}`)
			got.problem(c.code, "downstream_error", "same_key")
			got.hides("private")
			if n := w.services.read(); n != c.reads {
				t.Errorf("%d reads, want %d", n, c.reads)
			}
			w.untouched(0, 0)
		})
	}
	t.Run("then succeeds", func(t *testing.T) {
		t.Parallel()
		w, a := oneReplica(t)
		w.services.answer(inTurn(answer(503, ``), reset, answer(200, `[1]`)))
		if got := a.call("search", `{"q":"x"}`).receipt(200, "completed", "same_key"); string(got.Outcome.Body) != `[1]` {
			t.Errorf("%+v", got)
		}
	})
	t.Run("nobody listens", func(t *testing.T) {
		t.Parallel()
		w, a := oneReplica(t)
		w.unreachable.Store(true)
		a.call("search", `{"q":"x"}`).problem(502, "downstream_error", "same_key")
		w.unreachable.Store(false)
		a.call("search", `{"q":"x"}`).receipt(200, "completed", "same_key")
	})
}

// A read may be waited for by nobody; it has nothing to finish.
func TestReaderHangsUp(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	w.services.answer(w.services.hold(answer(200, `{}`)))
	ctx, hangUp := context.WithCancel(t.Context())
	go func() { <-w.services.arrived; hangUp() }()
	if _, err := w.send(ctx, "POST", a.agents.URL+"/v1/tools/search/calls", acme, `{"args":{"q":"x"}}`); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	w.untouched(0, 0)
}

// A caller that goes away stops the waiting, never the work.
func TestCallerHangsUpAfterSending(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"mail", "hot", "put"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			w, a := oneReplica(t)
			w.services.answer(w.services.hold(answer(200, `{"done":true}`)))
			ctx, hangUp := context.WithCancel(t.Context())
			go func() { <-w.services.arrived; hangUp() }()
			if _, err := w.send(ctx, "POST", a.agents.URL+"/v1/tools/"+tool+"/calls", acme, body()); !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
			key := w.services.entries()[0].key
			if tool != "hot" { // nobody was given the address of a hot one
				a.get("/v1/receipts/" + key).read("started")
			}
			w.services.release()
			if got := a.as(acme, tool, body()).completed(); *got.Key != key || string(got.Outcome.Body) != `{"done":true}` {
				t.Errorf("%+v", got)
			}
			if got := a.get("/v1/receipts/" + key + "?wait=10").read("completed"); string(got.Outcome.Body) != `{"done":true}` {
				t.Errorf("%+v", got)
			}
			w.effects(1)
		})
	}
}

// A crowd with one key, over three replicas: one effect, one answer for all.
func TestCrowd(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"mail", "hot"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			rs := []*replica{w.replica("a"), w.replica("b"), w.replica("c")}
			w.services.answer(w.services.hold(answer(200, `{"n":1}`)))
			const n = 90
			replies := make(chan reply)
			for i := range n {
				go func() { replies <- rs[i%3].as(acme, tool, body()) }()
			}
			<-w.services.arrived
			w.services.release()
			outcomes, replayed := map[string]int{}, 0
			for range n {
				got := (<-replies).completed()
				outcomes[fmt.Sprint(*got.Key, string(got.Outcome.Body), got.SettledAt, got.TraceID, got.Fence, got.Executions)]++
				if got.Replayed {
					replayed++
				}
			}
			if len(outcomes) != 1 || replayed != n-1 {
				t.Errorf("%d replayed: %v", replayed, outcomes)
			}
			w.effects(1)
		})
	}
}

// While the leader waits no longer than it said, others may wait longer.
func TestEachWaitsAsLongAsItSaid(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	w.services.answer(w.services.hold(answer(200, `{}`)))
	patient := make(chan reply)
	go func() { patient <- a.call("mail", `{"id":1}`) }()
	<-w.services.arrived
	a.call("mail", `{"id":1}`, "Prefer: wait=0").receipt(202, "started", "same_key")
	began := time.Now()
	a.call("mail", `{"id":1}`, "Prefer: wait=1").receipt(202, "started", "same_key")
	if waited := time.Since(began); waited < time.Second {
		t.Errorf("waited %v", waited)
	}
	w.services.release()
	(<-patient).completed()
	w.effects(1)
}

func TestTools(t *testing.T) {
	t.Parallel()
	_, a := oneReplica(t)
	var got struct {
		Tools []struct {
			Name, Description, Class, Breaker, Downstream string
			Schema                                        json.RawMessage `json:"input_schema"`
		}
	}
	list := a.get("/v1/tools")
	if err := json.Unmarshal(list.body, &got); err != nil || list.code != 200 {
		t.Fatal(err, list.code)
	}
	names := make([]string, 0, len(got.Tools))
	for _, tool := range got.Tools {
		names = append(names, tool.Name+" "+tool.Class)
		if tool.Breaker != "closed" || tool.Downstream != "office" {
			t.Errorf("%+v", tool)
		}
		if tool.Name == "mail" && (tool.Description != "Send an invoice by email" || !strings.Contains(string(tool.Schema), `"required"`)) {
			t.Errorf("%+v", tool)
		}
	}
	if want := "asked effectful, charge effectful, glance read_only, hot effectful, label effectful, mail effectful, note effectful, put idempotent, search read_only, slow effectful, vault irreversible, wire irreversible"; strings.Join(names, ", ") != want {
		t.Errorf("%v", names)
	}
	list.hides("downstream-token", "127.0.0.1")
}
