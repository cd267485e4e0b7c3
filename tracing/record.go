package tracing

import (
	"context"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// step is a part of the order of things that has a duration of its own.
type step uint8

const (
	_ step = iota
	claim
	begin
	execute
	settle
	lookup
	steps
)

var stepNames = [steps]string{"", "claim", "begin", "execute", "settle", "lookup"}

func stepOf(span string) step {
	switch span {
	case SpanClaim:
		return claim
	case SpanBegin:
		return begin
	case SpanExecute:
		return execute
	case SpanSettle:
		return settle
	case SpanLookup:
		return lookup
	}
	return 0
}

// Bounds of a record: what a call usually needs, and what it may take at most. A span over
// the limit is not noted; its callee still gets a context.
const (
	usualEntries = 10
	maxEntries   = 64
)

// record is what is noted of one call, operator's request or sweep. Spans that outlive it
// (an effect whose caller has left) are exported when they end.
type record struct {
	tel            *Telemetry
	root           Span // without the record
	began          time.Time
	parent         trace.SpanContext // the caller's span; invalid for a new trace
	tracestate     trace.TraceState  // the caller's
	state, baggage string            // tracestate and baggage, to be sent along
	took           [steps]atomic.Int64
	execution      [8]byte // the span id that this call's execution has or would have

	mu      sync.Mutex
	entries []entry // nil when nothing is exported, and once it is forgotten
	open    int     // entries that have not ended
	keep    bool    // becomes spans when it is over
	over    bool    // the root has ended
	outcome Outcome
	ctx     context.Context // carries the root's context to exemplars; nil while not made
}

// entry is a span as it is noted. What a and b say depends on the kind of span: system and
// verb of a query, method and address of a request.
type entry struct {
	id, parent   [8]byte
	trace        [16]byte // zero: the record's
	name         string
	kind         trace.SpanKind
	query        bool
	ended, sent  bool
	began, after time.Duration
	a, b         string
	status       int    // HTTP
	failed       string // a bounded word; "": it did not fail
	fence        uint64
	links        []sdktrace.Link
}

// Start notes a span under s. name is one of the Span constants. End it.
func (s Span) Start(name string) Span {
	return s.note(entry{name: name, kind: trace.SpanKindInternal}, s.Child())
}

// Query notes one trip to Redis or the durable store: a System constant and the verb that
// this code base calls it by, never a statement or an argument.
func (s Span) Query(system, verb string) Span {
	return s.note(entry{name: verb, kind: trace.SpanKindClient, query: true, a: system, b: verb}, s.Child())
}

// Lookup notes a request that asks the downstream; address is its host, with a port unless
// it is the scheme's. End it with Received.
func (s Span) Lookup(method, address string) Span {
	return s.note(entry{name: SpanLookup, kind: trace.SpanKindClient, a: method, b: address}, s.Child())
}

// Reserve is the place of the execution that this arrival would make: it goes into the
// receipt's Traceparent before anybody knows who executes.
func (s Span) Reserve() Span {
	x := s.Child()
	if s.rec != nil {
		s.rec.mu.Lock()
		s.rec.execution = x.span
		s.rec.mu.Unlock()
	}
	return x
}

// Execute notes the request of an execution as the very span that its receipt names. That
// is in this trace, unless another request wrote the receipt (an approval executes what an
// agent asked for): then the execution stays in the receipt's trace and links to s.
func (s Span) Execute(traceparent string, fence uint64, method, address string) Span {
	e := entry{name: SpanExecute, kind: trace.SpanKindClient, a: method, b: address, fence: fence}
	x, ok := parse(traceparent)
	switch {
	case s.rec == nil && ok:
		return x
	case !ok: // a receipt without a trace: nothing can link to it anyway
		x = s.Child()
	case x.trace != s.trace:
		e.links = []sdktrace.Link{{SpanContext: s.context(), Attributes: []attribute.KeyValue{attribute.String(AttrLink, "request")}}}
	}
	if s.rec != nil {
		s.rec.mu.Lock()
		s.rec.execution = x.span
		s.rec.mu.Unlock()
	}
	return s.note(e, x)
}

// note adds e to the record as the span at x.
func (s Span) note(e entry, x Span) Span {
	r := s.rec
	if r == nil {
		return x
	}
	x.rec, x.step, x.entry = r, stepOf(e.name), -1
	if !r.tel.exports() {
		if x.step != 0 {
			x.began = time.Since(r.began)
		}
		return x
	}
	x.began = time.Since(r.began)
	e.id, e.began = x.span, x.began
	if x.trace == s.trace {
		e.parent = s.span // else its parent is known to the receipt's trace alone
	}
	if x.trace != r.root.trace {
		e.trace = x.trace
	}
	r.mu.Lock()
	if n := len(r.entries); n > 0 && n < maxEntries {
		x.entry = int16(n)
		r.entries = append(r.entries, e)
		r.open++
	}
	r.mu.Unlock()
	return x
}

// End ends a span that went well. The root's end, where it is no server span, is the end
// of its record.
func (s Span) End() { s.end(0, "") }

// Failed ends a span with the type of an error, never its text; nil is End.
func (s Span) Failed(err error) {
	if err == nil {
		s.end(0, "")
		return
	}
	s.end(0, reflect.TypeOf(err).String())
}

// Received ends a request's span: the HTTP status, 0 when there was none, and why there is
// no usable answer, as a bounded word or "".
func (s Span) Received(status int, why string) {
	if why == "" && status >= 400 {
		why = strconv.Itoa(status)
	}
	s.end(status, why)
}

func (s Span) end(status int, failed string) {
	r := s.rec
	if r == nil || s.step == 0 && !r.tel.exports() {
		return
	}
	now := time.Since(r.began)
	ctx := context.Background()
	if r.tel.exports() {
		r.mu.Lock()
		ctx = r.exemplar()
		if e := r.at(s); e != nil && !e.ended {
			e.ended, e.after, e.status, e.failed = true, now, status, failed
			r.open--
			r.over = r.over || s.entry == 0
			r.finish()
		}
		r.mu.Unlock()
	}
	if s.step != 0 {
		r.took[s.step].Add(int64(now - s.began))
		r.tel.Metrics.step(ctx, s.step, now-s.began)
	}
}

// at is a span's entry; nil when it was not noted, or is forgotten.
func (r *record) at(s Span) *entry {
	if s.entry < 0 || int(s.entry) >= len(r.entries) {
		return nil
	}
	return &r.entries[s.entry]
}

// finish exports or forgets what there is, once the root has ended. The caller holds r.mu.
func (r *record) finish() {
	switch {
	case !r.over:
	case r.keep:
		r.export()
	case r.open == 0:
		r.tel.recycle(r.entries)
		r.entries = nil
	}
}

// Link says that this span has to do with the execution that a receipt names.
func (s Span) Link(traceparent string) {
	x, ok := parse(traceparent)
	if !ok || s.rec == nil {
		return
	}
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	if e := s.rec.at(s); e != nil {
		e.link(x)
	}
}

func (e *entry) link(x Span) {
	for _, l := range e.links {
		if l.SpanContext.SpanID() == x.span {
			return
		}
	}
	e.links = append(e.links, sdktrace.Link{SpanContext: x.context().WithRemote(true),
		Attributes: []attribute.KeyValue{attribute.String(AttrLink, LinkExecution)}})
}

// Keep makes this record become spans whatever the head sampler said.
func (s Span) Keep() {
	if s.rec == nil || !s.rec.tel.exports() {
		return
	}
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	s.rec.keep = true
	s.rec.finish()
}

// Tracestate is the caller's tracestate header, to be sent along with the traceparent; "" for
// an execution that stayed in another trace.
func (s Span) Tracestate() string {
	if s.rec == nil || s.trace != s.rec.root.trace {
		return ""
	}
	return s.rec.state
}

// Baggage is the caller's baggage header, to be sent along; "" as for Tracestate: what one
// caller says of itself is not said in another's name.
func (s Span) Baggage() string {
	if s.rec == nil || s.trace != s.rec.root.trace {
		return ""
	}
	return s.rec.baggage
}

// context is the span's place as OpenTelemetry spells it.
func (s Span) context() trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: s.trace, SpanID: s.span, TraceFlags: trace.TraceFlags(s.flags)})
}

// exemplar is a context by which a measurement leads to this trace; plain unless the trace
// is kept, for an exemplar that leads nowhere is worse than none. The caller holds r.mu.
func (r *record) exemplar() context.Context {
	if !r.keep {
		return context.Background()
	}
	if r.ctx == nil {
		root := r.root
		root.flags = flagSampled
		r.ctx = trace.ContextWithSpanContext(context.Background(), root.context())
	}
	return r.ctx
}
