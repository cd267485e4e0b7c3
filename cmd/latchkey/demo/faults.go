package demo

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Mode says what becomes of a service's answer. In every mode but Refuse the effect has
// happened by then.
type Mode string

// The modes of POST /faults.
const (
	LoseAnswer Mode = "lose_answer" // the connection closes without a byte of an answer
	Reset      Mode = "reset"       // the connection is reset
	Error500   Mode = "error_500"   // 500, though it was done
	Truncate   Mode = "truncate"    // the body stops half way
	Slow       Mode = "slow"        // the whole answer, after the delay
	Refuse     Mode = "refuse"      // 429 with Retry-After: nothing was done
)

var (
	modes         = []Mode{LoseAnswer, Reset, Error500, Truncate, Slow, Refuse}
	faultServices = append(slices.Clone(effectServices), Search, Lookups)
)

const (
	maxFaults    = 1000 // armed at once, over all services
	maxDelay     = 10 * time.Minute
	defaultDelay = 2 * time.Second // of Slow
)

// Fault is armed for the next Times answers of a service. The zero value is no fault.
type Fault struct {
	Service string `json:"service"`
	Mode    Mode   `json:"mode"`
	Times   int    `json:"times"` // default 1
	Delay   string `json:"delay"` // as Go writes it; before the answer, after the effect

	delay time.Duration
}

// faults are taken in the order in which they were armed.
type faults struct {
	mu    sync.Mutex
	armed []Fault
}

func newFaults() *faults { return &faults{} }

func (f *Fault) check() error {
	if !slices.Contains(faultServices, f.Service) {
		return fmt.Errorf("service %q is not one of %v", f.Service, faultServices)
	}
	if !slices.Contains(modes, f.Mode) {
		return fmt.Errorf("mode %q is not one of %v", f.Mode, modes)
	}
	if f.Times == 0 {
		f.Times = 1
	}
	if f.Times < 0 {
		return fmt.Errorf("times %d is not positive", f.Times)
	}
	if f.Delay == "" {
		if f.Mode == Slow {
			f.delay = defaultDelay
		}
		f.Delay = f.delay.String()
		return nil
	}
	var err error
	if f.delay, err = time.ParseDuration(f.Delay); err != nil || f.delay < 0 || f.delay > maxDelay {
		return fmt.Errorf("delay %q is not a duration up to %s", f.Delay, maxDelay)
	}
	return nil
}

// take uses up one fault of a service.
func (fs *faults) take(service string) Fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	i := slices.IndexFunc(fs.armed, func(f Fault) bool { return f.Service == service })
	if i < 0 {
		return Fault{}
	}
	f := fs.armed[i]
	if fs.armed[i].Times--; fs.armed[i].Times == 0 {
		fs.armed = slices.Delete(fs.armed, i, i+1)
	}
	return f
}

// refuse answers for a service that does nothing.
func (f Fault) refuse(w http.ResponseWriter) bool {
	if f.Mode != Refuse {
		return false
	}
	w.Header().Set("Retry-After", "1")
	writeError(w, http.StatusTooManyRequests, "not now: nothing was done")
	return true
}

// answer writes v, or does to the answer what the fault says.
func (d *Demo) answer(w http.ResponseWriter, r *http.Request, f Fault, status int, v any) {
	if f.delay > 0 && !d.hold(r, f.delay) {
		panic(http.ErrAbortHandler) // nobody is there to be answered
	}
	switch f.Mode {
	case LoseAnswer:
		panic(http.ErrAbortHandler) // net/http closes the connection unanswered
	case Reset:
		reset(w)
		panic(http.ErrAbortHandler)
	case Error500:
		writeError(w, http.StatusInternalServerError, "something went wrong, perhaps after it was done")
	case Truncate:
		cutShort(w, status, v)
	default:
		writeJSON(w, status, v)
	}
}

// hold waits, and says whether caller and demo are still there.
func (d *Demo) hold(r *http.Request, delay time.Duration) bool {
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
	case <-d.done:
	}
	return false
}

// reset makes the peer see ECONNRESET rather than an orderly end, where the connection is
// TCP and can be had.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a plain close is still a lost answer
	}
	_ = conn.Close()
}

// cutShort promises the whole body and sends half of it.
func cutShort(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err == nil {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(b)))
		w.WriteHeader(status)
		_, _ = w.Write(b[:len(b)/2])
		_ = http.NewResponseController(w).Flush()
	}
	panic(http.ErrAbortHandler)
}

func (d *Demo) armFault(w http.ResponseWriter, r *http.Request) {
	var f Fault
	if !readJSON(w, r, &f) {
		return
	}
	if err := f.check(); err != nil {
		writeError(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	d.faults.mu.Lock()
	defer d.faults.mu.Unlock()
	if len(d.faults.armed) >= maxFaults {
		writeError(w, http.StatusInsufficientStorage, "too many faults are armed; DELETE /faults disarms them")
		return
	}
	d.faults.armed = append(d.faults.armed, f)
	writeJSON(w, http.StatusCreated, f)
}

func (d *Demo) listFaults(w http.ResponseWriter, _ *http.Request) {
	d.faults.mu.Lock()
	defer d.faults.mu.Unlock()
	writeJSON(w, http.StatusOK, map[string]any{"data": append([]Fault{}, d.faults.armed...)})
}

func (d *Demo) clearFaults(w http.ResponseWriter, _ *http.Request) {
	d.faults.mu.Lock()
	defer d.faults.mu.Unlock()
	d.faults.armed = nil
	w.WriteHeader(http.StatusNoContent)
}
