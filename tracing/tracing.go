// Package tracing names the spans of a call and carries the W3C trace context from the
// caller to the downstream and into the receipt, so that every attempt can be followed to
// the one execution. It knows nothing of the rest.
package tracing

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"
)

// Span is one span's place in a trace (W3C Trace Context, level 1).
type Span struct {
	trace [16]byte
	span  [8]byte
	flags byte
}

// Continue starts a span in the caller's trace, or a new trace when the traceparent header
// is absent or malformed (the specification's rule: restart, never fail).
func Continue(traceparent string) Span {
	s, ok := parse(traceparent)
	if !ok {
		binary.BigEndian.PutUint64(s.trace[:8], rand.Uint64())
		binary.BigEndian.PutUint64(s.trace[8:], rand.Uint64()|1)
		s.flags = 1
	}
	return s.Child()
}

// Child starts a span under s.
func (s Span) Child() Span {
	binary.BigEndian.PutUint64(s.span[:], rand.Uint64()|1)
	return s
}

// TraceID is 32 hex digits.
func (s Span) TraceID() string { return hex.EncodeToString(s.trace[:]) }

// SpanID is 16 hex digits.
func (s Span) SpanID() string { return hex.EncodeToString(s.span[:]) }

// Traceparent is the header that a callee of this span gets.
func (s Span) Traceparent() string {
	b := make([]byte, 0, 55)
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, s.trace[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, s.span[:])
	b = append(b, '-')
	return string(hex.AppendEncode(b, []byte{s.flags}))
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
	s.flags = flags[0] & 1
	return s, s.trace != [16]byte{} && s.span != [8]byte{}
}
