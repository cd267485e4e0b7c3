// Package group turns many small writes into few large ones: whatever arrives while a batch
// is in flight goes out together in the next one. A commit costs about the same for one row
// as for a hundred, so under load this decides what a call costs (DESIGN §4), and a lone
// call is never kept waiting for company.
package group

import (
	"sync"
	"time"
)

// Options of a Writer.
type Options struct {
	Max     int           // rows in a batch; 0: 256
	Weight  int           // summed weight of a batch, which a single row may exceed; 0: 8 MiB
	Flights int           // batches in flight at once; 0: 1
	Linger  time.Duration // how long a batch of four or more waits for others; 0: not at all
}

// Writer collects items and hands them to one function in batches.
type Writer[T any] struct {
	options Options
	weigh   func(T) int
	run     func([]T)

	mu      sync.Mutex
	pending []T
	running int
	full    chan struct{} // signals a lingering flight that its batch is full
	closed  bool
	flights sync.WaitGroup
}

// New returns a Writer that calls run with each batch, at most Options.Flights at a time.
// run must answer every item itself; the batch is its own to keep.
func New[T any](o Options, weigh func(T) int, run func([]T)) *Writer[T] {
	if o.Max <= 0 {
		o.Max = 256
	}
	if o.Weight <= 0 {
		o.Weight = 8 << 20
	}
	o.Flights = max(o.Flights, 1)
	return &Writer[T]{options: o, weigh: weigh, run: run, full: make(chan struct{}, 1)}
}

// Submit adds an item to the next batch and returns at once. False means that the Writer
// is closed and the item will never be run.
func (w *Writer[T]) Submit(item T) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.pending = append(w.pending, item)
	if w.running < w.options.Flights {
		w.running++
		w.flights.Go(w.fly)
	} else if len(w.pending) == w.options.Max {
		select {
		case w.full <- struct{}{}:
		default:
		}
	}
	return true
}

// Pending is how many items wait for a batch.
func (w *Writer[T]) Pending() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pending)
}

// Close lets what was submitted run to its end and refuses what comes later. Idempotent.
func (w *Writer[T]) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.flights.Wait()
}

// fly runs batch after batch until nothing is pending.
func (w *Writer[T]) fly() {
	for {
		w.linger()
		w.mu.Lock()
		batch := w.take()
		if batch == nil {
			w.running--
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		w.run(batch)
	}
}

// company is how many items must be there before a batch lingers for more. Fewer are a quiet
// moment, in which waiting would only add latency.
const company = 4

// linger waits for more company where there is some already: one call alone goes at once.
func (w *Writer[T]) linger() {
	if w.options.Linger <= 0 {
		return
	}
	w.mu.Lock()
	n, closed := len(w.pending), w.closed
	w.mu.Unlock()
	if n < company || n >= w.options.Max || closed {
		return
	}
	t := time.NewTimer(w.options.Linger)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.full:
	}
}

// take cuts a batch off the front of what is pending.
func (w *Writer[T]) take() []T {
	n, weight := 0, 0
	for n < len(w.pending) && n < w.options.Max {
		weight += w.weigh(w.pending[n])
		if n > 0 && weight > w.options.Weight {
			break
		}
		n++
	}
	if n == 0 {
		return nil
	}
	batch := w.pending[:n:n]
	w.pending = w.pending[n:]
	if len(w.pending) == 0 {
		w.pending = nil // the batch keeps the old array
	}
	return batch
}
