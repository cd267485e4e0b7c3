// Package memlock keeps claims in memory: for tests of what stands on package lock, and as
// the plainest reading of its contract. It knows the time from package time alone, so that
// testing/synctest drives its leases.
package memlock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/lock"
)

// Verbs as Fault gets them.
const (
	Claim   = "claim"
	Renew   = "renew"
	Settle  = "settle"
	Release = "release"
	Get     = "get"
	Overdue = "overdue"
	Closed  = "closed"
	Ready   = "ready"
)

// Fault decides about the n-th use of a verb, n counting from 1. A nil error lets it
// happen. With an error the caller gets that error, and applied says which of the two
// things behind it is true: the verb was refused, or it was applied and its answer lost.
// It runs outside of any lock and may block.
type Fault func(verb string, n int) (applied bool, err error)

// Locker implements lock.Store and lock.Keeper. The zero value is not usable: see New.
type Locker struct {
	fault Fault

	mu      sync.Mutex
	uses    map[string]int
	records map[intent.Guard]held
	open    map[intent.Guard]time.Time // since when
	watched map[intent.Guard]map[chan struct{}]bool
}

type held struct {
	lock.Record
	deadline time.Time // of the lease, while started
	dies     time.Time // zero: never
}

var (
	_ lock.Store  = (*Locker)(nil)
	_ lock.Keeper = (*Locker)(nil)
)

// New returns an empty Locker; fault may be nil.
func New(fault Fault) *Locker {
	return &Locker{
		fault:   fault,
		uses:    map[string]int{},
		records: map[intent.Guard]held{},
		open:    map[intent.Guard]time.Time{},
		watched: map[intent.Guard]map[chan struct{}]bool{},
	}
}

// Flush forgets every record, as FLUSHALL would. Watches stay.
func (l *Locker) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.records)
	clear(l.open)
}

// Claim implements lock.Store.
func (l *Locker) Claim(ctx context.Context, ask lock.Ask) (a lock.Answer, err error) {
	err = l.use(ctx, Claim, func() error {
		standing := l.standing(ask.Guard)
		code, fence, fresh := lock.Judge(standing, ask)
		if fresh {
			l.write(started(ask, fence), time.Now().Add(ask.Lease), time.Time{})
			l.open[ask.Guard] = time.Now()
			standing = l.standing(ask.Guard)
		}
		a = lock.Answer{Code: code, Record: *standing}
		return nil
	})
	if err != nil {
		return lock.Answer{}, err
	}
	return a, nil
}

// Renew implements lock.Store.
func (l *Locker) Renew(ctx context.Context, leases []lock.Lease) (lost []intent.Guard, err error) {
	err = l.use(ctx, Renew, func() error {
		for _, lease := range leases {
			r := l.standing(lease.Guard)
			switch {
			case r == nil:
				l.write(started(lease.Ask, lease.Fence), time.Now().Add(lease.Ask.Lease), time.Time{})
				l.open[lease.Guard] = time.Now()
			case r.Status == intent.Started && r.ClaimID == lease.Ask.ClaimID:
				l.write(*r, time.Now().Add(lease.Ask.Lease), time.Time{})
			default:
				lost = append(lost, lease.Guard)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return lost, nil
}

// Settle implements lock.Store.
func (l *Locker) Settle(ctx context.Context, r lock.Record, ttl time.Duration) (now lock.Record, wrote bool, err error) {
	err = l.use(ctx, Settle, func() error {
		standing := l.standing(r.Guard)
		if !lock.Supersedes(standing, r) {
			if now = *standing; !now.Open() {
				delete(l.open, r.Guard)
			}
			return nil
		}
		r.Receipt = slices.Clone(r.Receipt)
		var dies time.Time
		if !r.Open() && ttl > 0 {
			dies = time.Now().Add(ttl)
		}
		switch _, listed := l.open[r.Guard]; {
		case !r.Open():
			delete(l.open, r.Guard)
		case !listed:
			l.open[r.Guard] = time.Now()
		}
		l.write(r, time.Now().Add(r.Lease), dies)
		l.publish(r.Guard)
		now, wrote = r, true
		return nil
	})
	if err != nil {
		return lock.Record{}, false, err
	}
	return now, wrote, nil
}

// Release implements lock.Store.
func (l *Locker) Release(ctx context.Context, g intent.Guard, id intent.ClaimID) error {
	return l.use(ctx, Release, func() error {
		if r := l.standing(g); r != nil && r.Status == intent.Started && r.ClaimID == id {
			delete(l.records, g)
			delete(l.open, g)
			l.publish(g)
		}
		return nil
	})
}

// Get implements lock.Store.
func (l *Locker) Get(ctx context.Context, g intent.Guard) (r lock.Record, err error) {
	err = l.use(ctx, Get, func() error {
		standing := l.standing(g)
		if standing == nil {
			return intent.ErrNone
		}
		r = *standing
		return nil
	})
	if err != nil {
		return lock.Record{}, err
	}
	return r, nil
}

// Watch implements lock.Store.
func (l *Locker) Watch(g intent.Guard) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watched[g] == nil {
		l.watched[g] = map[chan struct{}]bool{}
	}
	l.watched[g][ch] = true
	return ch, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watched[g], ch)
		if len(l.watched[g]) == 0 {
			delete(l.watched, g)
		}
	}
}

// Overdue implements lock.Keeper.
func (l *Locker) Overdue(ctx context.Context, age time.Duration, limit int) (guards []intent.Guard, err error) {
	err = l.use(ctx, Overdue, func() error {
		before := time.Now().Add(-age)
		for g, since := range l.open {
			if !since.After(before) {
				guards = append(guards, g)
			}
		}
		slices.SortFunc(guards, func(a, b intent.Guard) int { return l.open[a].Compare(l.open[b]) })
		guards = guards[:min(limit, len(guards))]
		return nil
	})
	if err != nil {
		return nil, err
	}
	return guards, nil
}

// Closed implements lock.Keeper.
func (l *Locker) Closed(ctx context.Context, g intent.Guard) error {
	return l.use(ctx, Closed, func() error {
		delete(l.open, g)
		return nil
	})
}

// Ready implements lock.Keeper.
func (l *Locker) Ready(ctx context.Context) error {
	return l.use(ctx, Ready, func() error { return nil })
}

// Close implements lock.Keeper. It keeps the records, so that a test can look at them.
func (l *Locker) Close() error { return nil }

// use runs one verb the way the fault hook wants it.
func (l *Locker) use(ctx context.Context, verb string, apply func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	applied, fault := true, error(nil)
	if l.fault != nil {
		l.mu.Lock()
		l.uses[verb]++
		n := l.uses[verb]
		l.mu.Unlock()
		applied, fault = l.fault(verb, n)
	}
	if fault != nil && !applied {
		return fault
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := apply()
	if fault != nil {
		return fault
	}
	return err
}

// standing returns a copy of the record under a guard with what is left of its lease, nil
// when there is none.
func (l *Locker) standing(g intent.Guard) *lock.Record {
	h, ok := l.records[g]
	if !ok {
		return nil
	}
	if !h.dies.IsZero() && !time.Now().Before(h.dies) {
		delete(l.records, g)
		return nil
	}
	r := h.Record
	r.Lease = 0
	if r.Status == intent.Started {
		r.Lease = time.Until(h.deadline)
	}
	r.Receipt = slices.Clone(r.Receipt)
	return &r
}

func (l *Locker) write(r lock.Record, deadline, dies time.Time) {
	l.records[r.Guard] = held{Record: r, deadline: deadline, dies: dies}
}

func (l *Locker) publish(g intent.Guard) {
	for ch := range l.watched[g] {
		select {
		case ch <- struct{}{}:
		default: // one is waiting there already
		}
	}
}

func started(ask lock.Ask, fence uint64) lock.Record {
	r := lock.Record{
		Guard: ask.Guard, Key: ask.Key, Fingerprint: ask.Fingerprint, ClaimID: ask.ClaimID,
		Fence: fence, Status: intent.Started, Hot: ask.Hot, Lease: ask.Lease, Traceparent: ask.Traceparent,
	}
	if ask.Hot {
		r.Receipt = slices.Clone(ask.Receipt)
	}
	return r
}
