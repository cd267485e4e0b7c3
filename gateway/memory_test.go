package gateway_test

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
	"github.com/latchkey-gateway/latchkey/lock"
	"github.com/latchkey-gateway/latchkey/tracing"
)

// One tenant with ever new keys must not grow a replica: what it keeps of them is bounded
// by the near cache, and by the calls under way.
func TestMemoryIsBoundedUnderManyKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("a few seconds of work")
	}
	const (
		warm, more = 5_000, 25_000
		nearCache  = 2 << 20
		mayGrow    = 25_000 * 32 // 32 bytes a key: less than a map needs to remember it
	)
	w := newWorld(t)
	for _, name := range []string{"note", "hot"} {
		tool, _ := w.cat.Tool(name)
		store, redis := &rows{started: map[intent.Key]intent.Receipt{}}, &claims{stored: make(chan struct{}, crowd)}
		e := once.New(once.Options{
			Lock: redis, Store: store, Journal: store, Effects: instant{}, Tools: w.cat.Tool, Lease: time.Minute, HotTTL: time.Hour,
			NearCache: nearCache, MaxInFlight: 1000, Replica: "a", Region: "north",
		})
		step := 0
		call := func() {
			a := e.Do(t.Context(), once.Request{Tool: tool, Wait: time.Minute, Span: tracing.Continue(""), Credential: "c", Call: intent.Call{
				Tenant: "acme", RunID: "run", StepID: strconv.Itoa(step), Args: intent.ObjectValue()}})
			if a.Err != nil || a.Receipt.Status != intent.Completed || a.Replayed {
				t.Fatalf("%+v", a)
			}
			step++
		}
		calls := func(n int) {
			for range n / crowd {
				for range crowd {
					call()
				}
				for range crowd { // hot results are archived behind the caller's back
					<-redis.stored
				}
			}
		}
		calls(warm)
		before := heap()
		calls(more)
		if grown := int64(heap()) - int64(before); grown > mayGrow {
			t.Errorf("%s: the heap grew by %d bytes over %d keys, from %d", name, grown, more, before)
		}
		if n := len(store.started); n != 0 {
			t.Errorf("%s: %d rows were begun and never settled", name, n)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
		cancel()
	}
}

// crowd is how many keys are used before the test waits until all of them are stored.
const crowd = 1000

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools held goes with the second
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// instant is a downstream that answers at once.
type instant struct{}

func (instant) Admit(*downstream.Tool) (func(downstream.Observed, downstream.Verdict), *downstream.Refusal) {
	return func(downstream.Observed, downstream.Verdict) {}, nil
}

func (instant) Execute(context.Context, downstream.Call) downstream.Observed {
	return downstream.Observed{Sent: true, HTTPStatus: 200, Body: make([]byte, 200)}
}

func (instant) Forward(context.Context, downstream.Call) downstream.Observed {
	return downstream.Observed{Sent: true, HTTPStatus: 200}
}

func (instant) Lookup(context.Context, downstream.Call) downstream.Finding {
	return downstream.Finding{}
}

// claims says yes to everybody and remembers nobody: the keys of this test all differ.
type claims struct {
	lock.Store
	stored chan struct{} // gets a value for each key that was settled durably
}

func (*claims) Claim(_ context.Context, ask lock.Ask) (lock.Answer, error) {
	return lock.Answer{Code: lock.Claimed, Record: lock.Record{Guard: ask.Guard, Key: ask.Key, Fence: 1, Status: intent.Started}}, nil
}

func (c *claims) Settle(_ context.Context, r lock.Record, _ time.Duration) (lock.Record, bool, error) {
	if r.Durable {
		c.stored <- struct{}{}
	}
	return r, true, nil
}

// rows keeps a row only while it is started, so that what the heap holds is the engine's own.
type rows struct {
	intentstore.Store
	mu      sync.Mutex
	started map[intent.Key]intent.Receipt
}

func (s *rows) Begin(_ context.Context, r intent.Receipt) (intentstore.Begun, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started[r.Key] = r
	return intentstore.Begun{Mine: true, Row: r}, nil
}

func (s *rows) Settle(_ context.Context, m intent.Settlement) (intent.Receipt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.started[m.Key].Apply(m)
	delete(s.started, m.Key)
	r.Durable = true
	return r, err
}

func (s *rows) Archive(_ context.Context, r intent.Receipt) (intent.Receipt, error) {
	r.Durable = true
	return r, nil
}

func (*rows) Record(context.Context, []intent.Attempt) error { return nil }

func (*rows) Attempts(context.Context, intent.Key, int) ([]intent.Attempt, int, []intent.Execution, error) {
	return nil, 0, nil, nil
}
