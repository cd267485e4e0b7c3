package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"
)

// effectServices are those that can have effects.
var effectServices = []string{Emails, Charges, Contacts, Notes, Transfers}

// errOtherTerms: a deduping service knows the key, for something else.
var errOtherTerms = errors.New("demo: the key was used with other terms")

// errClosed: the demo was closed.
var errClosed = errors.New("demo: closed")

// Effect is one thing that a service did.
type Effect struct {
	Seq        int64           `json:"seq"`
	Service    string          `json:"service"`
	BusinessID string          `json:"business_id"`
	Key        string          `json:"key"` // as forwarded by the caller; "" when none was
	At         time.Time       `json:"at"`
	Count      int             `json:"count"`           // how manieth under this key (without one: this business id); 2 is a duplicate
	Fault      Mode            `json:"fault,omitempty"` // what became of its answer
	Terms      string          `json:"terms,omitempty"` // what a deduping service compares
	Record     json.RawMessage `json:"record"`          // as the service answered it
}

// Totals count all effects since the ledger was empty, whatever was forgotten meanwhile.
type Totals struct {
	Effects  int64 `json:"effects"`
	Repeated int64 `json:"repeated"` // effects whose count was over 1
	Deduped  int64 `json:"deduped"`  // requests since the start that changed nothing: the service recognised them
}

// Ledger is what GET /ledger answers.
type Ledger struct {
	Totals    Totals            `json:"totals"`
	ByService map[string]Totals `json:"by_service"`
	Matched   int               `json:"matched"` // kept effects that the filter matches, listed or not
	Effects   []Effect          `json:"effects"` // newest first
}

// action is an effect about to be performed.
type action struct {
	service, businessID, key string
	terms                    string
	status                   int
	wantsLoss                bool // the arguments ask for a lost answer
	fault                    Mode
	dedupes                  time.Duration // 0: the service honours nothing
	// unchanged says that the service's state is already as asked, and gives that state;
	// nil where every request is an effect.
	unchanged func() (any, bool)
	// record is what the service answers; commit, where there is one, changes the service's
	// own state once the record is kept. All three run with the ledger locked.
	record func(seq int64, at time.Time) any
	commit func()
}

// ledger keeps the newest effects in a ring, an index by key, and exact totals. Its mutex
// is also what makes a service's check and act one step.
type ledger struct {
	now func() time.Time

	mu     sync.Mutex
	file   *ledgerFile // nil: memory alone
	closed bool
	ring   []Effect // at most capacity, oldest at start
	start  int
	cap    int
	seq    int64
	index  map[string][]int64 // sequence numbers of kept effects, oldest first
	totals map[string]Totals
}

func openLedger(path string, capacity int, now func() time.Time, restore func(Effect)) (*ledger, error) {
	l := &ledger{now: now, cap: capacity}
	l.forget()
	if path == "" {
		return l, nil
	}
	var err error
	l.file, err = openLedgerFile(path, func(e Effect) {
		l.seq = e.Seq
		l.keep(e)
		restore(e)
	})
	return l, err
}

// add performs a, unless its service recognises the key or has that state already; fresh
// tells which. A dedupe answers the first effect's record.
func (l *ledger) add(a action) (e Effect, fresh bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return e, false, errClosed
	}
	now := l.now().UTC()
	if known, ok := l.remembered(a, now); ok {
		if known.Terms != a.terms {
			return e, false, errOtherTerms
		}
		l.countDeduped(a.service)
		return known, false, nil
	}
	if a.unchanged != nil {
		if state, same := a.unchanged(); same {
			l.countDeduped(a.service)
			e.Record, err = json.Marshal(state)
			return e, false, err
		}
	}
	e = Effect{Seq: l.seq + 1, Service: a.service, BusinessID: a.businessID, Key: a.key, At: now,
		Count: len(l.index[indexKey(a.service, a.key, a.businessID)]) + 1, Fault: a.fault, Terms: a.terms}
	if e.Record, err = json.Marshal(a.record(e.Seq, now)); err != nil {
		return e, false, err
	}
	if l.file != nil {
		if err = l.file.append(e); err != nil {
			return e, false, err
		}
	}
	l.seq++
	l.keep(e)
	if a.commit != nil {
		a.commit()
	}
	return e, true, nil
}

// remembered finds the effect that a deduping service answers again.
func (l *ledger) remembered(a action, now time.Time) (Effect, bool) {
	if a.dedupes == 0 || a.key == "" {
		return Effect{}, false
	}
	for _, seq := range slices.Backward(l.index[indexKey(a.service, a.key, a.businessID)]) {
		if e := l.bySeq(seq); now.Sub(e.At) < a.dedupes {
			return e, true
		}
	}
	return Effect{}, false
}

// keep counts e and puts it in the ring; the oldest effect makes room.
func (l *ledger) keep(e Effect) {
	t := l.totals[e.Service]
	t.Effects++
	if e.Count > 1 {
		t.Repeated++
	}
	l.totals[e.Service] = t

	k := indexKey(e.Service, e.Key, e.BusinessID)
	l.index[k] = append(l.index[k], e.Seq)
	if len(l.ring) < l.cap {
		l.ring = append(l.ring, e)
		return
	}
	old := l.ring[l.start]
	oldKey := indexKey(old.Service, old.Key, old.BusinessID)
	if rest := l.index[oldKey][1:]; len(rest) == 0 {
		delete(l.index, oldKey)
	} else {
		l.index[oldKey] = rest
	}
	l.ring[l.start] = e
	l.start = (l.start + 1) % l.cap
}

// bySeq finds a kept effect. Sequence numbers are consecutive within the ring.
func (l *ledger) bySeq(seq int64) Effect {
	back := int(l.seq - seq)
	return l.ring[(l.start+len(l.ring)-1-back)%len(l.ring)]
}

func (l *ledger) countDeduped(service string) {
	t := l.totals[service]
	t.Deduped++
	l.totals[service] = t
}

// forget empties the memory; mu is held, or nobody else knows l yet.
func (l *ledger) forget() {
	l.ring, l.start, l.seq = nil, 0, 0
	l.index = map[string][]int64{}
	l.totals = map[string]Totals{}
	for _, s := range effectServices {
		l.totals[s] = Totals{}
	}
}

// clear empties file and memory, and runs also while no effect can happen.
func (l *ledger) clear(also func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		if err := l.file.truncate(0); err != nil {
			return err
		}
	}
	l.forget()
	also()
	return nil
}

func (l *ledger) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	if l.file == nil {
		return nil
	}
	return l.file.close()
}

// filter narrows a view; empty fields do not.
type filter struct {
	service, key, businessID string
	limit                    int
}

func parseFilter(q url.Values) (filter, error) {
	f := filter{service: q.Get("service"), key: q.Get("key"), businessID: q.Get("business_id"), limit: 1000}
	if f.service != "" && !slices.Contains(effectServices, f.service) {
		return f, fmt.Errorf("service %q is not one of %v", f.service, effectServices)
	}
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return f, fmt.Errorf("limit %q is not a count", s)
		}
		f.limit = n
	}
	return f, nil
}

func (f filter) matches(e Effect) bool {
	return (f.service == "" || f.service == e.Service) && (f.key == "" || f.key == e.Key) &&
		(f.businessID == "" || f.businessID == e.BusinessID)
}

// view copies the matching effects, newest first.
func (l *ledger) view(f filter) Ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := Ledger{ByService: make(map[string]Totals, len(l.totals)), Effects: []Effect{}}
	for s, t := range l.totals {
		v.ByService[s] = t
		v.Totals.Effects += t.Effects
		v.Totals.Repeated += t.Repeated
		v.Totals.Deduped += t.Deduped
	}
	for i := range l.ring {
		e := l.ring[(l.start+len(l.ring)-1-i)%len(l.ring)]
		if !f.matches(e) {
			continue
		}
		v.Matched++
		if len(v.Effects) < f.limit {
			v.Effects = append(v.Effects, e)
		}
	}
	return v
}

func records(effects []Effect) []json.RawMessage {
	out := make([]json.RawMessage, len(effects))
	for i, e := range effects {
		out[i] = e.Record
	}
	return out
}

// indexKey groups effects that would be duplicates of each other: those of one forwarded
// key, or, where none was forwarded, of one business id.
func indexKey(service, key, businessID string) string {
	if key == "" {
		return service + "\x00id\x00" + businessID
	}
	return service + "\x00key\x00" + key
}
