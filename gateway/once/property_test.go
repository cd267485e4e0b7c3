package once_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/intent"
)

// deed is something that somebody does at one of three replicas, some time after the start.
type deed struct {
	replica int
	what    string
	after   time.Duration
}

func (d deed) String() string {
	return fmt.Sprintf("%s at %c after %v", d.what, 'a'+d.replica, d.after)
}

// do does it. Whoever approves, declines or resolves says what is true: a person who is wrong is
// outside of the promise.
func (d deed) do(r *replica, w *world, tool string, k intent.Key, check *checker) {
	ctx := context.Background()
	switch o := r.order(k, d.what); d.what {
	case "call":
		check.answer(d.String(), r.Do(ctx, w.call(tool, `{"id":1}`)))
	case "reworded":
		r.Do(ctx, w.call(tool, `{"id":1,"memo":"other words"}`))
	case "reconcile":
		r.reconciler.Pass(ctx)
	case "sweep":
		r.sweeper.Sweep(ctx)
	case "look":
		r.Reconcile(ctx, o)
	case "approve":
		r.Approve(ctx, o, intent.Fingerprint{}, time.Second)
	case "decline":
		r.Decline(ctx, o)
	case "resolve":
		if w.effect.total() > 0 {
			r.Resolve(ctx, o, once.Resolution{Status: intent.Completed, Result: []byte(`{"n":1}`)})
		} else {
			r.Resolve(ctx, o, once.Resolution{Status: intent.Rejected})
		}
	case "wait":
		r.KeepWaiting(ctx, o, 10*time.Second)
	}
}

// TestWhateverHappensItHappensOnce: any calls, checks, sweeps and decisions, at any of three
// replicas and at any times, one of which fails at any of its steps, over every kind of tool:
// at most one effect, and nobody is told anything that is not so.
func TestWhateverHappensItHappensOnce(t *testing.T) {
	t.Parallel()
	deeds := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) deed {
		return deed{
			replica: rapid.IntRange(0, 2).Draw(t, "replica"),
			what:    rapid.SampledFrom([]string{"call", "call", "reworded", "reconcile", "reconcile", "sweep", "look", "approve", "approve", "decline", "resolve", "wait"}).Draw(t, "what"),
			after:   time.Duration(rapid.IntRange(0, 150).Draw(t, "after")) * time.Second,
		}
	}), 1, 16)
	rapid.Check(t, func(rt *rapid.T) {
		tool := rapid.SampledFrom([]string{"mail", "hot", "asked", "asked_again", "deduped", "wire", "wire_by_two"}).Draw(rt, "tool")
		happened := rapid.Bool().Draw(rt, "the first request arrives")
		answered := rapid.Bool().Draw(rt, "and is answered")
		slow := time.Duration(rapid.IntRange(0, 45).Draw(rt, "slow")) * time.Second
		script := deeds.Draw(rt, "deeds")
		at := map[int]mode{}
		for _, step := range rapid.SliceOfN(rapid.IntRange(0, 25), 0, 2).Draw(rt, "failing steps") {
			at[step] = rapid.SampledFrom([]mode{refused, lost, paused}).Draw(rt, "fails as")
		}
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			w.effect.takes(slow)
			w.effect.lost = func(n int) bool { return n == 1 && !happened }
			w.effect.behave = func(n int) downstream.Observed {
				if n == 1 && !(happened && answered) {
					return lostAnswer
				}
				return ok(`{"n":1}`)
			}
			replicas := []*replica{w.replicaOf(w.options("a", &plan{at: at})), w.replica("b"), w.replica("c")}
			check := &checker{w: w, t: rt, uncounted: !happened,
				rejects: strings.Contains(fmt.Sprint(script), "decline"), reworded: strings.Contains(fmt.Sprint(script), "reworded")}
			request := w.call(tool, `{"id":1}`)
			request.Wait = 0
			key := replicas[1].Do(context.Background(), request).Receipt.Key

			var all sync.WaitGroup
			for _, d := range script {
				all.Go(func() {
					time.Sleep(d.after)
					d.do(replicas[d.replica], w, tool, key, check)
				})
			}
			all.Wait()
			time.Sleep(3 * timeout)
			for range 2 {
				for _, r := range replicas[1:] {
					r.sweeper.Sweep(context.Background())
					r.reconciler.Pass(context.Background())
				}
				time.Sleep(2 * time.Minute)
			}
			check.answer("at last", replicas[2].Do(context.Background(), w.call(tool, `{"id":1}`)))
			for _, r := range replicas {
				r.close()
			}
			check.world()
		})
	})
}
