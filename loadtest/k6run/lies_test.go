package k6run_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/latchkey-gateway/latchkey/loadtest/k6run"
)

// liar is a gateway of one tool that speaks the contract, but for its lie.
type liar struct {
	lie string

	mu      sync.Mutex
	results map[string]map[string]any // receipt by key
	asked   map[string]int
	effects []map[string]any
	n       int
}

func (l *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case r.URL.Path == "/v1/tools":
		write200(w, map[string]any{"tools": []any{map[string]string{"name": "send", "class": "effectful"}}})
	case r.URL.Path == "/ledger":
		repeated := 0
		for _, e := range l.effects {
			if e["count"].(int) > 1 {
				repeated++
			}
		}
		write200(w, map[string]any{"totals": map[string]int{"effects": len(l.effects), "repeated": repeated}, "matched": len(l.effects), "effects": l.effects})
	case r.URL.Path == "/v1/receipts":
		list := []any{}
		for _, receipt := range l.results {
			list = append(list, receipt)
		}
		write200(w, map[string]any{"receipts": list, "next_cursor": ""})
	case strings.HasPrefix(r.URL.Path, "/v1/receipts/"):
		receipt := maps.Clone(l.results[strings.TrimPrefix(r.URL.Path, "/v1/receipts/")])
		if l.lie == "receipt says otherwise" {
			receipt["outcome"] = map[string]any{"http_status": 200, "body": "otherwise"}
		}
		write200(w, receipt)
	default:
		l.call(w, r)
	}
}

func (l *liar) call(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Step string            `json:"step_id"`
		Args map[string]string `json:"args"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	sum := sha256.Sum256([]byte(in.Step))
	key := hex.EncodeToString(sum[:])
	l.asked[key]++
	if l.lie == "another key" && l.asked[key] > 1 {
		other := sha256.Sum256([]byte(key))
		key = hex.EncodeToString(other[:])
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Latchkey-Receipt", key)
	h.Set("X-Should-Retry", "false")
	receipt, known := l.results[key]
	if known && in.Args["memo"] != "hello" && l.lie != "runs a changed mind" {
		h.Set("Content-Type", "application/problem+json")
		h.Set("Idempotent-Replayed", "false")
		p := map[string]any{"type": "t", "title": "t", "status": 422, "detail": "d", "code": "idempotency_conflict", "retry": "never", "advice": "Do not.", "earlier_key": key}
		switch l.lie {
		case "shows the result of another":
			p["outcome"] = receipt["outcome"]
		case "no advice on a conflict":
			p["advice"] = ""
		case "does not name the earlier":
			delete(p, "earlier_key")
		}
		w.WriteHeader(http.StatusUnprocessableEntity)
		json.NewEncoder(w).Encode(p)
		return
	}
	if !known || l.lie == "acts again" && l.asked[key] == 2 {
		l.n++
		record := map[string]any{"id": fmt.Sprint("em_", l.n), "invoice": in.Args["id"]}
		receipt = map[string]any{"key": key, "tool": "send", "class": "effectful", "status": "completed", "replayed": false, "retry": "never", "advice": "",
			"outcome": map[string]any{"http_status": 200, "body": record}, "executions": 1, "trace_id": ""}
		if l.lie != "completed without an effect" {
			l.effects = append(l.effects, map[string]any{"service": "s", "key": key, "count": l.asked[key], "record": record})
		}
		if !known {
			l.results[key] = receipt
		}
	}
	answer := maps.Clone(receipt)
	answer["replayed"] = known
	h.Set("Idempotent-Replayed", fmt.Sprint(known))
	status := http.StatusOK
	pending := func(as string) {
		status = http.StatusAccepted
		h.Set("Location", "/v1/receipts/"+key)
		h.Set("Retry-After", "1")
		answer["status"], answer["outcome"], answer["replayed"] = as, nil, false
		answer["advice"] = "Do not repeat. Check GET /v1/receipts/" + key + "."
		h.Set("Idempotent-Replayed", "false")
	}
	switch l.lie {
	case "replays something else":
		if known {
			l.n++
			answer["outcome"] = map[string]any{"http_status": 200, "body": l.n}
		}
	case "everybody is first":
		answer["replayed"] = false
		h.Set("Idempotent-Replayed", "false")
	case "header without the flag":
		h.Set("Idempotent-Replayed", "maybe")
	case "says same_key":
		answer["retry"] = "same_key"
		h.Del("X-Should-Retry")
	case "no X-Should-Retry":
		h.Del("X-Should-Retry")
	case "no Latchkey-Receipt":
		h.Del("Latchkey-Receipt")
	case "forgets":
		if l.asked[key] > 2 {
			pending("unknown")
		}
	case "unknown without advice":
		pending("unknown")
		answer["advice"] = ""
	case "unknown without Location":
		pending("unknown")
		h.Del("Location")
	case "unknown with a result":
		pending("unknown")
		answer["outcome"] = receipt["outcome"]
	case "418":
		status = http.StatusTeapot
	case "HTML":
		fmt.Fprint(w, "<html>")
		return
	}
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(answer)
}

func write200(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(body)
}

// Each lie crosses the threshold of the promise that it breaks; without one, the same
// gateway passes.
func TestLiesAreFound(t *testing.T) {
	t.Parallel()
	tools := write(t, `{"effectful": {"tool": "send", "class": "effectful", "ledger": true, "args": {"id": "{id}", "memo": "hello"}, "reworded": {"memo": "hi"}}}`)
	for lie, promise := range map[string]string{
		"":                            "",
		"replays something else":      "replay_differs",
		"receipt says otherwise":      "two_results",
		"everybody is first":          "two_first_times",
		"another key":                 "key_moved",
		"forgets":                     "settled_changed",
		"unknown with a result":       "pending_with_outcome",
		"unknown without advice":      "advice_missing",
		"no advice on a conflict":     "advice_missing",
		"says same_key":               "retry_word",
		"no X-Should-Retry":           "should_retry",
		"header without the flag":     "replayed_flag",
		"unknown without Location":    "address",
		"no Latchkey-Receipt":         "address",
		"runs a changed mind":         "conflict",
		"shows the result of another": "conflict",
		"does not name the earlier":   "conflict",
		"418":                         "unexpected",
		"HTML":                        "unexpected",
		"acts again":                  "double_effect",
		"completed without an effect": "ledger_disagrees",
	} {
		t.Run(lie, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(&liar{lie: lie, results: map[string]map[string]any{}, asked: map[string]int{}, effects: []map[string]any{}})
			defer server.Close()
			_, console, err := runScript(t, "load", map[string]string{"LATCHKEY_URL": server.URL, "LEDGER_URL": server.URL + "/ledger", "TOOLS_FILE": tools})
			if lie == "" {
				if err != nil {
					t.Fatalf("%v\n%s", err, console)
				}
				return
			}
			crossed, ok := errors.AsType[*k6run.CrossedError](err)
			if !ok || !strings.Contains(strings.Join(crossed.Thresholds, "\n"), "latchkey_broken_"+promise+": count==0") {
				t.Errorf("%s was not found: %v\n%s", promise, err, console)
			}
		})
	}
}
