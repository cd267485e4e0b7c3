package sweep_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/gateway/sweep"
	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore/memstore"
	"github.com/latchkey-gateway/latchkey/lock"
	"github.com/latchkey-gateway/latchkey/lock/memlock"
)

const lease = 10 * time.Second

type world struct {
	lock   *memlock.Locker
	store  *memstore.Store
	engine *once.Engine
	sweep.Sweeper
}

// inBubble runs f in a synctest bubble with an engine and a sweeper that nobody calls but f.
func inBubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{lock: memlock.New(nil), store: memstore.New()}
		w.engine = once.New(once.Options{Lock: w.lock, Store: w.store, Desk: w.store, Journal: w.store,
			Tools: func(string) (*downstream.Tool, bool) { return nil, false }, Lease: lease, HotTTL: time.Hour,
			NearCache: 1 << 20, MaxInFlight: 100, Replica: "r", Region: "test"})
		w.Sweeper = *sweep.New(sweep.Options{Engine: w.engine, Lock: w.lock, Store: w.store, Lease: lease,
			Result: 24 * time.Hour, Tombstone: 48 * time.Hour})
		f(t, w)
		if err := w.engine.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func (w *world) sweep(t *testing.T) {
	t.Helper()
	if err := w.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// started is a row that claim b began now, with half a minute to settle.
func started() intent.Receipt {
	now := intent.Micros(time.Now())
	return intent.Receipt{Key: intent.Key{1}, Guard: intent.Guard{1}, Fingerprint: intent.Fingerprint{1}, ClaimID: intent.ClaimID{0xb},
		Tenant: "acme", Tool: "mail", Class: intent.Effectful, Durability: intent.Durable, RunID: "r", StepID: "s", Args: []byte(`{}`),
		Status: intent.Started, Retry: intent.RetrySameKey, Fence: 1, Version: 1, Attempts: 1, Executions: 1,
		CreatedAt: now, StartedAt: now, SettleBy: now.Add(30 * time.Second)}
}

func ask(r intent.Receipt) lock.Ask {
	return lock.Ask{Guard: r.Guard, Key: r.Key, Fingerprint: r.Fingerprint, ClaimID: r.ClaimID, Lease: lease}
}

func (w *world) claim(t *testing.T, a lock.Ask) {
	t.Helper()
	if got, err := w.lock.Claim(t.Context(), a); err != nil || got.Code != lock.Claimed {
		t.Fatalf("claim: %+v, %v", got, err)
	}
}

func (w *world) begin(t *testing.T, r intent.Receipt) intent.Receipt {
	t.Helper()
	got, err := w.store.Begin(t.Context(), r)
	if err != nil || !got.Mine {
		t.Fatalf("begin: %+v, %v", got, err)
	}
	return got.Row
}

func (w *world) row(t *testing.T) intent.Receipt {
	t.Helper()
	r, err := w.store.Get(t.Context(), intent.Key{1})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestClaimWithoutRowIsReleased(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.claim(t, ask(started()))
		w.sweep(t)
		if _, err := w.lock.Get(t.Context(), intent.Guard{1}); err != nil {
			t.Fatalf("released while its lease lived: %v", err)
		}
		time.Sleep(lease + time.Second)
		w.sweep(t)
		if _, err := w.lock.Get(t.Context(), intent.Guard{1}); !errors.Is(err, intent.ErrNone) {
			t.Errorf("not released: %v", err)
		}
	})
}

func TestExpiredLeaseIsUnknown(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.claim(t, ask(started()))
		w.begin(t, started())
		time.Sleep(lease - time.Second)
		w.sweep(t)
		if got := w.row(t); got.Status != intent.Started {
			t.Fatalf("%s while the lease lives", got.Status)
		}
		time.Sleep(2 * time.Second)
		w.sweep(t)
		if got := w.row(t); got.Status != intent.Unknown || got.Reason != "lease_expired" || got.UnknownSince.IsZero() {
			t.Errorf("%+v", got)
		}
		if rec, err := w.lock.Get(t.Context(), intent.Guard{1}); err != nil || rec.Status != intent.Unknown {
			t.Errorf("redis: %+v, %v", rec, err)
		}
	})
}

// A row whose claim Redis has forgotten may still have a living owner: it is lost only
// after the tool's timeout and a lease.
func TestForgottenClaimIsLostLater(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.begin(t, started())
		time.Sleep(29 * time.Second)
		w.sweep(t)
		if got := w.row(t); got.Status != intent.Started {
			t.Fatalf("%s before its time", got.Status)
		}
		time.Sleep(2 * time.Second)
		w.sweep(t)
		if got := w.row(t); got.Status != intent.Unknown {
			t.Errorf("%s", got.Status)
		}
	})
}

func TestSettledRowIsCopiedToRedis(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.claim(t, ask(started()))
		row := w.begin(t, started())
		if _, err := w.store.Settle(t.Context(), row.CompleteMove("downstream", &intent.Outcome{HTTPStatus: 200, Body: []byte("x")}, time.Now())); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lease + time.Second)
		w.sweep(t)
		rec, err := w.lock.Get(t.Context(), intent.Guard{1})
		if err != nil || rec.Status != intent.Completed || !rec.Durable {
			t.Fatalf("%+v, %v", rec, err)
		}
		if copied, err := intent.DecodeReceipt(rec.Receipt); err != nil || string(copied.Outcome.Body) != "x" {
			t.Errorf("%+v, %v", copied, err)
		}
		if open, err := w.lock.Overdue(t.Context(), 0, 10); err != nil || len(open) != 0 {
			t.Errorf("still open: %v, %v", open, err)
		}
	})
}

// TestResultsOfTheDeadAreStored: a result that reached Redis alone, because the store was
// down or the tool is hot, is stored after its replica has died.
func TestResultsOfTheDeadAreStored(t *testing.T) {
	for _, durability := range []intent.Durability{intent.Durable, intent.Hot} {
		t.Run(durability.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				r := started()
				r.Durability = durability
				a := ask(r)
				if durability == intent.Hot {
					a.Hot, a.Receipt = true, r.Encode()
				} else {
					r = w.begin(t, r)
				}
				w.claim(t, a)
				done, err := r.Apply(r.CompleteMove("downstream", &intent.Outcome{HTTPStatus: 200, Body: []byte("x")}, time.Now()))
				if err != nil {
					t.Fatal(err)
				}
				done.Durable = false
				if _, wrote, err := w.lock.Settle(t.Context(), lock.Record{Guard: r.Guard, Key: r.Key, Fingerprint: r.Fingerprint, ClaimID: r.ClaimID,
					Fence: 1, Status: intent.Completed, Retry: intent.RetryNever, Hot: durability == intent.Hot, Receipt: done.Encode()}, time.Hour); err != nil || !wrote {
					t.Fatal(wrote, err)
				}
				time.Sleep(lease + time.Second)
				w.sweep(t)
				if got := w.row(t); got.Status != intent.Completed || string(got.Outcome.Body) != "x" || !got.Durable {
					t.Errorf("%+v", got)
				}
				if rec, err := w.lock.Get(t.Context(), intent.Guard{1}); err != nil || !rec.Durable {
					t.Errorf("redis: %+v, %v", rec, err)
				}
			})
		})
	}
}

func TestHotClaimOfTheDeadIsUnknown(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := started()
		r.Durability = intent.Hot
		a := ask(r)
		a.Hot, a.Receipt = true, r.Encode()
		w.claim(t, a)
		time.Sleep(lease + time.Second)
		w.sweep(t)
		synctest.Wait()
		if got := w.row(t); got.Status != intent.Unknown || got.Tenant != "acme" {
			t.Errorf("%+v", got)
		}
	})
}

func TestRetention(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		row := w.begin(t, started())
		if _, err := w.store.Settle(t.Context(), row.CompleteMove("downstream", &intent.Outcome{HTTPStatus: 200, Body: []byte("x")}, time.Now())); err != nil {
			t.Fatal(err)
		}
		time.Sleep(23 * time.Hour)
		w.sweep(t)
		if got := w.row(t); got.Expired {
			t.Fatal("expired too early")
		}
		time.Sleep(2 * time.Hour)
		w.sweep(t)
		if got := w.row(t); !got.Expired || got.Outcome != nil || got.Status != intent.Completed {
			t.Fatalf("not a tombstone: %+v", got)
		}
		time.Sleep(24 * time.Hour)
		w.sweep(t)
		if _, err := w.store.Get(t.Context(), intent.Key{1}); !errors.Is(err, intent.ErrNone) {
			t.Errorf("not forgotten: %v", err)
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.claim(t, ask(started()))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { w.Run(ctx); close(ended) }()
		time.Sleep(4 * lease)
		if _, err := w.lock.Get(t.Context(), intent.Guard{1}); !errors.Is(err, intent.ErrNone) {
			t.Errorf("Run did not sweep: %v", err)
		}
		cancel()
		<-ended
	})
}
