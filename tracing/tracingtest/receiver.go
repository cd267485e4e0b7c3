// Package tracingtest receives spans as a collector would: OTLP over gRPC and over HTTP, on
// loopback, inside the test's process.
package tracingtest

import (
	"context"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Span is a span as it arrived.
type Span struct {
	Name       string
	TraceID    string // 32 hex digits
	SpanID     string // 16 hex digits
	ParentID   string // 16 hex digits, or ""
	Kind       string // INTERNAL, SERVER, CLIENT
	Failed     bool   // status Error
	Sampled    bool   // the span's own flag
	Start, End time.Time
	Attributes map[string]string // numbers and booleans as text
	Links      []Link
	Resource   map[string]string
}

// Link leads to another span.
type Link struct {
	TraceID    string
	SpanID     string
	Attributes map[string]string
}

// Receiver keeps what it receives.
type Receiver struct {
	collector.UnimplementedTraceServiceServer
	GRPC string // host:port for tracing.Options.Endpoint
	HTTP string // host:port for tracing.Options.Endpoint

	mu      sync.Mutex
	spans   []Span
	changed chan struct{} // closed and replaced when spans have come
}

// Receive starts a receiver that ends with the test.
func Receive(t testing.TB) *Receiver {
	t.Helper()
	r := &Receiver{changed: make(chan struct{})}
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	plain, web := listen(), listen()
	r.GRPC, r.HTTP = plain.Addr().String(), web.Addr().String()

	rpc := grpc.NewServer()
	collector.RegisterTraceServiceServer(rpc, r)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", r.post)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	var serving sync.WaitGroup
	serving.Go(func() { rpc.Serve(plain) })
	serving.Go(func() { server.Serve(web) })
	t.Cleanup(func() {
		rpc.Stop()
		server.Close()
		serving.Wait()
	})
	return r
}

// Export is the gRPC service's method.
func (r *Receiver) Export(_ context.Context, q *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range q.GetResourceSpans() {
		resource := texts(of.GetResource().GetAttributes())
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				r.spans = append(r.spans, spanOf(s, resource))
			}
		}
	}
	close(r.changed)
	r.changed = make(chan struct{})
	return &collector.ExportTraceServiceResponse{}, nil
}

func (r *Receiver) post(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var q collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &q)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer, _ := r.Export(req.Context(), &q)
	body, _ = proto.Marshal(answer)
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.Write(body)
}

// Spans returns what has come so far, in the order of arrival.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Span(nil), r.spans...)
}

// Await waits until n spans of that name have come, and returns them; "" is any name.
func (r *Receiver) Await(t testing.TB, name string, n int) []Span {
	t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	for {
		r.mu.Lock()
		var found []Span
		for _, s := range r.spans {
			if name == "" || s.Name == name {
				found = append(found, s)
			}
		}
		all, changed := len(r.spans), r.changed
		r.mu.Unlock()
		if len(found) >= n {
			return found
		}
		select {
		case <-changed:
		case <-limit.C:
			t.Fatalf("%d spans %q came within 20 s (%d in all), want %d", len(found), name, all, n)
		}
	}
}

// Find returns the span that a link leads to; false while it has not come.
func (r *Receiver) Find(l Link) (Span, bool) {
	for _, s := range r.Spans() {
		if s.TraceID == l.TraceID && s.SpanID == l.SpanID {
			return s, true
		}
	}
	return Span{}, false
}

func spanOf(s *otlp.Span, resource map[string]string) Span {
	out := Span{
		Name: s.GetName(), TraceID: hex.EncodeToString(s.GetTraceId()), SpanID: hex.EncodeToString(s.GetSpanId()),
		ParentID: hex.EncodeToString(s.GetParentSpanId()), Kind: s.GetKind().String()[len("SPAN_KIND_"):],
		Failed: s.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR, Sampled: s.GetFlags()&1 != 0,
		Start: time.Unix(0, int64(s.GetStartTimeUnixNano())), End: time.Unix(0, int64(s.GetEndTimeUnixNano())),
		Attributes: texts(s.GetAttributes()), Resource: resource,
	}
	for _, l := range s.GetLinks() {
		out.Links = append(out.Links, Link{hex.EncodeToString(l.GetTraceId()), hex.EncodeToString(l.GetSpanId()), texts(l.GetAttributes())})
	}
	return out
}

func texts(kvs []*common.KeyValue) map[string]string {
	m := make(map[string]string, len(kvs))
	for _, kv := range kvs {
		switch v := kv.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			m[kv.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			m[kv.GetKey()] = strconv.FormatInt(v.IntValue, 10)
		case *common.AnyValue_BoolValue:
			m[kv.GetKey()] = strconv.FormatBool(v.BoolValue)
		default:
			m[kv.GetKey()] = kv.GetValue().String()
		}
	}
	return m
}
