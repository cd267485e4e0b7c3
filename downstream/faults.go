package downstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"time"
)

// Fault says on what shares of a tool's calls, 0 to 1 and together at most 1, an answer is
// lost on purpose. For staging: the effects are real, only what is known of them is not.
type Fault struct {
	AfterEffectTimeout  float64       // performs the call, then behaves as if no answer came in time
	AfterEffectReset    float64       // performs it, then behaves as if the connection broke before an answer
	AfterEffectTruncate float64       // performs it, then behaves as if the answer broke off in its body
	BeforeEffectRefuse  float64       // behaves as if no connection could be made; sends nothing
	Delay               time.Duration // before every call, on top of the tool's timeout
}

// Faulty is a Client that loses answers. Lookups are left alone: they are how one finds out.
type Faulty struct {
	*Client
	faults map[string]Fault

	mu  sync.Mutex
	rng *rand.Rand
}

// WithFaults returns the client with faults by the name of the tool. The same seed loses
// the answers of the same calls of a sequence.
func (c *Client) WithFaults(faults map[string]Fault, seed uint64) (*Faulty, error) {
	for name, f := range faults {
		sum := 0.0
		for _, share := range []float64{f.AfterEffectTimeout, f.AfterEffectReset, f.AfterEffectTruncate, f.BeforeEffectRefuse} {
			if !(share >= 0 && share <= 1) {
				return nil, fmt.Errorf("downstream: faults.%s: a share must be between 0 and 1", name)
			}
			sum += share
		}
		if sum > 1 || f.Delay < 0 {
			return nil, fmt.Errorf("downstream: faults.%s: the shares must not be more than 1 in all, nor the delay negative", name)
		}
	}
	return &Faulty{Client: c, faults: faults, rng: rand.New(rand.NewPCG(seed, 0))}, nil
}

// Execute is Client.Execute with faults.
func (f *Faulty) Execute(ctx context.Context, call Call) Observed {
	return f.lose(ctx, call, f.Client.Execute)
}

// Forward is Client.Forward with faults, after its own tries.
func (f *Faulty) Forward(ctx context.Context, call Call) Observed {
	return f.lose(ctx, call, f.Client.Forward)
}

var errInjected = errors.New("a fault was injected")

func (f *Faulty) lose(ctx context.Context, call Call, perform func(context.Context, Call) Observed) Observed {
	fault, ok := f.faults[call.Tool.Name]
	if !ok {
		return perform(ctx, call)
	}
	if wait(ctx, fault.Delay) != nil {
		return Observed{NotSentWhy: notSentCancelled, Err: ctx.Err()}
	}
	f.mu.Lock()
	at := f.rng.Float64()
	f.mu.Unlock()
	drawn := func(share float64) bool {
		hit := at >= 0 && at < share
		at -= share
		return hit
	}
	if drawn(fault.BeforeEffectRefuse) {
		return Observed{NotSentWhy: notSentDial, Err: errors.Join(errInjected, syscall.ECONNREFUSED)}
	}
	deadline := deadlineOf(ctx, call.Tool.Timeout)
	o := perform(ctx, call)
	if !o.Sent {
		return o // there is no effect whose answer could be lost
	}
	switch {
	case drawn(fault.AfterEffectTimeout):
		_ = wait(ctx, time.Until(deadline)) // a silent downstream is waited for to the end
		return Observed{Sent: true, TimedOut: true, Err: errors.Join(errInjected, os.ErrDeadlineExceeded)}
	case drawn(fault.AfterEffectReset):
		return Observed{Sent: true, Err: errors.Join(errInjected, syscall.ECONNRESET)}
	case drawn(fault.AfterEffectTruncate):
		return Observed{Sent: true, HTTPStatus: o.HTTPStatus, Header: o.Header, Err: errors.Join(errInjected, io.ErrUnexpectedEOF)}
	}
	return o
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
