package fleet

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/history"
)

// scene is a fleet of one tenant pair before a gateway that always answers the same.
func scene(t *testing.T, status int, headers map[string]string, body string) (f *Fleet, requests func() []string) {
	t.Helper()
	var mu sync.Mutex
	var seen []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
		mu.Unlock()
		for k, v := range headers {
			w.Header().Set(k, v)
		}
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"receipts":[],"next_cursor":""}`)
			return
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(web.Close)
	habits := Usual
	habits.Rewords = 0
	f = New(Config{Seed: 1, Rate: 1, Duration: time.Second, Habits: habits, Patience: 20 * time.Millisecond,
		Tenants: [2]Tenant{{"acme", "a", "ao"}, {"globex", "g", "go"}}, Doors: []string{strings.TrimPrefix(web.URL, "http://")}})
	return f, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}

// one is a plain intent.
func one(obeys bool) Intent {
	return Intent{Tool: history.ToolNamed("mail"), Ref: "r1", RunID: "run", StepID: "1", To: "a@x", Memo: "m", Obeys: obeys,
		Wait: 3 * time.Second, Copies: []Copy{{Why: history.First}}}
}

const receiptText = `{"key":"k1","tool":"mail","tenant":"acme","status":"%s","retry":"%s","outcome":null,"intent":{"args":{"ref":"r1"}}}`

// How often an agent sends a call is what its library, its host and its obedience say.
func TestHowOftenAgentsSend(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		obeys   bool
		status  int
		headers map[string]string
		body    string
		calls   int
		last    history.Why
	}{
		{"done", true, 200, nil, fmt.Sprintf(receiptText, "completed", "never"), 1, history.First},
		{"unknown, obeyed", true, 202, nil, fmt.Sprintf(receiptText, "unknown", "never"), 1, history.First},
		{"unknown, ignored", false, 202, nil, fmt.Sprintf(receiptText, "unknown", "never"), 3, history.Ignoring},
		{"not sent", true, 503, nil, `{"status":503,"code":"not_sent","retry":"same_key"}`, 9, history.SDKRetry},
		{"503 that says no", true, 503, map[string]string{"X-Should-Retry": "false"}, `{"status":503,"code":"x","retry":"never"}`, 3, history.HostRetry},
		{"conflict, obeyed", true, 409, map[string]string{"X-Should-Retry": "false"}, `{"status":409,"code":"step_conflict","retry":"never","earlier_key":"k0"}`, 1, history.First},
		{"conflict, ignored", false, 409, map[string]string{"X-Should-Retry": "false"}, `{"status":409,"code":"step_conflict","retry":"never","earlier_key":"k0"}`, 9, history.SDKRetry},
		{"rejected", true, 424, nil, fmt.Sprintf(receiptText, "rejected", "corrected"), 3, history.HostRetry},
		{"no such tool", true, 404, nil, `{"status":404,"code":"not_found"}`, 1, history.First},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, _ := scene(t, c.status, c.headers, c.body)
			f.agent(one(c.obeys), 0).live(t.Context())
			tries := f.attempts[0]
			if len(tries) != c.calls || tries[len(tries)-1].Why != c.last {
				t.Errorf("%d calls, the last of them %s; want %d and %s", len(tries), tries[len(tries)-1].Why, c.calls, c.last)
			}
		})
	}
}

// An agent that dies says nothing more and leaves what it sent.
func TestAgentsDie(t *testing.T) {
	t.Parallel()
	f, requests := scene(t, 503, nil, `{"status":503,"code":"not_sent","retry":"same_key"}`)
	it := one(true)
	it.Copies[0].Dies = time.Millisecond
	began := time.Now()
	f.agent(it, 0).live(t.Context())
	if n := len(requests()); n > 2 || time.Since(began) > 2*time.Second {
		t.Errorf("it sent %d requests in %s", n, time.Since(began))
	}
}

// The last word is not more than what is known.
func TestLastWords(t *testing.T) {
	t.Parallel()
	completed := history.Attempt{HTTP: 200, Status: "completed", Key: "k1"}
	unknown := history.Attempt{HTTP: 202, Status: "unknown", Key: "k1"}
	rejected := history.Attempt{HTTP: 424, Status: "rejected", Key: "k1"}
	unsent := history.Attempt{HTTP: 503, Code: "not_sent"}
	lost := history.Attempt{Err: "EOF"}
	conflict := history.Attempt{HTTP: 409, Code: "step_conflict"}
	for _, c := range []struct {
		name  string
		tries []history.Attempt
		said  history.Saying
	}{
		{"completed", []history.Attempt{lost, unknown, completed}, history.Done},
		{"unknown", []history.Attempt{rejected, unknown}, history.Waiting},
		{"conflict", []history.Attempt{conflict}, history.Waiting},
		{"rejected", []history.Attempt{rejected}, history.NotDone},
		{"not sent", []history.Attempt{unsent}, history.NotDone},
		{"lost, then not sent", []history.Attempt{lost, unsent}, history.Unclear},
		{"rejected, and one is still out", []history.Attempt{rejected, lost}, history.Unclear},
		{"nothing", nil, history.Unclear},
	} {
		f, _ := scene(t, 200, nil, "")
		if said, _ := f.judge(c.tries); said != c.said {
			t.Errorf("%s: %s, want %s", c.name, said, c.said)
		}
		f.attempts[0] = c.tries
		f.conclude(t.Context(), one(true), time.Now()) // the list of receipts is empty
		if said := f.seen.Words[0].Said; said == history.Done != (c.said == history.Done) || said == history.NotDone && c.name != "not sent" {
			t.Errorf("%s: in the end %s", c.name, said)
		}
	}
}

// Direct agents send what a provider's library sends: one key for the tries of one call.
func TestDirectCallsCarryTheLibrarysKey(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	keys := map[string]int{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		keys[r.Header.Get("Idempotency-Key")]++
		mu.Unlock()
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(web.Close)
	f := New(Config{Seed: 1, Habits: Usual, Patience: time.Second, Tenants: [2]Tenant{{Name: "acme"}, {Name: "globex"}}, Direct: strings.TrimPrefix(web.URL, "http://")})
	f.agent(one(true), 0).live(t.Context())
	if len(keys) != Usual.HostTries || keys["r1-0-0"] != Usual.SDKTries {
		t.Errorf("%v", keys)
	}
}
