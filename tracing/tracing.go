// Package tracing names the spans, metrics and log fields of a call, and makes them. It
// carries the W3C trace context from the caller to the downstream and into the receipt, so
// that every attempt can be followed to the one execution. It knows nothing of the rest.
//
// # What is kept of a call
//
// A sampler that decides when a call arrives cannot know that the call will turn out to be
// a duplicate, an unknown or a conflict: the very calls that somebody will ask about. So
// every call's spans are noted in a small record of our own, a few words each, and only
// when its answer is known does the record become spans for the exporter, or nothing:
//
//	sampled by the head, or by the caller   kept
//	collapsed, replayed, mismatch,
//	step_conflict, pending                  kept: each links to the execution that it met
//	status unknown, internal error          kept
//	lookups, operators' decisions           kept
//	anything else                           forgotten
//
// Replays alone have a limit, a thousand a second and replica beyond what the head keeps:
// they can come by the ten thousand, and what is over the limit is counted.
//
// The flags in the traceparent that goes to the downstream and into the receipt are the
// head's decision and stay so: a span that is kept against it has its own context marked
// sampled, and no one else's. What cannot be had: an execution that was forgotten when it
// ended well cannot be sampled when a duplicate of it comes a day later. The duplicate's
// link then leads to a span that no back end has; the journal of attempts has the whole
// list all the same.
//
// Records are not made with the SDK's tracer, for it decides at the start of a span. Only
// its batching, its exporters and its metrics are used.
package tracing

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"time"
)

// Span is one span's place in a trace (W3C Trace Context, level 1), and the handle to its
// record where there is one. It is a value: copy it. Without a record (from Continue) its
// methods carry the context on and note nothing.
type Span struct {
	trace [16]byte
	span  [8]byte
	flags byte

	step  step
	entry int16         // of the record; 0 is the root
	began time.Duration // since the record began
	rec   *record
}

const flagSampled = 1

// Continue starts a span in the caller's trace, or a new trace when the traceparent header
// is absent or malformed (the specification's rule: restart, never fail). It has no record.
func Continue(traceparent string) Span {
	s, ok := parse(traceparent)
	if !ok {
		s = newTrace()
		s.flags = flagSampled
	}
	return s.Child()
}

func newTrace() (s Span) {
	binary.BigEndian.PutUint64(s.trace[:8], rand.Uint64())
	binary.BigEndian.PutUint64(s.trace[8:], rand.Uint64()|1)
	return s
}

// Child is the place of a span under s; nothing is noted.
func (s Span) Child() Span {
	s.rec, s.step, s.entry, s.began = nil, 0, 0, 0
	binary.BigEndian.PutUint64(s.span[:], rand.Uint64()|1)
	return s
}

// TraceID is 32 hex digits.
func (s Span) TraceID() string { return hex.EncodeToString(s.trace[:]) }

// SpanID is 16 hex digits.
func (s Span) SpanID() string { return hex.EncodeToString(s.span[:]) }

// Sampled says what the head decided; the traceparent carries it.
func (s Span) Sampled() bool { return s.flags&flagSampled != 0 }

// Traceparent is the header that a callee of this span gets; "" of the zero Span.
func (s Span) Traceparent() string {
	if s.trace == [16]byte{} {
		return ""
	}
	b := make([]byte, 0, 55)
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, s.trace[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, s.span[:])
	b = append(b, '-')
	return string(hex.AppendEncode(b, []byte{s.flags}))
}

// inContext is the key of the span in a context.
type inContext struct{}

// With carries the span through functions that take a context.
func With(ctx context.Context, s Span) context.Context { return context.WithValue(ctx, inContext{}, s) }

// From is the span that With put in. Without one it is the zero Span, under which nothing
// is noted and whose Traceparent is empty.
func From(ctx context.Context) Span {
	s, _ := ctx.Value(inContext{}).(Span)
	return s
}

func parse(header string) (Span, bool) {
	var s Span
	var flags [1]byte
	if len(header) < 55 || len(header) > 55 && header[:2] == "00" || header[:2] == "ff" ||
		header[2] != '-' || header[35] != '-' || header[52] != '-' || len(header) > 55 && header[55] != '-' ||
		strings.ToLower(header[:55]) != header[:55] {
		return s, false
	}
	var version [1]byte
	for _, part := range []struct {
		to   []byte
		from string
	}{{version[:], header[:2]}, {s.trace[:], header[3:35]}, {s.span[:], header[36:52]}, {flags[:], header[53:55]}} {
		if _, err := hex.Decode(part.to, []byte(part.from)); err != nil {
			return Span{}, false
		}
	}
	s.flags = flags[0] & flagSampled
	return s, s.trace != [16]byte{} && s.span != [8]byte{}
}
