// Package memstore keeps intents in memory, for tests: it passes the same suite as the
// databases, starts no goroutine and reads no clock (so it works under testing/synctest),
// and can be told to refuse a verb or to lose its answer. The meaning of every move is
// intent.Receipt's own: Apply and ApplyAgain are called as they are.
package memstore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// Verb names a method for the fault hook.
type Verb string

const (
	Begin    Verb = "begin"
	Settle   Verb = "settle"
	Archive  Verb = "archive"
	Get      Verb = "get"
	List     Verb = "list"
	Record   Verb = "record"
	Attempts Verb = "attempts"
	Overdue  Verb = "overdue"
	Expire   Verb = "expire"
	Forget   Verb = "forget"
	Ready    Verb = "ready"
	Replace  Verb = "replace"
	Due      Verb = "due"
	Audit    Verb = "audit"
	Changes  Verb = "changes"
	Stats    Verb = "stats"
)

// Fault is what the hook does to one call.
type Fault uint8

const (
	Healthy    Fault = iota
	Refused          // not applied, and an error
	AnswerLost       // applied, and an error
)

// ErrInjected is the error of a call that the hook broke.
var ErrInjected = errors.New("memstore: injected fault")

var errClosed = errors.New("memstore: closed")

// Store implements intentstore.Store, Keeper, Journal and Desk. Use New.
type Store struct {
	mu       sync.Mutex
	fault    func(Verb, intent.Key) Fault
	rows     map[intent.Key]intent.Receipt
	guards   map[intent.Guard]intent.Key // of rows that are not rejected
	ended    map[intent.Key][]intent.Execution
	attempts map[intent.Key][]intent.Attempt
	arrivals []intent.Attempt // of all keys, as they were recorded
	entries  []intent.Entry
	lastID   int64 // of an entry
	counts   []intentstore.MinuteCount
	closed   bool
}

var (
	_ intentstore.Store   = (*Store)(nil)
	_ intentstore.Keeper  = (*Store)(nil)
	_ intentstore.Journal = (*Store)(nil)
	_ intentstore.Desk    = (*Store)(nil)
)

// New returns an empty store.
func New() *Store {
	return &Store{
		rows:     make(map[intent.Key]intent.Receipt),
		guards:   make(map[intent.Guard]intent.Key),
		ended:    make(map[intent.Key][]intent.Execution),
		attempts: make(map[intent.Key][]intent.Attempt),
	}
}

// SetFault sets the hook that is asked once at the start of every call; nil takes it away.
// The key is zero where a verb has none. The hook runs outside the store's lock, so it may
// block, and may call the store.
func (s *Store) SetFault(f func(Verb, intent.Key) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// enter asks the hook and takes the lock; leave releases it and gives the error of a lost
// answer. An error instead means that the call is not applied.
func (s *Store) enter(v Verb, k intent.Key) (leave func() error, err error) {
	s.mu.Lock()
	fault, closed := s.fault, s.closed
	s.mu.Unlock()
	f := Healthy
	if closed {
		return nil, errClosed
	}
	if fault != nil {
		f = fault(v, k)
	}
	if f == Refused {
		return nil, ErrInjected
	}
	s.mu.Lock()
	return func() error {
		s.mu.Unlock()
		if f == AnswerLost {
			return ErrInjected
		}
		return nil
	}, nil
}

// Begin implements intentstore.Store.
func (s *Store) Begin(_ context.Context, r intent.Receipt) (intentstore.Begun, error) {
	if err := intentstore.CheckBegin(&r); err != nil {
		return intentstore.Begun{}, err
	}
	leave, err := s.enter(Begin, r.Key)
	if err != nil {
		return intentstore.Begun{}, err
	}
	b := s.begin(intentstore.Kept(r))
	if err := leave(); err != nil {
		return intentstore.Begun{}, err
	}
	return b, nil
}

func (s *Store) begin(r intent.Receipt) intentstore.Begun {
	row, ok := s.rows[r.Key]
	if ok && intentstore.Ours(&row, &r) {
		return intentstore.Begun{Mine: true, Row: copied(row)}
	}
	if ok && !intent.MayRunAgain(row.Status, row.Retry, row.Fingerprint, r.Fingerprint) {
		return intentstore.Begun{Row: copied(row)}
	}
	if holder, held := s.guards[r.Guard]; held {
		return intentstore.Begun{Row: copied(s.rows[holder])}
	}
	if ok {
		next, err := row.ApplyAgain(r)
		if err != nil {
			return intentstore.Begun{Row: copied(row)}
		}
		if e, begun := row.Execution(); begun {
			s.end(e)
		}
		r = next
	}
	s.put(r)
	return intentstore.Begun{Mine: true, Row: copied(r)}
}

// end keeps an execution that a later one supersedes, once.
func (s *Store) end(e intent.Execution) {
	same := func(x intent.Execution) bool { return x.Fence == e.Fence }
	if !slices.ContainsFunc(s.ended[e.Key], same) {
		s.ended[e.Key] = append(s.ended[e.Key], e)
	}
}

// put stores a row and keeps the guards in step with it.
func (s *Store) put(r intent.Receipt) {
	if old, ok := s.rows[r.Key]; ok && s.guards[old.Guard] == r.Key {
		delete(s.guards, old.Guard)
	}
	s.rows[r.Key] = copied(r)
	if r.Status != intent.Rejected {
		s.guards[r.Guard] = r.Key
	}
}

// Settle implements intentstore.Store.
func (s *Store) Settle(_ context.Context, m intent.Settlement) (intent.Receipt, error) {
	if err := intentstore.CheckSettlement(&m); err != nil {
		return intent.Receipt{}, err
	}
	leave, err := s.enter(Settle, m.Key)
	if err != nil {
		return intent.Receipt{}, err
	}
	m.At = intent.Micros(m.At)
	row, err := s.settle(m)
	if lost := leave(); lost != nil {
		return intent.Receipt{}, lost
	}
	return row, err
}

func (s *Store) settle(m intent.Settlement) (intent.Receipt, error) {
	row, ok := s.rows[m.Key]
	if !ok {
		return intent.Receipt{}, intent.ErrNone
	}
	after, err := row.Apply(m)
	if err != nil {
		if intentstore.Repeats(&row, &m) {
			err = nil
		}
		return copied(row), err
	}
	s.put(after)
	if c, ok := intentstore.CountOfLoss(&row, &m); ok {
		s.count(c)
	}
	return copied(after), nil
}

// Archive implements intentstore.Store.
func (s *Store) Archive(_ context.Context, r intent.Receipt) (intent.Receipt, error) {
	if err := intentstore.CheckReceipt(&r); err != nil {
		return intent.Receipt{}, err
	}
	leave, err := s.enter(Archive, r.Key)
	if err != nil {
		return intent.Receipt{}, err
	}
	row, err := s.archive(intentstore.Kept(r))
	if lost := leave(); lost != nil {
		return intent.Receipt{}, lost
	}
	return row, err
}

func (s *Store) archive(r intent.Receipt) (intent.Receipt, error) {
	if row, ok := s.rows[r.Key]; ok {
		return copied(row), nil
	}
	if holder, held := s.guards[r.Guard]; held && r.Status != intent.Rejected {
		return copied(s.rows[holder]), intent.ErrStale
	}
	s.put(r)
	return copied(r), nil
}

// Get implements intentstore.Store.
func (s *Store) Get(_ context.Context, k intent.Key) (intent.Receipt, error) {
	leave, err := s.enter(Get, k)
	if err != nil {
		return intent.Receipt{}, err
	}
	row, ok := s.rows[k]
	if err := leave(); err != nil {
		return intent.Receipt{}, err
	}
	if !ok {
		return intent.Receipt{}, intent.ErrNone
	}
	return copied(row), nil
}

// copied keeps what is stored apart from what callers hold.
func copied(r intent.Receipt) intent.Receipt {
	r.Args, r.Evidence, r.Sealed = slices.Clone(r.Args), slices.Clone(r.Evidence), slices.Clone(r.Sealed)
	r.ApprovedBy = slices.Clone(r.ApprovedBy)
	if r.Outcome != nil {
		o := *r.Outcome
		o.Headers, o.Body = maps.Clone(o.Headers), slices.Clone(o.Body)
		r.Outcome = &o
	}
	return r
}
