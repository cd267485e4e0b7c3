package target

import (
	"fmt"
	"sync"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/history"
)

// entry is an effect and when lookups begin to show it.
type entry struct {
	history.Effect
	visible time.Time
}

// Ledger is what really happened, in order.
type Ledger struct {
	mu       sync.Mutex
	entries  []entry
	byKey    map[string][]int // of entries, by service and forwarded key
	byRef    map[string]int   // effects, by service and ref
	arrivals map[string]int   // requests, by service and ref
	flights  map[string]*flight
}

// flight is one forwarded key of a service that dedupes, from its first request on.
type flight struct {
	done   chan struct{}
	effect *history.Effect // nil: the first request did not commit
}

func newLedger() *Ledger {
	return &Ledger{byKey: map[string][]int{}, byRef: map[string]int{}, arrivals: map[string]int{}, flights: map[string]*flight{}}
}

// arrive counts a request and returns its number for the ref, from 0.
func (l *Ledger) arrive(service, ref string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arrivals[service+"/"+ref]++
	return l.arrivals[service+"/"+ref] - 1
}

// join makes the caller the one who acts for the key (nil), or returns another's flight.
func (l *Ledger) join(service, key string) *flight {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.flights[service+"/"+key]; f != nil {
		return f
	}
	l.flights[service+"/"+key] = &flight{done: make(chan struct{})}
	return nil
}

// land ends the flight of a key. One that did not commit is forgotten: the next request
// with that key may act.
func (l *Ledger) land(service, key string, e *history.Effect) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.flights[service+"/"+key]
	if f.effect = e; e == nil {
		delete(l.flights, service+"/"+key)
	}
	close(f.done)
}

// commit makes the effect happen.
func (l *Ledger) commit(e history.Effect, lag time.Duration) history.Effect {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.ID = fmt.Sprintf("%s-%d", e.Service, len(l.entries)+1)
	e.At = time.Now().UTC()
	if e.Key != "" {
		at := e.Service + "/" + e.Key
		l.byKey[at] = append(l.byKey[at], len(l.entries))
	}
	l.byRef[e.Service+"/"+e.Ref]++
	l.entries = append(l.entries, entry{e, e.At.Add(lag)})
	return e
}

// lookup returns the effects of a forwarded key that can be seen by now.
func (l *Ledger) lookup(service, key string, now time.Time) []history.Effect {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := []history.Effect{}
	for _, i := range l.byKey[service+"/"+key] {
		if !l.entries[i].visible.After(now) {
			found = append(found, l.entries[i].Effect)
		}
	}
	return found
}

// Effects returns everything that happened, oldest first.
func (l *Ledger) Effects() []history.Effect {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]history.Effect, len(l.entries))
	for i, e := range l.entries {
		list[i] = e.Effect
	}
	return list
}

// Summary counts.
type Summary struct {
	Requests int `json:"requests"`
	Effects  int `json:"effects"`
	Refs     int `json:"refs"`
	// Repeated are effects beyond the first of the same ref; RepeatedKeys of the same
	// forwarded key.
	Repeated     int `json:"repeated"`
	RepeatedKeys int `json:"repeated_keys"`
}

// Summary counts what happened so far, by service.
func (l *Ledger) Summary() map[string]Summary {
	l.mu.Lock()
	defer l.mu.Unlock()
	sums := map[string]Summary{}
	add := func(at string, change func(*Summary)) {
		service, _ := cut(at)
		s := sums[service]
		change(&s)
		sums[service] = s
	}
	for at, n := range l.arrivals {
		add(at, func(s *Summary) { s.Requests += n })
	}
	for at, n := range l.byRef {
		add(at, func(s *Summary) { s.Effects += n; s.Refs++; s.Repeated += n - 1 })
	}
	for at, list := range l.byKey {
		add(at, func(s *Summary) { s.RepeatedKeys += len(list) - 1 })
	}
	return sums
}
