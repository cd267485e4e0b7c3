package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/lock"
	"github.com/latchkey-gateway/latchkey/lock/locktest"
	"github.com/latchkey-gateway/latchkey/lock/redislock"
)

// Concurrent histories of one guard's record are checked against the pure decisions of
// package lock: whatever the clients saw must be what some order of single steps gives. An
// operation without an answer may have happened at any time since, or never.

type input struct {
	verb    string // claim, settle, release, renew, get
	ask     lock.Ask
	fence   uint64
	status  intent.Status
	durable bool
}

type output struct {
	unanswered bool
	code       lock.Code
	yes        bool  // settle wrote; renew kept
	record     state // claim, settle, get
}

// state is a record without what no decision looks at. The zero value is no record.
type state struct {
	there       bool
	key         intent.Key
	fingerprint intent.Fingerprint
	claim       intent.ClaimID
	fence       uint64
	status      intent.Status
	durable     bool
}

func stateOf(r lock.Record) state {
	return state{true, r.Key, r.Fingerprint, r.ClaimID, r.Fence, r.Status, r.Durable}
}

func (s state) record() *lock.Record {
	if !s.there {
		return nil
	}
	return &lock.Record{Key: s.key, Fingerprint: s.fingerprint, ClaimID: s.claim, Fence: s.fence, Status: s.status,
		Durable: s.durable, Retry: retryOf(s.status)}
}

func retryOf(s intent.Status) intent.Retry {
	if s == intent.Rejected {
		return intent.RetrySameKey
	}
	return intent.RetryNever
}

func started(a lock.Ask, fence uint64) state {
	return state{true, a.Key, a.Fingerprint, a.ClaimID, fence, intent.Started, false}
}

func (in input) state() lock.Record {
	return lock.Record{Guard: in.ask.Guard, Key: in.ask.Key, Fingerprint: in.ask.Fingerprint, ClaimID: in.ask.ClaimID,
		Fence: in.fence, Status: in.status, Durable: in.durable, Retry: retryOf(in.status)}
}

var model = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(was, in, out any) (bool, any) { return step(was.(state), in.(input), out.(output)) },
	DescribeOperation: func(in, out any) string {
		return fmt.Sprintf("%+v -> %+v", in, out)
	},
}

func step(was state, in input, out output) (bool, any) {
	now, want := was, output{}
	standing := was.record()
	owns := was.there && was.status == intent.Started && was.claim == in.ask.ClaimID
	switch in.verb {
	case "claim":
		code, fence, fresh := lock.Judge(standing, in.ask)
		if fresh {
			now = started(in.ask, fence)
		}
		want = output{code: code, record: now}
	case "settle":
		if want.yes = lock.Supersedes(standing, in.state()); want.yes {
			now = stateOf(in.state())
		}
		want.record = now
	case "release":
		if owns {
			now = state{}
		}
	case "renew":
		if !was.there {
			now = started(in.ask, in.fence)
		}
		want.yes = owns || !was.there
	case "get":
		want.record = was
	}
	return out.unanswered || out == want, now
}

func TestModelKnowsWrong(t *testing.T) {
	t.Parallel()
	a, b := locktest.NewAsk(), locktest.NewAsk()
	b.Guard, b.Key, b.Fingerprint = a.Guard, a.Key, a.Fingerprint
	both := func(second output) []porcupine.Operation {
		return []porcupine.Operation{
			{ClientId: 0, Input: input{verb: "claim", ask: a}, Call: 1, Output: output{code: lock.Claimed, record: started(a, 1)}, Return: 3},
			{ClientId: 1, Input: input{verb: "claim", ask: b}, Call: 2, Output: second, Return: 4},
		}
	}
	if porcupine.CheckOperations(model, both(output{code: lock.Claimed, record: started(b, 1)})) {
		t.Error("two claims of one key were let through")
	}
	if !porcupine.CheckOperations(model, both(output{code: lock.Held, record: started(a, 1)})) {
		t.Error("a claim and a held one were not let through")
	}
}

func TestHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	addr := locktest.Redis(t)
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	for _, lossy := range []bool{false, true} {
		t.Run(fmt.Sprintf("lossy=%v", lossy), func(t *testing.T) {
			t.Parallel()
			const clients, steps = 5, 12
			prefix := "t-" + locktest.NewAsk().Key.Short()
			var replies, lost atomic.Int64
			var lockers []*redislock.Locker
			for range clients {
				to := addr
				if lossy {
					p := locktest.StartProxy(t, addr)
					p.LoseIf(func([]byte) bool { return replies.Add(1)%40 == 0 })
					to = p.Addr
				}
				lockers = append(lockers, open(t, redislock.Options{Addrs: []string{to}, Prefix: prefix}))
			}
			for round := range rounds {
				ops := history(t, lockers, uint64(round), steps)
				for _, op := range ops {
					if op.Output.(output).unanswered {
						lost.Add(1)
					}
				}
				result, info := porcupine.CheckOperationsVerbose(model, ops, time.Minute)
				if result != porcupine.Ok {
					f := t.ArtifactDir() + "/history.html"
					_ = porcupine.VisualizePath(model, info, f)
					t.Fatalf("round %d: %v; see %s (go test -artifacts keeps it)", round, result, f)
				}
			}
			if lossy && lost.Load() == 0 {
				t.Error("no answer was lost: the test did not test what it should")
			}
			if !lossy && lost.Load() != 0 {
				t.Errorf("%d operations without an answer", lost.Load())
			}
		})
	}
}

// history lets every client take its steps on one fresh guard, all at once.
func history(t *testing.T, lockers []*redislock.Locker, seed uint64, steps int) []porcupine.Operation {
	t.Helper()
	guard := locktest.NewAsk().Guard
	keys := []intent.Key{locktest.NewAsk().Key, locktest.NewAsk().Key}
	fingerprints := []intent.Fingerprint{{1}, {2}}
	start := time.Now()
	var mu sync.Mutex
	var ops []porcupine.Operation
	var wg sync.WaitGroup
	for client, l := range lockers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(client)))
			mine := locktest.NewAsk()
			mine.Guard = guard
			for range steps {
				in := input{ask: mine, fence: 1 + uint64(r.IntN(3))}
				switch n := r.IntN(20); {
				case n < 8:
					in.verb = "claim"
					if r.IntN(3) > 0 { // else the same claimant asks again
						in.ask = locktest.NewAsk()
						in.ask.Guard, in.ask.Key, in.ask.Fingerprint = guard, keys[r.IntN(8)/7], fingerprints[r.IntN(6)/5]
						mine = in.ask
					}
				case n < 13:
					in.verb, in.durable = "settle", r.IntN(2) == 0
					in.status = []intent.Status{intent.Started, intent.Unknown, intent.Completed, intent.Rejected, intent.Rejected}[r.IntN(5)]
				case n < 16:
					in.verb = "release"
				case n < 18:
					in.verb = "renew"
				default:
					in.verb = "get"
				}
				op := porcupine.Operation{ClientId: client, Input: in, Call: int64(time.Since(start))}
				out := do(t, l, in)
				op.Output, op.Return = out, int64(time.Since(start))
				if out.unanswered {
					op.Return = int64(24 * time.Hour)
				}
				mu.Lock()
				ops = append(ops, op)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	// What stands at the end is seen by all.
	in := input{verb: "get", ask: lock.Ask{Guard: guard}}
	for {
		op := porcupine.Operation{ClientId: len(lockers), Input: in, Call: int64(time.Since(start))}
		if op.Output = do(t, lockers[0], in); !op.Output.(output).unanswered {
			op.Return = int64(time.Since(start))
			return append(ops, op)
		}
	}
}

func do(t *testing.T, l *redislock.Locker, in input) (out output) {
	ctx := context.WithoutCancel(t.Context())
	var err error
	switch in.verb {
	case "claim":
		var a lock.Answer
		a, err = l.Claim(ctx, in.ask)
		out = output{code: a.Code, record: stateOf(a.Record)}
	case "settle":
		var r lock.Record
		r, out.yes, err = l.Settle(ctx, in.state(), time.Hour)
		out.record = stateOf(r)
	case "release":
		err = l.Release(ctx, in.ask.Guard, in.ask.ClaimID)
	case "renew":
		var lost []intent.Guard
		lost, err = l.Renew(ctx, []lock.Lease{{Guard: in.ask.Guard, Ask: in.ask, Fence: in.fence}})
		out.yes = len(lost) == 0
	case "get":
		var r lock.Record
		if r, err = l.Get(ctx, in.ask.Guard); err == nil {
			out.record = stateOf(r)
		} else if errors.Is(err, intent.ErrNone) {
			err = nil
		}
	}
	if err != nil {
		return output{unanswered: true}
	}
	return out
}
