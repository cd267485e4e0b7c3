package once_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/lock"
)

// The crash matrix of what follows a call whose answer was lost, or that awaits a person: three
// replicas reconcile and people decide at the same time, and one replica fails at every step in
// every way. The checker is that of the calls.

// recovery is one way on from a call on a sound replica.
type recovery struct {
	name, tool string
	happened   bool                           // the lost request arrived
	late       bool                           // its answer comes later, while the others go on
	decide     func(r *replica, k intent.Key) // what a person does, at every replica at once
	ends       []intent.Status
}

func (r *replica) order(k intent.Key, why string) once.Order {
	return once.Order{Tenant: "acme", Key: k, By: "ops-" + why, Reason: why}
}

var recoveries = []recovery{
	{name: "found", tool: "asked", happened: true, ends: []intent.Status{intent.Completed}},
	{name: "absent", tool: "asked", ends: []intent.Status{intent.Completed}}, // by the next call of the same key
	{name: "absent, and again", tool: "asked_again", ends: []intent.Status{intent.Completed}},
	{name: "deduped", tool: "deduped", happened: true, ends: []intent.Status{intent.Completed}},
	{name: "deduped, did not arrive", tool: "deduped", ends: []intent.Status{intent.Completed}},
	// An approval is used up by an execution that was not sent: the next call awaits another.
	{name: "approved", tool: "wire", ends: []intent.Status{intent.Completed, intent.AwaitingApproval}, decide: func(r *replica, k intent.Key) {
		r.Approve(context.Background(), r.order(k, "yes"), intent.Fingerprint{}, time.Minute)
	}},
	{name: "approved and declined", tool: "wire", ends: []intent.Status{intent.Completed, intent.Rejected, intent.AwaitingApproval}, decide: func(r *replica, k intent.Key) {
		var both sync.WaitGroup
		both.Go(func() { r.Approve(context.Background(), r.order(k, "yes"), intent.Fingerprint{}, time.Minute) })
		both.Go(func() { r.Decline(context.Background(), r.order(k, "no")) })
		both.Wait()
	}},
	{name: "resolved while the answer comes", tool: "mail", happened: true, late: true, ends: []intent.Status{intent.Completed}, decide: func(r *replica, k intent.Key) {
		r.Resolve(context.Background(), r.order(k, "it is there"), once.Resolution{Status: intent.Completed, Result: []byte(`{"n":1}`)})
	}},
	{name: "executed again by a person", tool: "mail", ends: []intent.Status{intent.Completed}, decide: func(r *replica, k intent.Key) {
		r.Reexecute(context.Background(), once.Order{Tenant: "acme", Key: k, By: "ops", Reason: "not there", If: &once.Tag{Fence: 1, Version: 2}}, time.Minute)
	}},
	{name: "asked for by a person", tool: "asked", happened: true, ends: []intent.Status{intent.Completed}, decide: func(r *replica, k intent.Key) {
		r.Reconcile(context.Background(), r.order(k, "look now"))
	}},
}

// deaf is a replica that never renews a lease: what it executes is soon lost, while it goes on.
func (w *world) deaf(name string) *replica {
	o := w.options(name, nil)
	o.Lock = deafLock{w.lock}
	return w.replicaOf(o)
}

type deafLock struct{ lock.Store }

func (deafLock) Renew(context.Context, []lock.Lease) ([]intent.Guard, error) { return nil, errStep }

// play plays one cell and returns the steps that the broken replica took.
func (sc recovery) play(t *testing.T, at map[int]mode) (steps []string) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.effect.lost = func(n int) bool {
			return n == 1 && !sc.happened && sc.decide == nil || n == 1 && sc.name == "executed again by a person"
		}
		w.effect.behave = func(n int) downstream.Observed {
			if n == 1 && !strings.HasPrefix(sc.name, "approved") && !sc.late {
				return lostAnswer
			}
			return ok(`{"n":1}`)
		}
		p := &plan{at: at}
		first, b, c := w.deaf("first"), w.replica("b"), w.replica("c")
		a := w.replicaOf(w.options("a", p))
		check := checker{w: w, t: t, rejects: sc.name == "approved and declined", uncounted: !sc.happened && sc.decide == nil}

		request := w.call(sc.tool, `{"id":1}`)
		request.Wait = 0
		if sc.late { // the owner sleeps past its lease with the answer in its hands
			w.effect.takes(2 * time.Minute)
		}
		told := first.Do(t.Context(), request)
		w.effect.takes(2 * time.Second)
		check.answer("first", told)
		key := told.Receipt.Key
		if sc.late {
			time.Sleep(timeout + 3*lease)
			b.sweep()
		}

		// Everybody goes on with it, again and again: the broken replica is a moment ahead, and
		// the others come while its question or its request is on the way.
		for round := range 12 {
			var all sync.WaitGroup
			for _, r := range []*replica{a, b, c} {
				if sc.decide != nil && round < 3 {
					all.Go(func() { sc.decide(r, key) })
				}
				all.Go(func() {
					if r == a {
						r.reconciler.Pass(context.Background()) // it may well fail
						return
					}
					r.reconcile()
					r.sweep()
				})
				if r == a {
					time.Sleep(time.Millisecond)
				}
			}
			all.Wait()
			time.Sleep(20 * time.Second)
		}
		check.answer("b", b.Do(t.Context(), w.call(sc.tool, `{"id":1}`)))
		time.Sleep(timeout + 2*lease)
		b.sweep()
		c.sweep()
		for _, r := range []*replica{a, first, b, c} {
			r.close()
		}
		check.world()
		row, err := w.store.Get(context.Background(), key)
		if err != nil {
			t.Fatal(err)
		}
		ended := row.Status == intent.Unknown && len(at) > 0 && w.tools[sc.tool].OnUnknown == downstream.ParkUnknown
		if len(at) == 0 && row.Status != sc.ends[0] && len(sc.ends) > 1 && sc.name == "approved" {
			t.Errorf("ended %s where nothing failed", row.Status)
		}
		for _, s := range sc.ends {
			ended = ended || row.Status == s
		}
		if !ended {
			t.Errorf("ended %s (%s, parked %q) after %d checks", row.Status, row.Reason, row.Parked, row.Checks)
		}
		if row.Doubt != 0 {
			t.Errorf("a doubt where everybody agrees: %s", row.Doubt)
		}
		steps = p.taken()
	})
	return steps
}

func TestRecoveryMatrix(t *testing.T) {
	for _, sc := range recoveries {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			steps := sc.play(t, nil)
			if len(steps) == 0 {
				t.Fatal("the replica that is to be broken took no step")
			}
			cells := 0
			for i := range steps {
				for _, m := range []mode{refused, lost, dies, paused} {
					t.Run(fmt.Sprintf("%d %s %s", i, steps[i], modeNames[m]), func(t *testing.T) { sc.play(t, map[int]mode{i: m}) })
					cells++
				}
			}
			t.Logf("%d cells over the steps %v", cells, steps)
		})
	}
}

// A late "done" of an execution that a later one superseded is kept, and people are told.
func TestLateAnswerAfterTheNextExecution(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a, b := w.deaf("a"), w.replica("b")
		w.effect.takes(5 * time.Minute) // the first answer takes its time
		request := w.call("mail", `{"id":1}`)
		request.Wait = 0
		told := a.Do(t.Context(), request)
		time.Sleep(timeout + 3*lease)
		b.sweep()
		w.effect.takes(0)
		again, err := b.Reexecute(t.Context(), b.order(told.Receipt.Key, "it is not there"), time.Minute)
		if err != nil || again.Status != intent.Completed || again.Fence != 2 {
			t.Fatalf("executed again: %s at fence %d, %v", again.Status, again.Fence, err)
		}
		time.Sleep(5 * time.Minute)
		row, err := w.store.Get(t.Context(), told.Receipt.Key)
		if err != nil || row.Doubt != intent.DoubtLateAnswer || row.NotifyAt.IsZero() {
			t.Fatalf("doubt %q, notify %v, %v", row.Doubt, row.NotifyAt, err)
		}
		if string(row.Outcome.Body) != string(again.Outcome.Body) {
			t.Error("what was reported has changed")
		}
		lines, err := b.Audit(t.Context(), "acme", row.Key, 10)
		if err != nil || len(lines) != 2 || lines[1].Action != intent.ActionLateAnswer || !strings.Contains(string(lines[1].Evidence), `"n":1`) {
			t.Fatalf("the audit says %+v, %v", lines, err)
		}
		if _, err := b.Acknowledge(t.Context(), b.order(row.Key, "refunded")); err != nil {
			t.Fatal(err)
		}
		if row, _ := w.store.Get(t.Context(), row.Key); row.Doubt != 0 {
			t.Error("still in doubt after a person saw to it")
		}
		a.close()
		b.close()
	})
}

// Retries are bounded in number and by the downstream's window; a changed request is another.
func TestRetriesAreBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, tool string
		change     func(w *world)
		parked     intent.Parking
		executions int
	}{
		{"tries", "deduped", nil, intent.ParkedTries, 6},
		{"tries, same state", "repeated", nil, intent.ParkedTries, 6},
		{"window", "deduped", func(*world) { time.Sleep(time.Hour) }, intent.ParkedWindow, 1},
		{"request changed", "deduped", func(w *world) { w.change("deduped", "/elsewhere") }, intent.ParkedChanged, 1},
		{"tool gone", "deduped", func(w *world) { w.change("deduped", "") }, intent.ParkedNoTool, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				w.effect.behave = func(int) downstream.Observed { return lostAnswer }
				a := w.replica("a")
				told := a.Do(t.Context(), w.call(c.tool, `{"id":1}`)).Receipt
				if c.change != nil {
					c.change(w)
				}
				for range 20 {
					a.reconcile()
					time.Sleep(time.Minute)
				}
				row, _ := w.store.Get(t.Context(), told.Key)
				if row.Status != intent.Unknown || row.Parked != c.parked || row.Executions != c.executions || row.NotifyAt.IsZero() {
					t.Errorf("%s, parked %q, %d executions, notify %v", row.Status, row.Parked, row.Executions, row.NotifyAt)
				}
				a.close()
			})
		})
	}
}

// What the answer to a repeated request says about the first one.
func TestRepeatedRequestProves(t *testing.T) {
	t.Parallel()
	answer := func(status int) downstream.Observed {
		seen := ok(`{}`)
		seen.HTTPStatus = status
		return seen
	}
	for _, c := range []struct {
		name, tool string
		second     downstream.Observed
		want       intent.Status
	}{
		{"done", "deduped", answer(200), intent.Completed},
		{"refused", "deduped", answer(422), intent.Rejected},
		{"still running", "deduped", answer(409), intent.Unknown},
		{"not now", "deduped", answer(429), intent.Unknown},
		{"not allowed", "deduped", answer(403), intent.Unknown},
		{"not sent", "deduped", downstream.Observed{NotSentWhy: "dial", Err: errStep}, intent.Unknown},
		{"refused, and it does not dedupe", "repeated", answer(422), intent.Unknown},
		{"done, and it does not dedupe", "repeated", answer(200), intent.Completed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				w.effect.behave = func(n int) downstream.Observed {
					if n == 1 {
						return lostAnswer
					}
					return c.second
				}
				a := w.replica("a")
				told := a.Do(t.Context(), w.call(c.tool, `{"id":1}`)).Receipt
				time.Sleep(2 * time.Second)
				a.reconcile()
				row, _ := w.store.Get(t.Context(), told.Key)
				if row.Status != c.want || row.Fence != 2 {
					t.Errorf("%s at fence %d, want %s", row.Status, row.Fence, c.want)
				}
				if sent := c.second.Sent; (row.Executions == 2) != sent {
					t.Errorf("%d executions, sent %v", row.Executions, sent)
				}
				a.close()
			})
		})
	}
}

// Absence is proof only after settle_after, and only where the tool says so; whatever else a
// lookup brings proves nothing, and one that never proves anything is parked.
func TestLookupsThatProveNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.effect.behave = func(int) downstream.Observed { return lostAnswer }
		answer := downstream.Finding{Proof: downstream.Absent, Evidence: []byte(`{"http_status":404}`)}
		w.effect.found = func(intent.Key) downstream.Finding { return answer }
		a := w.replica("a")
		told := a.Do(t.Context(), w.call("asked", `{"id":1}`)).Receipt
		for range 11 { // absent, but too early
			time.Sleep(5 * time.Second)
			a.reconcile()
		}
		row, _ := w.store.Get(t.Context(), told.Key)
		if row.Status != intent.Unknown || row.Checks == 0 || string(row.Evidence) != `{"http_status":404}` {
			t.Fatalf("before settle_after: %s after %d checks with %s", row.Status, row.Checks, row.Evidence)
		}
		answer = downstream.Finding{Why: "http_status", Evidence: []byte(`{"http_status":500}`)}
		for range 120 {
			time.Sleep(time.Minute)
			a.reconcile()
		}
		row, _ = w.store.Get(t.Context(), told.Key)
		if row.Status != intent.Unknown || row.Parked != intent.ParkedGaveUp || !row.NextCheck.IsZero() {
			t.Fatalf("after give_up_after: %s, parked %q, next check %v", row.Status, row.Parked, row.NextCheck)
		}
		if row.Version != told.Version {
			t.Error("lookups that proved nothing have moved the version that a person's If-Match names")
		}
		// A person asks, and absence counts now.
		answer = downstream.Finding{Proof: downstream.Absent, Evidence: []byte(`{"http_status":404}`)}
		r, err := a.Reconcile(t.Context(), a.order(told.Key, "look again"))
		if err != nil || r.Status != intent.Rejected || r.Retry != intent.RetrySameKey || r.SettledBy != "lookup" {
			t.Fatalf("%s, %s by %s, %v", r.Status, r.Retry, r.SettledBy, err)
		}
		a.close()
	})
}
