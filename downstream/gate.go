package downstream

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/latchkey-gateway/latchkey/intent"
)

// gate admits calls to one downstream: permits bound how many run, the breaker keeps them
// off a downstream that does not answer. It decides about fresh calls only; what is known
// about a key never depends on it.
type gate struct {
	permits  int64
	inFlight atomic.Int64
	askers   int64 // permits of lookups
	asking   atomic.Int64
	breaker  *gobreaker.TwoStepCircuitBreaker[struct{}]
	openFor  time.Duration
	openedAt atomic.Int64 // unix nanoseconds
}

// What a breaker is told besides success.
var (
	errFailed  = errors.New("no usable answer")
	errNothing = errors.New("says nothing about the downstream")
)

const (
	buckets   = 10          // of the rolling window
	soonAgain = time.Second // hint where nothing says when there is room again
)

func newGate(spec Spec) *gate {
	b := spec.Breaker
	g := &gate{permits: int64(spec.MaxInFlight), askers: askersOf(spec.MaxInFlight), openFor: b.OpenFor}
	g.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         spec.Name,
		MaxRequests:  uint32(b.HalfOpenProbes),
		Interval:     b.Window,
		BucketPeriod: b.Window / buckets,
		Timeout:      b.OpenFor,
		ReadyToTrip: func(n gobreaker.Counts) bool {
			decided := n.TotalSuccesses + n.TotalFailures // n.Requests also counts calls in flight
			return int(decided) >= b.MinRequests && float64(n.TotalFailures) >= b.FailureRatio*float64(decided)
		},
		// Runs under the breaker's mutex: it must not ask the breaker anything.
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				g.openedAt.Store(time.Now().UnixNano())
			}
		},
		IsExcluded: func(err error) bool { return errors.Is(err, errNothing) },
	})
	return g
}

// Refusal says why a fresh call was not admitted. Nothing was sent.
type Refusal struct {
	NotSentWhy string        // no_permit or breaker_open
	RetryAfter time.Duration // 0: no hint
}

// Verdict is the refusal as an outcome: rejected, not sent, the same call is safe.
func (r *Refusal) Verdict() Verdict { return notSent(r.NotSentWhy, r.RetryAfter) }

// Admit asks for a permit and the breaker's leave, without waiting. If refused is nil, done
// MUST be called once the call is over, also when nothing was executed after all (then with
// zero values): a half-open probe that never reports would keep the breaker half open. More
// calls of done do nothing.
func (c *Client) Admit(t *Tool) (done func(Observed, Verdict), refused *Refusal) {
	g := c.byName[t.Downstream].gate
	if g.inFlight.Add(1) > g.permits {
		g.inFlight.Add(-1)
		return nil, &Refusal{NotSentWhy: notSentPermit, RetryAfter: soonAgain}
	}
	report, err := g.breaker.Allow()
	if err != nil {
		g.inFlight.Add(-1)
		return nil, &Refusal{NotSentWhy: notSentBreaker, RetryAfter: g.reopens(err)}
	}
	var over atomic.Bool
	return func(o Observed, v Verdict) {
		if over.CompareAndSwap(false, true) {
			g.inFlight.Add(-1)
			report(lesson(o, v))
		}
	}, nil
}

// askersOf is how many lookups run at once: an eighth of the permits, at least one, at most 16.
// They are on top of the permits, so lookups and calls never wait for each other.
func askersOf(permits int) int64 { return int64(min(max(permits/8, 1), 16)) }

// ask admits a lookup, without waiting; why is no_permit or breaker_open when it does not, and
// else done MUST be called when it is over. An open breaker stops lookups too, a half-open one
// lets one through at a time. What a lookup meets teaches the breaker nothing: a broken search
// must not keep calls away, and a lookup takes no probe from them.
func (g *gate) ask() (done func(), why string) {
	most := g.askers
	switch g.breaker.State() {
	case gobreaker.StateOpen:
		return nil, notSentBreaker
	case gobreaker.StateHalfOpen:
		most = 1
	}
	if g.asking.Add(1) > most {
		g.asking.Add(-1)
		return nil, notSentPermit
	}
	return func() { g.asking.Add(-1) }, ""
}

// reopens is how long until the breaker lets a call through.
func (g *gate) reopens(err error) time.Duration {
	if errors.Is(err, gobreaker.ErrTooManyRequests) {
		return soonAgain
	}
	return max(g.openFor-time.Since(time.Unix(0, g.openedAt.Load())), 0)
}

// lesson is what a call teaches about the downstream's health: an answer is a success, also
// one that refuses the caller; no answer, an unknown outcome and a 5xx are failures; what
// ended on our side teaches nothing.
func lesson(o Observed, v Verdict) error {
	switch {
	case v.Status == 0:
		return errNothing
	case v.Unsent:
		switch o.NotSentWhy {
		case notSentDNS, notSentDial, notSentTLS, notSentClosed:
			return errFailed
		}
		return errNothing
	case v.Status == intent.Unknown || o.HTTPStatus >= 500:
		return errFailed
	}
	return nil
}

// BreakerState is closed, half-open or open; "" for a downstream that there is not.
func (c *Client) BreakerState(downstream string) string {
	if l := c.byName[downstream]; l != nil {
		return l.gate.breaker.State().String()
	}
	return ""
}

// InFlight is how many calls hold a permit of the downstream now.
func (c *Client) InFlight(downstream string) int {
	if l := c.byName[downstream]; l != nil {
		return int(l.gate.inFlight.Load())
	}
	return 0
}
