package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/history"
)

// agent is one copy that works on an intent.
type agent struct {
	*Fleet
	it       Intent
	copy     Copy
	number   int // of the copy
	rng      *rand.Rand
	to, memo string
	door     string
	tries    int
}

// know is what an agent was last told.
type know int

const (
	nothing  know = iota // no answer, or none that says anything about the action
	done                 // it happened
	notDone              // it did not happen; a corrected attempt is safe
	notSent              // this attempt did nothing; the same again is safe
	pending              // it is not known, or waits for somebody
	conflict             // refused because an earlier call stands
	refused              // the request itself was wrong
)

func (f *Fleet) agent(it Intent, number int) *agent {
	a := &agent{Fleet: f, it: it, copy: it.Copies[number], number: number, to: it.To, memo: it.Memo,
		rng: rand.New(rand.NewPCG(f.Seed^0xa9e27, uint64(it.Index)<<8|uint64(number)))}
	a.door = f.Doors[0] // the balancer
	if number > 0 && len(f.Doors) > 1 {
		a.door = f.Doors[a.rng.IntN(len(f.Doors))]
	}
	if a.copy.Reworded {
		a.reword()
	}
	return a
}

// live is the agent's life: its host runs the step until it is content or out of tries.
func (a *agent) live(ctx context.Context) {
	if a.copy.Dies > 0 {
		var die context.CancelFunc
		ctx, die = context.WithTimeout(ctx, a.copy.Dies)
		defer die()
	}
	why := a.copy.Why
	for host := range a.Habits.HostTries {
		r := a.library(ctx, why, host)
		if ctx.Err() != nil {
			return // it died, or the run ends
		}
		k := meaning(r)
		if k == conflict && a.it.Obeys && a.ask(ctx, r) {
			return
		}
		why = history.HostRetry
		switch k {
		case done, refused:
			return
		case pending:
			if a.it.Obeys {
				a.poll(ctx, r.Key)
				return
			}
			why = history.Ignoring
		case conflict:
			if a.it.Obeys {
				return
			}
			why = history.Ignoring
		case notDone:
			a.correct()
		}
		pause(ctx, a.Patience/10+time.Duration(a.rng.Int64N(int64(a.Patience)*9/10)))
		if k != notDone && a.rng.Float64() < a.Habits.Rewords {
			a.reword()
		}
		if len(a.Doors) > 1 && a.rng.Float64() < 0.4 {
			a.door = a.Doors[a.rng.IntN(len(a.Doors))] // another region, or another balancer
		}
	}
}

// library is one call of a client library: it tries again by itself, with the same bytes.
func (a *agent) library(ctx context.Context, why history.Why, host int) reply {
	backoff := a.Patience * 15 / 100
	for try := 1; ; try++ {
		r := a.try(ctx, why, host)
		again := r.HTTP == 0 || r.HTTP == http.StatusRequestTimeout || r.HTTP == http.StatusConflict ||
			r.HTTP == http.StatusTooManyRequests || r.HTTP >= 500
		if !again || try >= a.Habits.SDKTries || ctx.Err() != nil || r.noRetry && a.it.Obeys {
			return r
		}
		wait := backoff/2 + time.Duration(a.rng.Int64N(int64(backoff)))
		if a.it.Obeys {
			wait = max(wait, min(r.retryAfter, 2*a.Patience))
		}
		pause(ctx, wait)
		backoff *= 3
		why = history.SDKRetry
	}
}

func (a *agent) try(ctx context.Context, why history.Why, host int) reply {
	wait := a.it.Wait
	if a.it.HangUp > 0 && a.tries == 0 {
		wait = a.it.HangUp
	}
	a.tries++
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	r := a.client.send(ctx, call{
		it: a.it, tenant: a.Tenants[a.it.Tenant], door: a.door, why: why, to: a.to, memo: a.memo,
		sdkKey: fmt.Sprintf("%s-%d-%d", a.it.Ref, a.number, host),
	})
	if r.Sent.IsZero() {
		return r
	}
	a.record(r.Attempt)
	return r
}

// ask finds out about the earlier call that stands in the way. It says whether it did.
func (a *agent) ask(ctx context.Context, r reply) bool {
	key := r.Earlier
	if key == "" {
		key = r.Key
	}
	if key == "" {
		return false
	}
	a.poll(ctx, key)
	return true
}

// poll waits for the receipt to tell something, for a while.
func (a *agent) poll(ctx context.Context, key string) {
	until := time.Now().Add(4 * a.Patience)
	for time.Now().Before(until) && ctx.Err() == nil {
		r, ok := a.receipt(ctx, a.door, a.it.Tenant, key, 1)
		if ok && (r.Status == "completed" || r.Status == "rejected") {
			return
		}
		pause(ctx, a.Patience/5)
	}
}

// reword says the same otherwise; now and then the model also changes who it goes to.
func (a *agent) reword() {
	a.memo = memo(a.rng)
	if a.rng.Float64() < a.Habits.Readdress/max(a.Habits.Rewords, 0.01) {
		a.to = fmt.Sprintf("other%d@example.com", a.rng.IntN(5000))
	}
}

// correct is what a model does when its arguments were refused.
func (a *agent) correct() { a.memo = memo(a.rng) + ", corrected" }

// meaning is how an agent that can read takes an answer.
func meaning(r reply) know {
	switch {
	case r.HTTP == 0:
		return nothing
	case r.Status == "completed", r.Status == "" && r.Code == "" && r.HTTP >= 200 && r.HTTP < 300:
		return done
	case r.Status == "started", r.Status == "unknown", r.Status == "awaiting_approval":
		return pending
	case r.Code == "idempotency_conflict", r.Code == "step_conflict":
		return conflict
	case r.HTTP == http.StatusServiceUnavailable, r.HTTP == http.StatusTooManyRequests:
		return notSent
	case r.Status == "rejected", r.HTTP == http.StatusUnprocessableEntity:
		return notDone
	case r.HTTP >= 400 && r.HTTP < 500:
		return refused
	}
	return nothing
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
