package downstream

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
)

var (
	good     = Observed{Sent: true, HTTPStatus: 200}
	refused  = Observed{Sent: true, HTTPStatus: 422}
	failed   = Observed{Sent: true, HTTPStatus: 503}
	lost     = Observed{Sent: true, Err: errors.New("reset")}
	noDial   = Observed{NotSentWhy: "dial", Err: errors.New("refused")}
	lateHere = Observed{NotSentWhy: "lease", Err: errors.New("lease")}
)

// gated makes a client whose breaker looks at 10 s, opens at 50 % of at least 4 calls for
// 5 s, and then lets 2 probes through.
func gated(t *testing.T, permits int) (*Client, *Tool) {
	t.Helper()
	cat, err := NewCatalogue([]Spec{{Name: "mail", BaseURL: "http://x", MaxInFlight: permits,
		Breaker: BreakerSpec{Window: 10 * time.Second, MinRequests: 4, FailureRatio: 0.5, OpenFor: 5 * time.Second, HalfOpenProbes: 2}}}, []ToolSpec{emailSpec()})
	if err != nil {
		t.Fatal(err)
	}
	tool, _ := cat.Tool("send")
	return NewClient(cat, Options{}), tool
}

// run admits a call and reports what it observed; it returns the refusal, if any.
func run(c *Client, tool *Tool, o Observed) *Refusal {
	done, no := c.Admit(tool)
	if no == nil {
		done(o, Classify(tool, o))
	}
	return no
}

func TestTheBreakerOpensOnFailuresAndProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, tool := gated(t, 10)
		for i, o := range []Observed{lost, failed, noDial, lost} {
			if no := run(c, tool, o); no != nil {
				t.Fatalf("call %d refused: %+v", i, no)
			}
		}
		if s := c.BreakerState("mail"); s != "open" {
			t.Fatalf("breaker is %s after 4 failures", s)
		}
		time.Sleep(2 * time.Second)
		no := run(c, tool, good)
		if no == nil || no.NotSentWhy != "breaker_open" || no.RetryAfter != 3*time.Second {
			t.Fatalf("refusal %+v, want 3s until it is half open", no)
		}
		if v := no.Verdict(); v.Status != intent.Rejected || v.Retry != intent.RetrySameKey || !v.Unsent || v.RetryAfter != 3*time.Second || v.Reason != "not sent: breaker_open" {
			t.Errorf("verdict %+v", v)
		}
		time.Sleep(3*time.Second + time.Millisecond)
		first, no1 := c.Admit(tool)
		second, no2 := c.Admit(tool)
		if no1 != nil || no2 != nil {
			t.Fatalf("no probes: %+v %+v", no1, no2)
		}
		if _, no := c.Admit(tool); no == nil || no.NotSentWhy != "breaker_open" || no.RetryAfter <= 0 {
			t.Fatalf("a third probe: %+v", no)
		}
		// One probe was never sent: it gives its place back and proves nothing.
		first(Observed{}, Verdict{})
		if s := c.BreakerState("mail"); s != "half-open" {
			t.Fatalf("breaker is %s after a probe that said nothing", s)
		}
		second(good, Classify(tool, good))
		if no := run(c, tool, good); no != nil {
			t.Fatalf("%+v", no)
		}
		if s := c.BreakerState("mail"); s != "closed" || c.InFlight("mail") != 0 {
			t.Errorf("breaker is %s after two good probes, %d in flight", s, c.InFlight("mail"))
		}
	})
}

func TestAFailedProbeOpensAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, tool := gated(t, 10)
		for range 4 {
			run(c, tool, lost)
		}
		time.Sleep(5*time.Second + time.Millisecond)
		run(c, tool, noDial)
		if no := run(c, tool, good); no == nil || no.RetryAfter != 5*time.Second {
			t.Errorf("%+v, want open for another 5s", no)
		}
	})
}

func TestWhatIsNoFailureOfTheDownstream(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Observed{"refused": refused, "lease": lateHere, "cancelled": {NotSentWhy: "cancelled"}, "bad request": {NotSentWhy: "request"}, "nothing sent": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, tool := gated(t, 10)
			for range 100 {
				done, no := c.Admit(tool)
				if no != nil {
					t.Fatalf("%+v", no)
				}
				v := Classify(tool, o)
				if name == "nothing sent" {
					v = Verdict{}
				}
				done(o, v)
			}
			if s := c.BreakerState("mail"); s != "closed" {
				t.Errorf("breaker is %s", s)
			}
		})
	}
}

func TestAProviderThatSaysNotAcceptedIsStillIll(t *testing.T) {
	t.Parallel()
	spec := emailSpec()
	spec.Statuses = map[int]string{503: "not_accepted"}
	tool, _ := load(t, "http://x", spec).Tool("send")
	if lesson(failed, Classify(tool, failed)) != errFailed {
		t.Error("a 503 should count, whatever it means for the call")
	}
}

// Calls in flight have not been counted yet: one failure among them is one, not all.
func TestOneFailureUnderLoadOpensNothing(t *testing.T) {
	t.Parallel()
	c, tool := gated(t, 10)
	for range 9 {
		if _, no := c.Admit(tool); no != nil {
			t.Fatalf("%+v", no)
		}
	}
	run(c, tool, lost)
	if s := c.BreakerState("mail"); s != "closed" {
		t.Errorf("breaker is %s after one failure", s)
	}
}

// Old failures are forgotten: the window rolls.
func TestTheWindowRolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, tool := gated(t, 10)
		for range 3 {
			run(c, tool, lost)
		}
		time.Sleep(12 * time.Second)
		run(c, tool, lost)
		if s := c.BreakerState("mail"); s != "closed" {
			t.Errorf("breaker is %s after 3 failures long ago and one now", s)
		}
	})
}

func TestManyGoodCallsDoNotHideAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, tool := gated(t, 10)
		for range 10_000 {
			run(c, tool, good)
		}
		time.Sleep(11 * time.Second)
		for range 4 {
			run(c, tool, lost)
		}
		if s := c.BreakerState("mail"); s != "open" {
			t.Errorf("breaker is %s", s)
		}
	})
}

func TestPermits(t *testing.T) {
	t.Parallel()
	c, tool := gated(t, 3)
	var dones []func(Observed, Verdict)
	for range 3 {
		done, no := c.Admit(tool)
		if no != nil {
			t.Fatalf("%+v", no)
		}
		dones = append(dones, done)
	}
	if _, no := c.Admit(tool); no == nil || no.NotSentWhy != "no_permit" || no.RetryAfter <= 0 {
		t.Fatalf("a fourth: %+v", no)
	}
	if n := c.InFlight("mail"); n != 3 {
		t.Errorf("%d in flight", n)
	}
	dones[0](good, Classify(tool, good))
	dones[0](good, Classify(tool, good)) // a second report must not free a second permit
	if n := c.InFlight("mail"); n != 2 {
		t.Errorf("%d in flight after one is done", n)
	}
	if no := run(c, tool, good); no != nil {
		t.Errorf("%+v", no)
	}
	if c.BreakerState("none") != "" || c.InFlight("none") != 0 {
		t.Error("a downstream that there is not")
	}
}

func TestPermitsUnderLoad(t *testing.T) {
	t.Parallel()
	c, tool := gated(t, 4)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 200 {
				if done, no := c.Admit(tool); no == nil {
					if n := c.InFlight("mail"); n < 1 {
						t.Errorf("%d in flight while holding a permit", n)
					}
					done(good, Classify(tool, good))
				}
			}
		})
	}
	all.Wait()
	if n := c.InFlight("mail"); n != 0 {
		t.Errorf("%d in flight at the end", n)
	}
}
