package once_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
	"github.com/latchkey-gateway/latchkey/lock"
)

// Guards that no matrix reaches: each test here fails when the one guard that it names is
// taken out (loadtest/mutants).

// oddStore is the world's store with other answers; nil fields leave it as it is.
type oddStore struct {
	intentstore.Store
	begin  func(intentstore.Begun, error) (intentstore.Begun, error) // after it was applied
	before func() error                                              // instead of Begin
	settle func() error                                              // instead of Settle
}

func (s *oddStore) Begin(ctx context.Context, r intent.Receipt) (intentstore.Begun, error) {
	if s.before != nil {
		if err := s.before(); err != nil {
			return intentstore.Begun{}, err
		}
	}
	got, err := s.Store.Begin(ctx, r)
	if s.begin != nil {
		return s.begin(got, err)
	}
	return got, err
}

func (s *oddStore) Settle(ctx context.Context, m intent.Settlement) (intent.Receipt, error) {
	if s.settle != nil {
		if err := s.settle(); err != nil {
			return intent.Receipt{}, err
		}
	}
	return s.Store.Settle(ctx, m)
}

func (w *world) odd(name string, s *oddStore) *replica {
	s.Store = w.store
	o := w.options(name, nil)
	o.Store = s
	return w.replicaOf(o)
}

// A result that the store has not acknowledged says so, and memory does not answer with it:
// what is in there is taken for final.
func TestNearCacheHoldsWhatIsStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		var down atomic.Bool
		down.Store(true)
		a := w.odd("a", &oddStore{settle: func() error {
			if down.Load() {
				return errStep
			}
			return nil
		}})
		for range 3 {
			got := a.Do(t.Context(), w.call("mail", `{"id":1}`))
			if got.Receipt.Status != intent.Completed || got.Receipt.Durable {
				t.Errorf("while the store is down: %s, durable %v", got.Receipt.Status, got.Receipt.Durable)
			}
		}
		if hits, _, _ := a.Near(); hits != 0 {
			t.Errorf("memory answered %d times with what is not stored", hits)
		}
		down.Store(false)
		time.Sleep(time.Minute)
		if got := a.Do(t.Context(), w.call("mail", `{"id":1}`)); !got.Receipt.Durable || !got.Replayed {
			t.Errorf("once it is stored: durable %v, replayed %v", got.Receipt.Durable, got.Replayed)
		}
		if hits, _, _ := a.Near(); hits != 1 || w.effect.total() != 1 {
			t.Errorf("%d hits, %d effects", hits, w.effect.total())
		}
		a.close()
	})
}

// Whoever was told "not sent" after an ambiguous write-ahead is not told "unknown" later; and
// taking it back touches nobody else's row.
func TestAmbiguousBeginIsTakenBack(t *testing.T) {
	t.Parallel()
	ambiguous := func() error { return errors.Join(errStep, intentstore.ErrAmbiguous) }
	t.Run("written", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			a := w.odd("a", &oddStore{begin: func(intentstore.Begun, error) (intentstore.Begun, error) { return intentstore.Begun{}, ambiguous() }})
			got := a.Do(t.Context(), w.call("mail", `{"id":1}`))
			if got.Err == nil || got.Err.Category != intent.NotSent {
				t.Fatalf("%+v", got)
			}
			time.Sleep(5 * time.Second)
			rows, _, err := w.store.List(t.Context(), intentstore.Query{Tenant: "acme", Limit: 10})
			if err != nil || len(rows) != 1 || rows[0].Status != intent.Rejected || rows[0].Retry != intent.RetrySameKey || rows[0].Executions != 0 {
				t.Errorf("%+v, %v", rows, err)
			}
			a.close()
		})
	})
	t.Run("another's", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			a, b := w.odd("a", &oddStore{before: ambiguous}), w.replica("b")
			if got := a.Do(t.Context(), w.call("mail", `{"id":1}`)); got.Err == nil || got.Err.Category != intent.NotSent {
				t.Fatalf("%+v", got)
			}
			w.effect.takes(5 * time.Second)
			for range 2 {
				if got := b.Do(t.Context(), w.call("mail", `{"id":1}`)); got.Receipt.Status != intent.Completed || got.Receipt.Fence != 1 {
					t.Errorf("%s at fence %d", got.Receipt.Status, got.Receipt.Fence)
				}
			}
			if n := w.effect.total(); n != 1 {
				t.Errorf("%d effects", n)
			}
			a.close()
			b.close()
		})
	})
}

// impatient is a downstream client that gives up with its context, as the real one does.
type impatient struct{ *effects }

func (i impatient) Execute(ctx context.Context, c downstream.Call) downstream.Observed {
	seen := i.effects.Execute(ctx, c)
	if ctx.Err() != nil {
		return lostAnswer
	}
	return seen
}

// A caller that goes away stops the waiting, never the work.
func TestCallerThatLeavesStopsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.effect.takes(5 * time.Second)
		o := w.options("a", nil)
		o.Effects = impatient{w.effect}
		a := w.replicaOf(o)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		told := a.Do(ctx, w.call("mail", `{"id":1}`))
		if told.Receipt.Status != intent.Started {
			t.Fatalf("told %s", told.Receipt.Status)
		}
		time.Sleep(10 * time.Second)
		if row, err := w.store.Get(t.Context(), told.Receipt.Key); err != nil || row.Status != intent.Completed {
			t.Errorf("%s, %v", row.Status, err)
		}
		a.close()
	})
}

// robbed is a lock that says that every lease is somebody else's by now.
type robbed struct{ lock.Store }

func (robbed) Renew(_ context.Context, leases []lock.Lease) (lost []intent.Guard, _ error) {
	for _, l := range leases {
		lost = append(lost, l.Guard)
	}
	return lost, nil
}

// A process that stood still between its write-ahead and the request looks at its own lease
// before it writes, and heeds what Redis said of it.
func TestSleptPastItsLease(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		lock  func(lock.Store) lock.Store
		slept time.Duration
	}{
		{"lease over", func(s lock.Store) lock.Store { return deafLock{s} }, lease + time.Second},
		{"lease taken", func(s lock.Store) lock.Store { return robbed{s} }, lease * 5 / 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				o := w.options("a", nil)
				o.Lock = c.lock(w.lock)
				o.Store = &oddStore{Store: w.store, begin: func(b intentstore.Begun, err error) (intentstore.Begun, error) {
					time.Sleep(c.slept)
					return b, err
				}}
				a := w.replicaOf(o)
				got := a.Do(t.Context(), w.call("mail", `{"id":1}`))
				if w.effect.total() != 0 || got.Receipt.Status != intent.Rejected || got.Receipt.Retry != intent.RetrySameKey {
					t.Errorf("%s, %s, %d effects", got.Receipt.Status, got.Receipt.Retry, w.effect.total())
				}
				a.close()
			})
		})
	}
}

// lostCall is a call of the tool whose answer was lost.
func (w *world) lostCall(a *replica, tool string) intent.Key {
	w.t.Helper()
	w.effect.behave = func(int) downstream.Observed { return lostAnswer }
	got := a.Do(context.Background(), w.call(tool, `{"id":1}`)).Receipt
	if got.Status != intent.Unknown {
		w.t.Fatalf("%s", got.Status)
	}
	return got.Key
}

// A lookup that finds nothing proves nothing where the tool does not say that it does.
func TestAbsenceThatIsNoProof(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.configure(catalogue(t, func(s *downstream.ToolSpec) {
			if s.Name == "asked" {
				s.Lookup.AbsenceIsProof = false
			}
		}))
		w.effect.found = func(intent.Key) downstream.Finding {
			return downstream.Finding{Proof: downstream.Absent, Evidence: []byte(`{}`)}
		}
		a := w.replica("a")
		key := w.lostCall(a, "asked")
		time.Sleep(5 * time.Minute)
		a.reconcile()
		if row, _ := w.store.Get(t.Context(), key); row.Status != intent.Unknown || row.Checks != 1 {
			t.Errorf("%s after %d checks", row.Status, row.Checks)
		}
		a.close()
	})
}

// Absence counts from before the question: it says how things were when it was asked.
func TestAbsenceCountsFromBeforeTheQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.effect.found = func(intent.Key) downstream.Finding {
			return downstream.Finding{Proof: downstream.Absent, Evidence: []byte(`{}`)}
		}
		a := w.replica("a")
		key := w.lostCall(a, "asked")
		time.Sleep(50 * time.Second)
		w.effect.takes(20 * time.Second)
		a.reconcile()
		if row, _ := w.store.Get(t.Context(), key); row.Status != intent.Unknown || row.Checks != 1 {
			t.Errorf("asked before settle_after, answered after: %s after %d checks", row.Status, row.Checks)
		}
		a.close()
	})
}

// An answer that comes after a person has settled the key, and says the opposite, changes
// nothing that was reported and is brought to a person.
func TestAnswerThatContradicts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a, b := w.deaf("a"), w.replica("b")
		w.effect.takes(5 * time.Minute)
		request := w.call("mail", `{"id":1}`)
		request.Wait = 0
		key := a.Do(t.Context(), request).Receipt.Key
		time.Sleep(timeout + 3*lease)
		b.sweep()
		if _, err := b.Resolve(t.Context(), b.order(key, "it is not there"), once.Resolution{Status: intent.Rejected}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		row, err := w.store.Get(t.Context(), key)
		if err != nil || row.Status != intent.Rejected || row.Doubt != intent.DoubtContradicted || row.NotifyAt.IsZero() {
			t.Errorf("%s, doubt %q, notify %v, %v", row.Status, row.Doubt, row.NotifyAt, err)
		}
		a.close()
		b.close()
	})
}

// An approval is for one execution, also where that one was not sent.
func TestApprovalIsUsedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a := w.replica("a")
		w.effect.behave = func(int) downstream.Observed { return downstream.Observed{NotSentWhy: "dial", Err: errStep} }
		key := a.Do(t.Context(), w.call("wire", `{"id":1}`)).Receipt.Key
		r, err := a.Approve(t.Context(), a.order(key, "yes"), intent.Fingerprint{}, time.Minute)
		if err != nil || r.Status != intent.Rejected || r.Retry != intent.RetrySameKey {
			t.Fatalf("%s, %s, %v", r.Status, r.Retry, err)
		}
		w.effect.behave = nil
		if got := a.Do(t.Context(), w.call("wire", `{"id":1}`)).Receipt; got.Status != intent.AwaitingApproval || w.effect.total() != 0 {
			t.Errorf("the same call again: %s, %d effects", got.Status, w.effect.total())
		}
		a.close()
	})
}

// What nobody can undo is not executed again on an unknown outcome, by whoever asks.
func TestIrreversibleIsNotExecutedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a := w.replica("a")
		w.effect.behave = func(int) downstream.Observed { return lostAnswer }
		key := a.Do(t.Context(), w.call("wire", `{"id":1}`)).Receipt.Key
		if r, err := a.Approve(t.Context(), a.order(key, "yes"), intent.Fingerprint{}, time.Minute); err != nil || r.Status != intent.Unknown {
			t.Fatalf("%s, %v", r.Status, err)
		}
		_, err := a.Reexecute(t.Context(), a.order(key, "again"), time.Minute)
		if refusal, ok := errors.AsType[*intent.Error](err); !ok || refusal.Category != intent.StateConflict || !strings.Contains(err.Error(), "undo") {
			t.Errorf("%v", err)
		}
		if w.effect.total() != 1 {
			t.Errorf("%d effects", w.effect.total())
		}
		a.close()
	})
}

// on_unknown: retry loads for a downstream that does not dedupe (check warns of it); nothing
// is sent again all the same.
func TestResendNeedsDedupe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.configure(catalogue(t, func(s *downstream.ToolSpec) {
			if s.Name == "deduped" {
				s.ForwardKey.Dedupes = false
			}
		}))
		a := w.replica("a")
		key := w.lostCall(a, "deduped")
		for range 5 {
			time.Sleep(time.Minute)
			a.reconcile()
		}
		if row, _ := w.store.Get(t.Context(), key); row.Status != intent.Unknown || row.Parked != intent.ParkedWindow || w.effect.total() != 1 {
			t.Errorf("%s, parked %q, %d effects", row.Status, row.Parked, w.effect.total())
		}
		a.close()
	})
}

// forgetful is a Redis whose n-th Get gets no reply.
type forgetful struct {
	lock.Store
	n    int
	gets atomic.Int64
}

func (l *forgetful) Get(ctx context.Context, g intent.Guard) (lock.Record, error) {
	if l.gets.Add(1) == int64(l.n) {
		return lock.Record{}, errStep
	}
	return l.Store.Get(ctx, g)
}

// A waiter that has just repaired a record and then gets no reply knows nothing: least of
// all that somebody else holds the step.
func TestNoReplyIsNoConflict(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 3; n++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			w.effect.takes(5 * time.Minute)
			a := w.deaf("a")
			request := w.call("mail", `{"id":1}`)
			request.Wait = 0
			a.Do(t.Context(), request)
			time.Sleep(2 * lease)
			o := w.options("b", nil)
			o.Lock = &forgetful{Store: w.lock, n: n}
			b := w.replicaOf(o)
			if got := b.Do(t.Context(), w.call("mail", `{"id":1}`)); got.Err != nil || got.Receipt.Status != intent.Unknown {
				t.Errorf("Get %d without a reply: %s, %v", n, got.Receipt.Status, got.Err)
			}
			time.Sleep(5 * time.Minute)
			a.close()
			b.close()
		})
	}
}
