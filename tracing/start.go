package tracing

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Options of Start. The zero value exports nothing, and its metrics know no tool.
type Options struct {
	// Endpoint is the collector's host:port. "": no spans are exported or even noted;
	// trace ids are made and travel all the same.
	Endpoint string
	// Protocol is grpc or http (OTLP over HTTP, protobuf, path /v1/traces).
	Protocol string
	// Insecure speaks plain text to the collector: for loopback, or a mesh that encrypts.
	Insecure bool
	// Sample is the share of new traces that are kept, 0 to 1. A caller's traceparent
	// decides for its own trace.
	Sample float64

	Version string // of the build
	Replica string // as in receipts
	Region  string // as in receipts; "": none

	// Tools and Downstreams are the catalogue's names: the only ones that become labels.
	Tools       []string
	Downstreams []string

	Log *slog.Logger // nil: discarded
}

// Telemetry makes the spans and the metrics of one process.
type Telemetry struct {
	Metrics *Metrics

	queue    *queue    // nil: nothing is exported
	bound    uint64    // half of a new trace id's second half must be below it
	spare    sync.Pool // of *[]entry: most calls are forgotten
	resource *resource.Resource
	scope    instrumentation.Scope
}

// Start makes telemetry. It does not wait for the collector, and no call ever does: an
// exporter that fails or is slow costs spans, which are counted. The variables that
// OpenTelemetry defines (OTEL_EXPORTER_OTLP_HEADERS, _CERTIFICATE ...) add to the options.
func Start(ctx context.Context, o Options) (*Telemetry, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if !(o.Sample >= 0 && o.Sample <= 1) {
		return nil, fmt.Errorf("tracing: sample %v is not between 0 and 1", o.Sample)
	}
	t := &Telemetry{bound: bound(o.Sample), scope: instrumentation.Scope{Name: scopeName, Version: o.Version, SchemaURL: semconv.SchemaURL}}
	attrs := []attribute.KeyValue{attribute.String(AttrServiceName, ServiceName)}
	for name, value := range map[string]string{AttrVersion: o.Version, AttrReplica: o.Replica, AttrCloudRegion: o.Region} {
		if value != "" {
			attrs = append(attrs, attribute.String(name, value))
		}
	}
	t.resource = resource.NewWithAttributes(semconv.SchemaURL, attrs...)
	if o.Endpoint != "" {
		to, err := exporter(ctx, o)
		if err != nil {
			return nil, err
		}
		t.queue = newQueue(to, o.Log)
	}
	var err error
	if t.Metrics, err = newMetrics(o, t.resource, t.queue); err != nil {
		return nil, errors.Join(err, t.Shutdown(ctx))
	}
	return t, nil
}

const scopeName = "github.com/latchkey-gateway/latchkey/tracing"

func exporter(ctx context.Context, o Options) (sdktrace.SpanExporter, error) {
	var client otlptrace.Client
	switch o.Protocol {
	case "grpc":
		opts := []otlptracegrpc.Option{otlptracegrpc.WithEndpoint(o.Endpoint)}
		if o.Insecure {
			opts = append(opts, otlptracegrpc.WithInsecure())
		}
		client = otlptracegrpc.NewClient(opts...)
	case "http":
		opts := []otlptracehttp.Option{otlptracehttp.WithEndpoint(o.Endpoint)}
		if o.Insecure {
			opts = append(opts, otlptracehttp.WithInsecure())
		}
		client = otlptracehttp.NewClient(opts...)
	default:
		return nil, fmt.Errorf("tracing: protocol %q is neither grpc nor http", o.Protocol)
	}
	to, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	return to, nil
}

// shutdownWithin bounds Shutdown where its context does not.
const shutdownWithin = 5 * time.Second

// Shutdown exports what waits, within ctx and five seconds. What is not exported by then
// is dropped. Spans that end later are counted as dropped. Metrics can be scraped until
// the process ends.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	if t == nil || t.queue == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, shutdownWithin)
	defer cancel()
	return t.queue.close(ctx)
}

func (t *Telemetry) exports() bool { return t.queue != nil }

func (t *Telemetry) entries() []entry {
	if es, ok := t.spare.Get().(*[]entry); ok {
		return *es
	}
	return make([]entry, 0, usualEntries)
}

func (t *Telemetry) recycle(es []entry) {
	clear(es)
	es = es[:0]
	t.spare.Put(&es)
}

// bound is the threshold of OpenTelemetry's TraceIDRatioBased sampler, so that services
// with the same ratio keep the same traces.
func bound(ratio float64) uint64 {
	if ratio >= 1 {
		return math.MaxUint64
	}
	return uint64(ratio * (1 << 63))
}

// sampled is the head's decision on a new trace.
func (t *Telemetry) sampled(s Span) bool { return binary.BigEndian.Uint64(s.trace[8:])>>1 < t.bound }

// Arrive opens the span of a request, in the caller's trace or a new one. End it with
// Served.
func (t *Telemetry) Arrive(h http.Header) Span {
	if t == nil {
		return Continue(h.Get("Traceparent"))
	}
	r := &record{tel: t, began: time.Now()}
	var s Span
	var joined bool
	if given := h["Traceparent"]; len(given) == 1 {
		s, joined = parse(given[0])
	}
	if joined {
		r.parent = s.context().WithRemote(true)
		if given := h["Tracestate"]; len(given) > 0 {
			// Told along only as it came: what does not parse is dropped whole (W3C).
			if state, err := trace.ParseTraceState(strings.Join(given, ",")); err == nil {
				r.tracestate, r.state = state, state.String()
				r.parent = r.parent.WithTraceState(state)
			}
		}
	} else {
		s = newTrace()
		if t.sampled(s) {
			s.flags = flagSampled
		}
	}
	if given := h["Baggage"]; len(given) > 0 {
		if b, err := baggage.Parse(strings.Join(given, ",")); err == nil {
			r.baggage = b.String()
		}
	}
	return r.start(s.Child(), entry{kind: trace.SpanKindServer})
}

// Begin opens a root of its own for what no request asked for: the sweeper's work on one
// key. It is kept whatever the sampler says. End it with End or Failed.
func (t *Telemetry) Begin(name string) Span {
	if t == nil {
		return Continue("")
	}
	s := newTrace()
	if t.sampled(s) {
		s.flags = flagSampled
	}
	s = (&record{tel: t, began: time.Now()}).start(s.Child(), entry{name: name, kind: trace.SpanKindInternal})
	s.Keep()
	return s
}

// Branch opens a record of its own below s, for one of the several things that a request may
// ask for. It is kept whatever the sampler says, and s with it. End it with End or Failed.
func (t *Telemetry) Branch(s Span, name string) Span {
	switch {
	case s == Span{}:
		return t.Begin(name)
	case t == nil:
		return s.Child()
	}
	s.Keep()
	r := &record{tel: t, began: time.Now(), parent: s.context()}
	if s.rec != nil {
		r.tracestate, r.state, r.baggage = s.rec.tracestate, s.rec.state, s.rec.baggage
		r.parent = r.parent.WithTraceState(r.tracestate)
	}
	b := r.start(s.Child(), entry{name: name, kind: trace.SpanKindInternal})
	b.Keep()
	return b
}

// start makes the root.
func (r *record) start(s Span, root entry) Span {
	r.root = s
	if r.tel.exports() {
		r.keep = s.Sampled()
		root.id = s.span
		r.entries, r.open = append(r.tel.entries(), root), 1
	}
	s.rec = r
	return s
}
