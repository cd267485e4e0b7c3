package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// callInput and callOutput are one call of a key as its client saw it.
type callInput struct{ key int }

type callOutput struct {
	status string // completed, rejected, unknown, not_sent, started
	effect int    // which effect a completed answer is of
}

// callModel is what one key may do, whatever the number of replicas: it is not done, then
// it is completed once and for all, or refused for good, or unknown for good (nothing looks
// it up in these histories). An answer that nothing was sent leaves it as it is; one that
// it is still running says nothing.
var callModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[int][]porcupine.Operation{}
		for _, op := range history {
			k := op.Input.(callInput).key
			byKey[k] = append(byKey[k], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return callOutput{status: "none"} },
	Step: func(state, input, output any) (bool, any) {
		is, told := state.(callOutput), output.(callOutput)
		switch told.status {
		case "started":
			return true, is
		case "not_sent":
			return is.status == "none", is
		}
		return is.status == "none" || is == told, told
	},
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("call(%d) -> %+v", input.(callInput).key, output.(callOutput))
	},
}

// TestCallHistoriesAreLinearizable: clients race for a few keys over three replicas, a real
// Redis and a real PostgreSQL, while the downstream completes, refuses, sends away for now
// and loses answers, and Redis forgets everything now and then.
func TestCallHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	s, redis, _ := newOwnSystem(t, 3)
	// What the downstream does is decided by the effect's number, so that each key meets
	// each behaviour; only a 200 counts as done, and says which effect it is.
	var mu sync.Mutex
	done := map[string]int{}
	s.ledger.set(func(n int, w http.ResponseWriter, r *http.Request) bool {
		time.Sleep(time.Duration(rand.N(20)) * time.Millisecond)
		switch n % 5 {
		case 1:
			w.WriteHeader(http.StatusTooManyRequests) // not accepted for now: may be sent again
			return true
		case 3:
			w.WriteHeader(http.StatusUnprocessableEntity)
			return true
		case 4:
			mu.Lock()
			done[r.Header.Get("Idempotency-Key")]++
			mu.Unlock()
			panic(http.ErrAbortHandler) // done, and the answer is lost
		}
		mu.Lock()
		done[r.Header.Get("Idempotency-Key")]++
		mu.Unlock()
		return false
	})
	const keys, clients, calls = 24, 12, 24
	var history []porcupine.Operation
	var callers sync.WaitGroup
	start := time.Now()
	for id := range clients {
		callers.Go(func() {
			for range calls {
				key := rand.N(keys)
				began := time.Since(start)
				r, err := s.replicas[rand.N(3)].do(t.Context(), "key-a", "POST", "/v1/tools/mail/calls", callBody(fmt.Sprint(key)))
				ended := time.Since(start)
				if err != nil {
					t.Errorf("call: %v", err)
					return
				}
				out, ok := outputOf(r)
				if !ok {
					t.Errorf("an answer outside the contract: %d %s", r.code, r.body)
					return
				}
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: id, Input: callInput{key}, Call: int64(began), Output: out, Return: int64(ended)})
				mu.Unlock()
			}
		})
	}
	forgetting := make(chan struct{})
	go func() {
		defer close(forgetting)
		for range 5 {
			time.Sleep(50 * time.Millisecond)
			redis.Must(t, "FLUSHALL")
		}
	}()
	callers.Wait()
	<-forgetting

	result, info := porcupine.CheckOperationsVerbose(callModel, history, time.Minute)
	if result != porcupine.Ok {
		file := t.TempDir() + "/history.html"
		porcupine.VisualizePath(callModel, info, file)
		t.Errorf("the history of %d calls is not linearizable: %s", len(history), result)
	}
	seen := map[string]int{}
	for _, op := range history {
		seen[op.Output.(callOutput).status]++
	}
	t.Logf("%d calls: %v", len(history), seen)
	for _, status := range []string{"completed", "rejected", "unknown", "not_sent"} {
		if seen[status] == 0 {
			t.Errorf("no call was told %s: the history proves little", status)
		}
	}
	for key, n := range done {
		if n > 1 {
			t.Errorf("key %s was done %d times", key, n)
		}
	}
}

func outputOf(r reply) (callOutput, bool) {
	out := callOutput{status: r.receipt.Status}
	switch {
	case r.code == 503 && r.receipt.Retry == "same_key":
		out.status = "not_sent"
	case r.code == 200 && out.status == "completed":
		var n int
		if _, err := fmt.Sscanf(string(r.receipt.Outcome), `{"http_status":200,"headers":{"content-type":"application/json"},"body":{"sent":%d}}`, &n); err != nil {
			return out, false
		}
		out.effect = n
	case r.code == 424 && out.status == "rejected", r.code == 202 && (out.status == "unknown" || out.status == "started"):
	default:
		return out, false
	}
	return out, true
}
