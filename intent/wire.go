package intent

import (
	"encoding/binary"
	"errors"
	"time"
)

// wireVersion is the first byte of an encoded receipt. A change of the fields below needs
// a new one; an old replica that meets a new version treats it as no copy and asks the store.
const wireVersion = 1

var errWire = errors.New("intent: not an encoded receipt of this version")

// Encode writes the whole receipt compactly, for the copy that Redis holds: bodies byte
// for byte, all internals.
func (r *Receipt) Encode() []byte {
	n := 512 + len(r.Args) + len(r.Evidence)
	if r.Outcome != nil {
		n += len(r.Outcome.Body)
	}
	w := wire{b: append(make([]byte, 0, n), wireVersion)}
	copied := *r // reading and writing share one walk; a write must not touch r
	w.receipt(&copied)
	return w.b
}

// DecodeReceipt reads Encode's form. The result shares b's memory.
func DecodeReceipt(b []byte) (Receipt, error) {
	var r Receipt
	if len(b) == 0 || b[0] != wireVersion {
		return r, errWire
	}
	w := wire{b: b[1:], reading: true}
	w.receipt(&r)
	if w.bad || len(w.b) != 0 {
		return Receipt{}, errWire
	}
	return r, nil
}

// wire walks a receipt's fields in one fixed order, in either direction.
type wire struct {
	b       []byte
	reading bool
	bad     bool
}

func (w *wire) receipt(r *Receipt) {
	w.fixed(r.Key[:])
	w.fixed(r.Guard[:])
	w.fixed(r.Fingerprint[:])
	w.fixed(r.ClaimID[:])
	for _, s := range []*string{&r.Tenant, &r.Tool, &r.RunID, &r.StepID, &r.Reason, &r.SettledBy, &r.Traceparent, &r.Replica, &r.Region} {
		w.text(s)
	}
	w.bytes(&r.Args)
	w.bytes(&r.Evidence)
	small(w, &r.Class)
	small(w, &r.Durability)
	small(w, &r.Status)
	small(w, &r.Retry)
	number(w, &r.Occurrence)
	number(w, &r.Attempts)
	number(w, &r.Executions)
	number(w, &r.Fence)
	number(w, &r.Version)
	number(w, &r.RetryAfter)
	for _, t := range []*time.Time{&r.CreatedAt, &r.StartedAt, &r.SettleBy, &r.UnknownSince, &r.SettledAt, &r.NextCheck, &r.NotifyAt} {
		w.time(t)
	}
	small(w, &r.Parked)
	small(w, &r.Doubt)
	number(w, &r.Checks)
	number(w, &r.Notices)
	w.list(&r.ApprovedBy)
	w.text(&r.Template)
	w.bytes(&r.Sealed)
	w.flag(&r.Expired)
	w.flag(&r.Durable)
	answered := r.Outcome != nil
	w.flag(&answered)
	if answered {
		if w.reading {
			r.Outcome = new(Outcome)
		}
		w.outcome(r.Outcome)
	}
}

func (w *wire) outcome(o *Outcome) {
	number(w, &o.HTTPStatus)
	count := len(o.Headers)
	number(w, &count)
	if w.reading {
		o.Headers = make(map[string]string, min(max(count, 0), 64))
		for range count {
			var name, value string
			w.text(&name)
			w.text(&value)
			if w.bad {
				return
			}
			o.Headers[name] = value
		}
	} else {
		for _, name := range sortedKeys(o.Headers) {
			value := o.Headers[name]
			w.text(&name)
			w.text(&value)
		}
	}
	w.bytes(&o.Body)
	w.flag(&o.Truncated)
	number(w, &o.Length)
	w.text(&o.SHA256)
}

func (w *wire) take(n int) []byte {
	if n < 0 || n > len(w.b) {
		w.bad, w.b = true, nil
		return nil
	}
	p := w.b[:n:n]
	w.b = w.b[n:]
	return p
}

func (w *wire) fixed(p []byte) {
	if w.reading {
		copy(p, w.take(len(p)))
	} else {
		w.b = append(w.b, p...)
	}
}

func (w *wire) bytes(p *[]byte) {
	n := len(*p)
	number(w, &n)
	if !w.reading {
		w.b = append(w.b, *p...)
	} else if n != 0 {
		*p = w.take(n)
	}
}

func (w *wire) text(s *string) {
	n := len(*s)
	number(w, &n)
	if w.reading {
		*s = string(w.take(n))
	} else {
		w.b = append(w.b, *s...)
	}
}

func (w *wire) list(l *[]string) {
	count := len(*l)
	number(w, &count)
	for i := range count {
		var s string
		if !w.reading {
			s = (*l)[i]
		}
		if w.text(&s); w.bad {
			return
		}
		if w.reading {
			*l = append(*l, s)
		}
	}
}

func (w *wire) flag(f *bool) {
	var n uint8
	if *f {
		n = 1
	}
	small(w, &n)
	if w.reading { // many may encode one outcome at once: writing must not touch it
		*f = n == 1
	}
}

// time keeps microseconds; 0 is the zero time.
func (w *wire) time(t *time.Time) {
	var micros int64
	if !t.IsZero() {
		micros = t.UnixMicro()
	}
	number(w, &micros)
	if w.reading && micros != 0 {
		*t = time.UnixMicro(micros).UTC()
	}
}

func small[T ~uint8](w *wire, v *T) {
	if !w.reading {
		w.b = append(w.b, byte(*v))
	} else if p := w.take(1); p != nil {
		*v = T(p[0])
	}
}

func number[T ~int | ~int64 | ~uint64](w *wire, v *T) {
	if !w.reading {
		w.b = binary.AppendVarint(w.b, int64(*v))
		return
	}
	n, size := binary.Varint(w.b)
	if size <= 0 {
		w.bad, w.b = true, nil
		return
	}
	w.b = w.b[size:]
	*v = T(n)
}
