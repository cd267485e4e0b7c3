package once_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/intent"
)

// A decision is bound to what the person saw, needs a reason, is done once, and repeats.
func TestDecisionsAreConditional(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a := w.replica("a")
		told := a.Do(t.Context(), w.call("wire", `{"id":1}`)).Receipt
		if told.Status != intent.AwaitingApproval || w.effect.total() != 0 {
			t.Fatalf("%s with %d effects", told.Status, w.effect.total())
		}
		yes := a.order(told.Key, "yes")
		refuse := func(name string, want intent.Category, _ intent.Receipt, err error) {
			t.Helper()
			if e, ok := errors.AsType[*intent.Error](err); !ok || e.Category != want {
				t.Errorf("%s: %v, want %v", name, err, want.Code())
			}
		}
		call := func(name string, want intent.Category, f func() (intent.Receipt, error)) {
			t.Helper()
			r, err := f()
			refuse(name, want, r, err)
		}
		call("no reason", intent.BadRequest, func() (intent.Receipt, error) {
			o := yes
			o.Reason = ""
			return a.Approve(t.Context(), o, told.Fingerprint, time.Minute)
		})
		call("another version", intent.PreconditionFailed, func() (intent.Receipt, error) {
			o := yes
			o.If = &once.Tag{Fence: 1, Version: 9}
			return a.Approve(t.Context(), o, told.Fingerprint, time.Minute)
		})
		call("other arguments", intent.StateConflict, func() (intent.Receipt, error) {
			return a.Approve(t.Context(), yes, intent.Fingerprint{1}, time.Minute)
		})
		call("nothing unknown", intent.StateConflict, func() (intent.Receipt, error) {
			return a.Resolve(t.Context(), yes, once.Resolution{Status: intent.Completed})
		})
		o := yes
		o.Tenant = "other"
		if _, err := a.Approve(t.Context(), o, told.Fingerprint, time.Minute); !errors.Is(err, intent.ErrNone) {
			t.Errorf("another tenant: %v", err)
		}
		o = yes
		o.If = &once.Tag{Fence: told.Fence, Version: told.Version}
		for range 2 { // the second is a repeat after a lost reply
			r, err := a.Approve(t.Context(), o, told.Fingerprint, time.Minute)
			if err != nil || r.Status != intent.Completed || w.effect.total() != 1 {
				t.Fatalf("approved: %s, %d effects, %v", r.Status, w.effect.total(), err)
			}
		}
		call("after the fact", intent.StateConflict, func() (intent.Receipt, error) { return a.Decline(t.Context(), a.order(told.Key, "no")) })
		if lines, _ := a.Audit(t.Context(), "acme", told.Key, 10); len(lines) != 1 {
			t.Errorf("%d lines in the audit", len(lines))
		}
		a.close()
	})
}

func TestTwoPeopleApprove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a := w.replica("a")
		key := a.Do(t.Context(), w.call("wire_by_two", `{"id":1}`)).Receipt.Key
		one, err := a.Approve(t.Context(), a.order(key, "one"), intent.Fingerprint{}, time.Minute)
		if err != nil || one.Status != intent.AwaitingApproval || len(one.ApprovedBy) != 1 || w.effect.total() != 0 {
			t.Fatalf("after one: %s, approved by %v, %d effects, %v", one.Status, one.ApprovedBy, w.effect.total(), err)
		}
		same := a.order(key, "one")
		same.Reason = "once more"
		if _, err := a.Approve(t.Context(), same, intent.Fingerprint{}, time.Minute); err == nil {
			t.Error("one person approved twice")
		}
		two, err := a.Approve(t.Context(), a.order(key, "two"), intent.Fingerprint{}, time.Minute)
		if err != nil || two.Status != intent.Completed || len(two.ApprovedBy) != 2 || w.effect.total() != 1 {
			t.Fatalf("after two: %s, approved by %v, %d effects, %v", two.Status, two.ApprovedBy, w.effect.total(), err)
		}
		a.close()
	})
}

func TestApprovalExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a := w.replica("a")
		key := a.Do(t.Context(), w.call("wire_by_two", `{"id":1}`)).Receipt.Key
		time.Sleep(time.Hour)
		if _, err := a.Approve(t.Context(), a.order(key, "too late"), intent.Fingerprint{}, time.Minute); err == nil {
			t.Error("approved after its time")
		}
		a.reconcile()
		row, _ := w.store.Get(t.Context(), key)
		if row.Status != intent.Rejected || row.Retry != intent.RetryCorrected || row.Reason != intent.ReasonExpired {
			t.Errorf("%s, %s, %s", row.Status, row.Retry, row.Reason)
		}
		// A corrected call awaits approval anew, and its approval is its own.
		corrected := w.call("wire_by_two", `{"id":1,"memo":"x"}`)
		corrected.Args, _ = intent.Parse([]byte(`{"id":2}`))
		if again := a.Do(t.Context(), corrected).Receipt; again.Status != intent.AwaitingApproval {
			t.Errorf("corrected: %s", again.Status)
		}
		a.close()
	})
}

// Arguments that are redacted reach the downstream after an approval, on another replica.
func TestSealedArgumentsAreSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a, b := w.replica("a"), w.replica("b")
		told := a.Do(t.Context(), w.call("secret", `{"card":"4242424242424242"}`)).Receipt
		row, _ := w.store.Get(t.Context(), told.Key)
		if strings.Contains(string(row.Args)+string(row.Sealed), "4242") || len(row.Sealed) == 0 {
			t.Fatalf("stored %s and %d sealed bytes", row.Args, len(row.Sealed))
		}
		r, err := b.Approve(t.Context(), b.order(told.Key, "yes"), told.Fingerprint, time.Minute)
		if err != nil || r.Status != intent.Completed || !strings.Contains(w.effect.args, "4242424242424242") {
			t.Fatalf("%s, sent %s, %v", r.Status, w.effect.args, err)
		}
		if row, _ := w.store.Get(t.Context(), told.Key); len(row.Sealed) != 0 {
			t.Error("the sealed arguments outlived their use")
		}
		a.close()
		b.close()
	})
}

// A caller that said how long it waits gets the result of what a person approves meanwhile;
// one that did not is told at once where to ask.
func TestCallersWaitForApproval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a, b := w.replica("a"), w.replica("b")
		began := time.Now()
		told := b.Do(t.Context(), w.call("wire", `{"id":1}`))
		if told.Receipt.Status != intent.AwaitingApproval || time.Since(began) > time.Second {
			t.Fatalf("%s after %v", told.Receipt.Status, time.Since(began))
		}
		answers := make(chan once.Answer)
		for _, r := range []*replica{a, b} {
			go func() {
				patient := w.call("wire", `{"id":1}`)
				patient.Patient = true
				answers <- r.Do(t.Context(), patient)
			}()
		}
		time.Sleep(20 * time.Second)
		if _, err := a.Approve(t.Context(), a.order(told.Receipt.Key, "yes"), told.Receipt.Fingerprint, time.Minute); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got := <-answers; got.Receipt.Status != intent.Completed || !got.Replayed || got.Decision != intent.Collapsed {
				t.Errorf("%s, replayed %v, %s", got.Receipt.Status, got.Replayed, got.Decision)
			}
		}
		if d := time.Since(began); d > 25*time.Second || w.effect.total() != 1 {
			t.Errorf("after %v, %d effects", d, w.effect.total())
		}
		a.close()
		b.close()
	})
}
