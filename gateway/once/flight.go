package once

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
)

// flight is one key's call under way in this replica. The first arrival creates it, its
// goroutine leads, and everybody waits on done. Calls with another fingerprint have a
// flight of their own: what tells them apart is the claim, as it would be between replicas.
type flight struct {
	id          intent.Identity
	req         Request // the first arrival's
	provisional intent.Receipt
	latest      atomic.Pointer[intent.Receipt] // what is known so far, for those who stop waiting
	arrivals    int                            // guarded by flights.mu
	waiting     atomic.Int64
	leaving     atomic.Bool   // somebody's wait is over, and latest is on record nowhere yet
	decided     chan struct{} // closed once it is
	decide      sync.Once
	done        chan struct{}
	answer      Answer // set before done is closed
}

type flightKey struct {
	key intent.Key
	f   intent.Fingerprint
}

type flights struct {
	mu   sync.Mutex
	max  int
	open map[flightKey]*flight
}

func (fs *flights) init(limit int) {
	fs.max, fs.open = limit, make(map[flightKey]*flight)
}

// join returns the flight of this call and which arrival on it this is: the first one leads.
// nil when a new flight would be over the limit.
func (fs *flights) join(id intent.Identity, r Request, provisional intent.Receipt) (f *flight, arrival int) {
	k := flightKey{id.Key, id.Fingerprint}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f = fs.open[k]; f != nil {
		f.waiting.Add(1)
		f.arrivals++
		return f, f.arrivals
	}
	if len(fs.open) >= fs.max {
		return nil, 0
	}
	f = &flight{id: id, req: r, provisional: provisional, arrivals: 1, done: make(chan struct{}), decided: make(chan struct{})}
	f.latest.Store(&f.provisional)
	f.waiting.Add(1)
	fs.open[k] = f
	return f, 1
}

// stands notes what is on record for the key now. r MUST NOT be changed afterwards.
func (f *flight) stands(r *intent.Receipt) {
	f.latest.Store(r)
	f.decide.Do(func() { close(f.decided) })
}

func (fs *flights) finish(f *flight, a Answer) {
	f.answer = a
	fs.mu.Lock()
	delete(fs.open, flightKey{f.id.Key, f.id.Fingerprint})
	fs.mu.Unlock()
	close(f.done)
}

// decideWithin bounds what claim and write-ahead may take before a caller who does not want
// to wait is answered without them.
const decideWithin = 5 * time.Second

// wait returns the flight's answer, or what is known when the wait ends first: then the
// work goes on and the caller holds a receipt to ask with.
func (e *Engine) wait(ctx context.Context, f *flight, leads bool, limit time.Duration) Answer {
	defer f.waiting.Add(-1)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-f.done:
	case <-timer.C:
		// Not sent away with the address of nothing: claim and write-ahead, which their
		// own timeouts bound, say whether there will be a receipt at all.
		f.leaving.Store(true)
		timer.Reset(decideWithin)
		select {
		case <-f.done:
		case <-f.decided:
		case <-timer.C:
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
	select {
	case <-f.done:
		if leads {
			return f.answer
		}
		return f.answer.follow()
	default:
	}
	latest := f.latest.Load()
	if f.req.Tool.Durability == intent.Hot && latest != &f.provisional {
		// The caller is about to get a receipt's address; a hot key has no row behind it yet.
		if _, err := e.Store.Archive(context.WithoutCancel(ctx), *latest); err != nil {
			e.Log.Warn("a hot call's started receipt was not stored", "key", f.id.Key.Short(), "error", err)
		}
	}
	return f.pending()
}
