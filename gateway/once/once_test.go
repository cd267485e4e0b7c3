package once_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/lock/memlock"
)

func TestOneCallThenReplay(t *testing.T) {
	for _, tool := range []string{"mail", "hot", "put"} {
		t.Run(tool, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				a, b := w.replica("a"), w.replica("b")
				defer a.close()
				defer b.close()
				first := a.Do(t.Context(), w.call(tool, `{"id":1}`))
				if first.Err != nil || first.Receipt.Status != intent.Completed || first.Replayed || first.Decision != intent.Executed {
					t.Fatalf("first: %+v", first)
				}
				synctest.Wait()
				for _, r := range []*replica{a, b, a, b} {
					again := r.Do(t.Context(), w.call(tool, `{"id":1}`))
					if again.Receipt.Status != intent.Completed || !again.Replayed || again.Decision != intent.Replayed {
						t.Fatalf("again: %+v", again)
					}
					if got, want := string(again.Receipt.Outcome.Body), string(first.Receipt.Outcome.Body); got != want {
						t.Errorf("replayed %s, want %s", got, want)
					}
				}
				if n := w.effect.total(); n != 1 {
					t.Errorf("%d effects", n)
				}
				got, err := b.Receipt(context.Background(), "acme", first.Receipt.Key)
				if err != nil || got.Status != intent.Completed || !got.Durable {
					t.Errorf("receipt: %+v, %v", got, err)
				}
				if _, err := b.Receipt(context.Background(), "other", first.Receipt.Key); err == nil {
					t.Error("another tenant reads the receipt")
				}
			})
		})
	}
}

func TestConcurrentDuplicatesCollapse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.effect.slow = 5 * time.Second
		rs := []*replica{w.replica("a"), w.replica("b"), w.replica("c")}
		const n = 300
		answers := make(chan string, n)
		executed := make(chan struct{}, n)
		for i := range n {
			go func() {
				a := rs[i%3].Do(context.Background(), w.call("mail", `{"id":1}`))
				if a.Decision == intent.Executed {
					executed <- struct{}{}
				}
				a.Replayed = true
				answers <- string(a.Receipt.AppendJSON(nil, true))
			}()
		}
		distinct := map[string]int{}
		for range n {
			distinct[<-answers]++
		}
		if len(distinct) != 1 || w.effect.total() != 1 || len(executed) != 1 {
			t.Errorf("%d distinct answers, %d effects, %d executed", len(distinct), w.effect.total(), len(executed))
		}
		for _, r := range rs {
			r.close()
		}
	})
}

func TestUnknownStaysUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.effect.behave = func(int) downstream.Observed { return lostAnswer }
		a, b := w.replica("a"), w.replica("b")
		defer a.close()
		defer b.close()
		for _, r := range []*replica{a, a, b, b} {
			got := r.Do(t.Context(), w.call("mail", `{"id":1}`))
			if got.Err != nil || got.Receipt.Status != intent.Unknown || got.Receipt.RetryWord() != intent.RetryNever {
				t.Fatalf("%+v", got)
			}
		}
		if n := w.effect.total(); n != 1 {
			t.Errorf("%d effects", n)
		}
	})
}

func TestNotSentMayBeSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a := w.replica("a")
		defer a.close()
		w.effect.behave = func(n int) downstream.Observed {
			if n == 1 {
				return downstream.Observed{NotSentWhy: "dial"}
			}
			return ok(`{}`)
		}
		first := a.Do(t.Context(), w.call("mail", `{"id":1}`))
		if first.Receipt.Status != intent.Rejected || first.Receipt.Retry != intent.RetrySameKey || first.Receipt.Executions != 0 || first.Decision != intent.Refused {
			t.Fatalf("%+v", first)
		}
		again := a.Do(t.Context(), w.call("mail", `{"id":1}`))
		if again.Receipt.Status != intent.Completed || again.Receipt.Fence != 2 || again.Receipt.Executions != 1 {
			t.Fatalf("%+v", again)
		}
	})
}

func TestChangedMinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a, b := w.replica("a"), w.replica("b")
		defer a.close()
		defer b.close()
		a.Do(t.Context(), w.call("mail", `{"id":1,"memo":"x"}`))
		for _, r := range []*replica{a, b} {
			if got := r.Do(t.Context(), w.call("mail", `{"id":1,"memo":"y"}`)); got.Err == nil || got.Err.Category != intent.ConflictArguments {
				t.Errorf("reworded memo: %+v", got)
			}
			if got := r.Do(t.Context(), w.call("mail", `{"id":2,"memo":"x"}`)); got.Err == nil || got.Err.Category != intent.ConflictStep || got.Err.Earlier == (intent.Key{}) {
				t.Errorf("reworded id: %+v", got)
			}
		}
		second := w.call("mail", `{"id":2,"memo":"x"}`)
		second.Occurrence = 1
		if got := b.Do(t.Context(), second); got.Receipt.Status != intent.Completed {
			t.Errorf("occurrence 1: %+v", got)
		}
		if n := w.effect.total(); n != 2 {
			t.Errorf("%d effects", n)
		}
	})
}

func TestCorrectedCallRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.effect.behave = func(n int) downstream.Observed {
			seen := ok(`{}`)
			if n == 1 {
				seen.HTTPStatus = 422
			}
			return seen
		}
		a := w.replica("a")
		defer a.close()
		if got := a.Do(t.Context(), w.call("mail", `{"id":1,"memo":"bad"}`)); got.Receipt.Retry != intent.RetryCorrected || got.Receipt.Status != intent.Rejected {
			t.Fatalf("%+v", got)
		}
		if got := a.Do(t.Context(), w.call("mail", `{"id":1,"memo":"bad"}`)); got.Receipt.Status != intent.Rejected || !got.Replayed {
			t.Fatalf("the same call again: %+v", got)
		}
		if got := a.Do(t.Context(), w.call("mail", `{"id":1,"memo":"good"}`)); got.Receipt.Status != intent.Completed || got.Receipt.Fence != 2 {
			t.Fatalf("corrected: %+v", got)
		}
		if got := a.Do(t.Context(), w.call("mail", `{"id":1,"memo":"bad"}`)); got.Err == nil || got.Err.Category != intent.ConflictArguments {
			t.Fatalf("the refused one after the corrected one: %+v", got)
		}
	})
}

func TestIrreversibleWaitsForAPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a, b := w.replica("a"), w.replica("b")
		defer a.close()
		defer b.close()
		for _, r := range []*replica{a, b, a} {
			got := r.Do(t.Context(), w.call("wire", `{"amount":1}`))
			if got.Err != nil || got.Receipt.Status != intent.AwaitingApproval || got.Decision != intent.Pending {
				t.Fatalf("%+v", got)
			}
		}
		if n := w.effect.total(); n != 0 {
			t.Errorf("%d effects without approval", n)
		}
	})
}

// A hot claim whose reply was lost may stand in Redis. Nothing was sent, and the caller was
// told so: the claim is given back, not left to become unknown.
func TestHotClaimWithLostReplyIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(verb string, n int) (bool, error) {
			if verb == memlock.Claim && n == 1 {
				return true, errStep
			}
			return false, nil
		})
		a, b := w.replica("a"), w.replica("b")
		defer a.close()
		defer b.close()
		if got := a.Do(t.Context(), w.call("hot", `{"id":1}`)); got.Err == nil || got.Err.Category != intent.NotSent {
			t.Fatalf("%+v", got)
		}
		time.Sleep(lease * 2 / 3)
		if got := b.Do(t.Context(), w.call("hot", `{"id":1}`)); got.Receipt.Status != intent.Completed {
			t.Fatalf("%+v", got)
		}
	})
}

// A bug in one call ends that call alone; its key is left as a crash would leave it.
func TestPanicEndsOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a := w.replica("a")
		defer a.close()
		w.effect.behave = func(int) downstream.Observed { panic("a bug") }
		if got := a.Do(t.Context(), w.call("mail", `{"id":1}`)); got.Err == nil || got.Err.Category != intent.Internal {
			t.Fatalf("%+v", got)
		}
		time.Sleep(2 * lease)
		a.sweep()
		if got := a.Do(t.Context(), w.call("mail", `{"id":1}`)); got.Receipt.Status != intent.Unknown {
			t.Fatalf("%+v", got)
		}
	})
}
