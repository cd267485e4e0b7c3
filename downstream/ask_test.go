package downstream

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
)

func TestShareOfLookups(t *testing.T) {
	t.Parallel()
	for permits, want := range map[int]int64{1: 1, 7: 1, 16: 2, 128: 16, 256: 16, 65536: 16} {
		if got := askersOf(permits); got != want {
			t.Errorf("%d permits: %d lookups, want %d", permits, got, want)
		}
	}
}

// TestLookupsAndCallsDoNotWaitForEachOther: calls that hold every permit keep no lookup away,
// and hanging lookups keep no call away.
func TestLookupsAndCallsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 1 {
			<-over
		}
		asJSON(200, `{"data":[1]}`)(w, r)
	}))
	t.Cleanup(server.Close)
	cat, err := NewCatalogue([]Spec{{Name: "mail", BaseURL: server.URL, MaxInFlight: 16}}, []ToolSpec{lookupSpec()})
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(cat, Options{})
	t.Cleanup(c.Close)
	tool, _ := cat.Tool("send")
	in := call(t, tool, "{}")

	for range 16 {
		done, refused := c.Admit(tool)
		if refused != nil {
			t.Fatalf("%+v", refused)
		}
		defer done(Observed{}, Verdict{})
	}
	if f := c.Lookup(t.Context(), in); f.Proof != Happened {
		t.Errorf("with every permit taken: %s", f.Evidence)
	}
	var hanging sync.WaitGroup
	for range 2 { // all that a downstream of 16 permits has
		hanging.Go(func() { c.Lookup(t.Context(), in) })
	}
	for g := c.byName["mail"].gate; g.asking.Load() < 2; {
		time.Sleep(time.Millisecond)
	}
	if f := c.Lookup(t.Context(), in); f.Why != whyNoPermit || f.Proof != Nothing {
		t.Errorf("a third lookup: %s", f.Evidence)
	}
	if c.InFlight("mail") != 16 {
		t.Errorf("lookups count as calls: %d", c.InFlight("mail"))
	}
	close(over)
	hanging.Wait()
	if f := c.Lookup(t.Context(), in); f.Proof != Happened {
		t.Errorf("afterwards: %s", f.Evidence)
	}
}

// TestLookupsObeyTheBreakerAndTeachItNothing.
func TestLookupsObeyTheBreakerAndTeachItNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Spec{Name: "mail", MaxInFlight: 64, Breaker: BreakerSpec{Window: time.Minute, MinRequests: 2, FailureRatio: 0.5, OpenFor: 10 * time.Second, HalfOpenProbes: 1}})
		for range 100 {
			done, why := g.ask()
			if why != "" {
				t.Fatal(why)
			}
			done()
		}
		for range 2 {
			report, err := g.breaker.Allow()
			if err != nil {
				t.Fatal(err)
			}
			report(lesson(Observed{Sent: true, TimedOut: true}, Verdict{Status: intent.Unknown}))
		}
		if _, why := g.ask(); why != notSentBreaker {
			t.Errorf("open: %q", why)
		}
		time.Sleep(10*time.Second + time.Millisecond) // of the bubble's clock
		done, why := g.ask()
		if why != "" {
			t.Fatalf("half open: %q", why)
		}
		if _, why := g.ask(); why != notSentPermit {
			t.Errorf("a second one while it is half open: %q", why)
		}
		if _, err := g.breaker.Allow(); err != nil {
			t.Errorf("a lookup took the probe of a call: %v", err)
		}
		done()
		if state := g.breaker.State().String(); state != "half-open" {
			t.Errorf("a lookup moved the breaker to %s", state)
		}
	})
}
