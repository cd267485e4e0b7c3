package tracing_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/latchkey-gateway/latchkey/tracing"
	"github.com/latchkey-gateway/latchkey/tracing/tracingtest"
)

func TestContextInAndOut(t *testing.T) {
	t.Parallel()
	tel := start(t, tracing.Options{Sample: 1})
	for _, c := range []struct {
		name           string
		h              http.Header
		joins          bool
		state, baggage string
	}{
		{"alone", http.Header{"Traceparent": {yes}}, true, "", ""},
		{"with state and baggage", http.Header{"Traceparent": {yes}, "Tracestate": {"a=1,b=2", "c=3"}, "Baggage": {"agent=planner", "team=red;p=1"}},
			true, "a=1,b=2,c=3", "agent=planner,team=red;p=1"},
		{"state without a parent", http.Header{"Tracestate": {"a=1"}, "Baggage": {"k=v"}}, false, "", "k=v"},
		{"two parents", http.Header{"Traceparent": {yes, no}}, false, "", ""},
		{"bad state", http.Header{"Traceparent": {yes}, "Tracestate": {"a=1,=,"}}, true, "", ""},
		{"bad baggage", http.Header{"Traceparent": {yes}, "Baggage": {"k=v,{\x01"}}, true, "", ""},
		{"large baggage", http.Header{"Traceparent": {yes}, "Baggage": {"k=" + strings.Repeat("v", 9000)}}, true, "", ""},
	} {
		s := tel.Arrive(c.h)
		if joins := s.TraceID() == traceID; joins != c.joins {
			t.Errorf("%s: joins the caller's trace: %v", c.name, joins)
		}
		got := slices.Sorted(strings.SplitSeq(s.Baggage(), ","))
		want := slices.Sorted(strings.SplitSeq(c.baggage, ","))
		if s.Tracestate() != c.state || !slices.Equal(got, want) {
			t.Errorf("%s: state %q and baggage %q go on, want %q and %q", c.name, s.Tracestate(), s.Baggage(), c.state, c.baggage)
		}
		if x := s.Start(tracing.SpanExecute); x.Tracestate() != c.state {
			t.Errorf("%s: a child's state is %q", c.name, x.Tracestate())
		}
	}
}

// The ratio keeps the traces that OpenTelemetry's own sampler keeps.
func TestRatioIsOpenTelemetrys(t *testing.T) {
	t.Parallel()
	for _, ratio := range []float64{0, .01, .5, .999, 1} {
		tel, theirs := start(t, tracing.Options{Sample: ratio}), sdktrace.TraceIDRatioBased(ratio)
		kept := 0
		for range 2000 {
			s := tel.Arrive(nil)
			id, err := trace.TraceIDFromHex(s.TraceID())
			if err != nil {
				t.Fatal(err)
			}
			if want := theirs.ShouldSample(sdktrace.SamplingParameters{ParentContext: t.Context(), TraceID: id}).Decision == sdktrace.RecordAndSample; s.Sampled() != want {
				t.Fatalf("ratio %v, trace %s: sampled is %v", ratio, id, s.Sampled())
			}
			if s.Sampled() {
				kept++
			}
		}
		if share := float64(kept) / 2000; share < ratio-.06 || share > ratio+.06 {
			t.Errorf("ratio %v kept %v", ratio, share)
		}
	}
}

// The names are those of the conventions, as far as those have one.
func TestNamesOfTheConventions(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]attribute.Key{
		tracing.AttrHTTPMethod: semconv.HTTPRequestMethodKey, tracing.AttrHTTPRoute: semconv.HTTPRouteKey,
		tracing.AttrHTTPStatus: semconv.HTTPResponseStatusCodeKey, tracing.AttrServerHost: semconv.ServerAddressKey,
		tracing.AttrServerPort: semconv.ServerPortKey, tracing.AttrErrorType: semconv.ErrorTypeKey,
		tracing.AttrDBSystem: semconv.DBSystemNameKey, tracing.AttrDBOperation: semconv.DBOperationNameKey,
		tracing.AttrServiceName: semconv.ServiceNameKey, tracing.AttrVersion: semconv.ServiceVersionKey,
		tracing.AttrReplica: semconv.ServiceInstanceIDKey, tracing.AttrCloudRegion: semconv.CloudRegionKey,
	} {
		if name != string(key) {
			t.Errorf("%q, the conventions say %q", name, key)
		}
	}
	for system, kv := range map[string]attribute.KeyValue{tracing.SystemRedis: semconv.DBSystemNameRedis,
		tracing.SystemPostgreSQL: semconv.DBSystemNamePostgreSQL, tracing.SystemSQLite: semconv.DBSystemNameSQLite} {
		if system != kv.Value.AsString() {
			t.Errorf("%q, the conventions say %q", system, kv.Value.AsString())
		}
	}
	spans := constants(t, "Span")
	for name, value := range spans {
		if value != "latchkey."+strings.ToLower(strings.TrimPrefix(name, "Span")) {
			t.Errorf("%s = %q", name, value)
		}
	}
}

func TestLogLine(t *testing.T) {
	t.Parallel()
	tel := replica(t, tracingtest.Receive(t), "r", 1)
	line := func(level slog.Level, o tracing.Outcome) map[string]any {
		var b bytes.Buffer
		log := slog.New(slog.NewJSONHandler(&b, nil))
		s := tel.Arrive(given(yes))
		c := s.Start(tracing.SpanClaim)
		for range 1000 { // a microsecond, at least
			rand.Uint64()
		}
		c.End()
		s.Execute(yes, 1, "POST", "h").Received(200, "")
		s.Answer(o)
		s.Served(tracing.SpanCall, "POST", "/", 200)
		s.Log(t.Context(), log, level)
		if b.Len() == 0 {
			return nil
		}
		if strings.Count(b.String(), "\n") != 1 {
			t.Fatalf("more than one line: %s", &b)
		}
		m := make(map[string]any)
		if err := json.Unmarshal(b.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	o := outcome("replayed")
	o.Key = [32]byte{0xab, 0xcd, 0xef, 0x01, 0x23}
	o.Execution, o.Code, o.Reason = yes, "not_sent", "breaker_open"
	got := line(slog.LevelInfo, o)
	fields := slices.Collect(maps.Values(constants(t, "Log")))
	fields = append(fields[:slices.Index(fields, "call")], fields[slices.Index(fields, "call")+1:]...)
	for _, name := range fields {
		if _, ok := got[name]; !ok {
			t.Errorf("no field %s", name)
		}
	}
	for name := range got {
		if !slices.Contains(fields, name) && name != "time" && name != "level" && name != "msg" {
			t.Errorf("field %s has no name", name)
		}
	}
	for name, value := range map[string]any{"msg": "call", "key": "abcdef01", "tool": "send_email", "trace_id": traceID,
		"execution_trace_id": traceID, "http_status": 200.0, "fence": 1.0, "tenant": "acme", "reason": "breaker_open"} {
		if got[name] != value {
			t.Errorf("%s = %v, want %v", name, got[name], value)
		}
	}
	took, _ := got["steps_ms"].(map[string]any)
	if claim, ok := took["claim"].(float64); !ok || claim > got["duration_ms"].(float64) {
		t.Errorf("steps %v within %v", took, got["duration_ms"])
	}
	if _, ok := took["settle"]; ok {
		t.Errorf("a step that was not taken: %v", took)
	}
	if m := line(slog.LevelInfo, tracing.Outcome{Tool: "made up\n"}); m["tool"] != tracing.UnknownTool || m["key"] != nil || m["fence"] != nil {
		t.Errorf("a call of no tool: %v", m)
	}
	if m := line(slog.LevelDebug, o); m != nil {
		t.Errorf("a line below the level: %v", m)
	}
}
