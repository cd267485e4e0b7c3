package tracing

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// finished is an ended span as the SDK's processor and exporters read one. The embedded
// interface is nil: it stands for the method that keeps others from implementing it.
type finished struct {
	sdktrace.ReadOnlySpan
	name       string
	self       trace.SpanContext
	parent     trace.SpanContext
	kind       trace.SpanKind
	start, end time.Time
	attributes []attribute.KeyValue
	links      []sdktrace.Link
	status     sdktrace.Status
	children   int
	tel        *Telemetry
}

func (f *finished) Name() string                                { return f.name }
func (f *finished) SpanContext() trace.SpanContext              { return f.self }
func (f *finished) Parent() trace.SpanContext                   { return f.parent }
func (f *finished) SpanKind() trace.SpanKind                    { return f.kind }
func (f *finished) StartTime() time.Time                        { return f.start }
func (f *finished) EndTime() time.Time                          { return f.end }
func (f *finished) Attributes() []attribute.KeyValue            { return f.attributes }
func (f *finished) Links() []sdktrace.Link                      { return f.links }
func (f *finished) Events() []sdktrace.Event                    { return nil }
func (f *finished) Status() sdktrace.Status                     { return f.status }
func (f *finished) InstrumentationScope() instrumentation.Scope { return f.tel.scope }

//lint:ignore SA1019 the interface has it
func (f *finished) InstrumentationLibrary() instrumentation.Library { return f.tel.scope }

func (f *finished) Resource() *resource.Resource { return f.tel.resource }
func (f *finished) DroppedAttributes() int       { return 0 }
func (f *finished) DroppedLinks() int            { return 0 }
func (f *finished) DroppedEvents() int           { return 0 }
func (f *finished) ChildSpanCount() int          { return f.children }

// export hands over what has ended and was not handed over yet. The caller holds r.mu.
func (r *record) export() {
	ready := 0
	for i := range r.entries {
		if r.entries[i].ended && !r.entries[i].sent {
			ready++
		}
	}
	if ready == 0 {
		return
	}
	key := ""
	if r.outcome.Key != [32]byte{} {
		key = hex.EncodeToString(r.outcome.Key[:])
	}
	batch := make([]finished, 0, ready)
	attrs := make([]attribute.KeyValue, 0, 8+5*ready)
	for i := range r.entries {
		e := &r.entries[i]
		if !e.ended || e.sent {
			continue
		}
		e.sent = true
		from := len(attrs)
		attrs = r.attributes(attrs, e, i == 0, key)
		batch = append(batch, r.finished(e, i == 0, attrs[from:len(attrs):len(attrs)]))
		r.tel.queue.add(&batch[len(batch)-1])
	}
}

func (r *record) finished(e *entry, root bool, attrs []attribute.KeyValue) finished {
	id := trace.SpanContextConfig{TraceID: r.root.trace, SpanID: e.id, TraceFlags: trace.FlagsSampled, TraceState: r.tracestate}
	if e.trace != [16]byte{} {
		id.TraceID, id.TraceState = e.trace, trace.TraceState{}
	}
	f := finished{
		tel: r.tel, name: e.name, kind: e.kind, self: trace.NewSpanContext(id),
		start: r.began.Add(e.began), end: r.began.Add(e.after), links: e.links, attributes: attrs,
	}
	switch {
	case root:
		f.parent = r.parent
	case e.parent != [8]byte{}:
		id.SpanID = e.parent
		f.parent = trace.NewSpanContext(id)
	}
	if e.query {
		f.name = e.b + " " + e.a // the conventions' {operation} {target}
	}
	if e.failed != "" {
		f.status.Code = codes.Error
	}
	return f
}

// attributes appends those of one span.
func (r *record) attributes(attrs []attribute.KeyValue, e *entry, root bool, key string) []attribute.KeyValue {
	text := func(name, value string) {
		if value != "" {
			attrs = append(attrs, attribute.String(name, value))
		}
	}
	number := func(name string, value int) {
		if value > 0 {
			attrs = append(attrs, attribute.Int(name, value))
		}
	}
	text(AttrErrorType, e.failed)
	if e.query {
		text(AttrDBSystem, e.a)
		text(AttrDBSystemOld, e.a)
		text(AttrDBOperation, e.b)
		return attrs
	}
	o := &r.outcome
	text(AttrTool, o.Tool)
	text(AttrKey, key)
	number(AttrFence, int(cmp.Or(e.fence, o.Fence)))
	number(AttrHTTPStatus, e.status)
	switch {
	case root:
		text(AttrClass, o.Class)
		text(AttrDecision, o.Decision)
		text(AttrStatus, o.Status)
		text(AttrReason, o.Reason)
		text(AttrRunID, o.RunID)
		text(AttrStepID, o.StepID)
		number(AttrAttempt, o.Attempt)
		text(AttrHTTPMethod, e.a)
		text(AttrHTTPRoute, e.b)
		if !r.root.Sampled() {
			attrs = append(attrs, attribute.Bool(AttrForced, true))
		}
	case e.kind == trace.SpanKindClient:
		text(AttrHTTPMethod, e.a)
		host, port, err := net.SplitHostPort(e.b)
		if err != nil {
			host = e.b
		}
		text(AttrServerHost, host)
		if n, err := strconv.Atoi(port); err == nil {
			number(AttrServerPort, n)
		}
	}
	return attrs
}

// Bounds of the queue: spans that wait for the collector, spans in one request, how long
// one waits for company, and how long a request may take.
const (
	queueSpans    = 1 << 14
	exportSpans   = 512
	exportEvery   = time.Second
	exportTimeout = 10 * time.Second
)

// replaysPerSecond bounds the replays that are kept against the head sampler. A replay from
// memory is so cheap that its span costs half as much again, and a loop that replays one
// call ten thousand times a second has nothing more to tell.
const replaysPerSecond = 1000

// queue batches spans for the collector. A call never waits for it: what does not fit, and
// what the collector does not take, is dropped and counted.
type queue struct {
	batches sdktrace.SpanProcessor
	to      sdktrace.SpanExporter
	log     *slog.Logger
	limit   int64
	ended   context.Context // Done: requests under way are given up
	end     context.CancelFunc
	waiting atomic.Int64 // in the queue or in a request
	closed  atomic.Bool  // no more spans are taken

	second atomic.Int64 // of the replays counted next
	forced atomic.Int64 // replays kept in that second

	spared atomic.Int64 // dropped: over replaysPerSecond
	full   atomic.Int64 // dropped: no room
	failed atomic.Int64 // dropped: not taken
	told   atomic.Int64 // when the log last heard of it, in seconds
}

func newQueue(to sdktrace.SpanExporter, log *slog.Logger) *queue {
	q := &queue{to: to, log: log, limit: queueSpans}
	q.ended, q.end = context.WithCancel(context.Background())
	// The SDK drops in silence what its queue has no room for. Ours is no larger, so that
	// nothing is dropped there.
	q.batches = sdktrace.NewBatchSpanProcessor(q, sdktrace.WithMaxQueueSize(queueSpans), sdktrace.WithMaxExportBatchSize(exportSpans),
		sdktrace.WithBatchTimeout(exportEvery), sdktrace.WithExportTimeout(exportTimeout))
	return q
}

// replay says whether one more replay may be kept against the head sampler. Two calls that
// meet a new second at once may count a few too many, which does no harm.
func (q *queue) replay(now time.Time) bool {
	if s := now.Unix(); q.second.Swap(s) != s {
		q.forced.Store(0)
	}
	if q.forced.Add(1) <= replaysPerSecond {
		return true
	}
	q.spared.Add(1)
	return false
}

func (q *queue) add(f *finished) {
	if q.waiting.Add(1) > q.limit || q.closed.Load() {
		q.waiting.Add(-1)
		q.full.Add(1)
		return
	}
	q.batches.OnEnd(f)
}

// ExportSpans is called by the batches, one request at a time. It tells failures to our
// log and counts them; the SDK would print them.
func (q *queue) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	defer q.waiting.Add(-int64(len(spans)))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(q.ended, cancel)()
	if err := q.to.ExportSpans(ctx, spans); err != nil {
		dropped := q.failed.Add(int64(len(spans)))
		if now := time.Now().Unix(); now-q.told.Swap(now) >= 10 {
			q.log.Warn("spans were not exported", "spans", len(spans), "dropped_in_all", dropped, "error", err)
		}
	}
	return nil
}

// Shutdown is called by the batches when they have been exported.
func (q *queue) Shutdown(ctx context.Context) error { return q.to.Shutdown(ctx) }

// close exports what waits, within ctx; what it cannot is dropped and counted.
func (q *queue) close(ctx context.Context) error {
	q.closed.Store(true)
	defer context.AfterFunc(ctx, q.end)()
	err := q.batches.Shutdown(ctx)
	q.end()
	if left := q.waiting.Load(); err != nil && left > 0 {
		return fmt.Errorf("%d spans were not exported: %w", left, err)
	}
	return err
}
