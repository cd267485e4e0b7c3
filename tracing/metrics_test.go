package tracing_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/tracing"
	"github.com/latchkey-gateway/latchkey/tracing/tracingtest"
)

// scrape returns what the handler says to a scraper that accepts the format.
func scrape(t *testing.T, m *tracing.Metrics, accept string) string {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("scrape: %d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

const (
	plain       = "text/plain"
	openMetrics = "application/openmetrics-text; version=1.0.0"
)

// sources has an answer for everything.
func sources() tracing.Sources {
	return tracing.Sources{
		Unknown: func() map[string]tracing.Backlog {
			return map[string]tracing.Backlog{"charge": {Open: 3, Oldest: 90 * time.Second}, "gone-1": {Open: 1, Oldest: time.Minute}, "gone-2": {Open: 1, Oldest: time.Hour}}
		},
		Approvals:      func() map[string]int { return map[string]int{"charge": 2} },
		Breaker:        func(string) string { return "half_open" },
		InFlight:       func(string) int { return 4 },
		NearCache:      func() (hits, misses, bytes int64) { return 10, 20, 30 },
		JournalDropped: func() int64 { return 5 },
		RedisUp:        func() bool { return false },
		StoreUp:        func() bool { return true },
	}
}

// everything happens once.
func everything(m *tracing.Metrics) {
	for _, d := range []string{"executed", "collapsed", "mismatch", "step_conflict"} {
		m.Attempt("charge", d, 2*time.Millisecond)
	}
	m.Executed("charge", "completed")
	m.UnknownSettled("charge", "lookup", "rejected", time.Minute)
	m.ManualRecovery("charge", "resolve")
	m.WithoutStableKey("charge")
	m.Batch(7)
	m.Notified(nil)
	m.Notified(errors.New("no"))
}

func TestSeries(t *testing.T) {
	t.Parallel()
	tel := start(t, tracing.Options{Endpoint: tracingtest.Receive(t).GRPC, Protocol: "grpc", Sample: 1, Version: "1.2.3", Replica: "r-1", Region: "eu-west-1"})
	m := tel.Metrics
	if err := m.Observe(sources()); err != nil {
		t.Fatal(err)
	}
	everything(m)
	claim := tel.Arrive(nil).Start(tracing.SpanClaim)
	claim.End()
	text := scrape(t, m, plain)
	for _, line := range []string{
		`latchkey_attempts_total{decision="executed",tool="charge"} 1`,
		`latchkey_executions_total{outcome="completed",tool="charge"} 1`,
		`latchkey_duplicates_prevented_total{how="collapsed",tool="charge"} 1`,
		`latchkey_duplicates_prevented_total{how="mismatch",tool="charge"} 1`,
		`latchkey_duplicates_prevented_total{how="step_conflict",tool="charge"} 1`,
		`latchkey_parameter_mismatches_total{tool="charge"} 1`,
		`latchkey_step_conflicts_total{tool="charge"} 1`,
		`latchkey_unknown_open{tool="charge"} 3`,
		`latchkey_unknown_open{tool="send_email"} 0`,
		`latchkey_unknown_open{tool="unknown_tool"} 2`,
		`latchkey_unknown_oldest_seconds{tool="charge"} 90`,
		`latchkey_unknown_oldest_seconds{tool="unknown_tool"} 3600`,
		`latchkey_unknown_duration_seconds_bucket{settled_by="lookup",tool="charge",le="60"} 1`,
		`latchkey_unknown_reconciled_total{outcome="rejected",settled_by="lookup",tool="charge"} 1`,
		`latchkey_manual_recoveries_total{action="resolve",tool="charge"} 1`,
		`latchkey_calls_without_stable_key_total{tool="charge"} 1`,
		`latchkey_call_duration_seconds_bucket{decision="executed",tool="charge",le="0.001"} 0`,
		`latchkey_call_duration_seconds_bucket{decision="executed",tool="charge",le="0.0025"} 1`,
		`latchkey_step_duration_seconds_count{step="claim"} 1`,
		`latchkey_breaker_state{downstream="billing"} 1`,
		`latchkey_downstream_in_flight{downstream="billing"} 4`,
		`latchkey_near_cache_hits_total 10`, `latchkey_near_cache_misses_total 20`, `latchkey_near_cache_bytes 30`,
		`latchkey_store_batch_size_bucket{le="8"} 1`,
		`latchkey_journal_dropped_total 5`,
		`latchkey_notifications_total{outcome="sent"} 1`, `latchkey_notifications_total{outcome="failed"} 1`,
		`latchkey_approvals_waiting{tool="charge"} 2`,
		`latchkey_redis_up 0`, `latchkey_store_up 1`,
		`latchkey_spans_dropped_total{reason="queue_full"} 0`, `latchkey_spans_dropped_total{reason="export_failed"} 0`,
		`target_info{cloud_region="eu-west-1",service_instance_id="r-1",service_name="latchkey",service_version="1.2.3"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("%s is missing", line)
		}
	}
	for _, name := range []string{"go_goroutines", "go_memstats_heap_alloc_bytes", "process_cpu_seconds_total"} {
		if !strings.Contains(text, "\n"+name+" ") {
			t.Errorf("%s is missing", name)
		}
	}
	if strings.Contains(text, "otel_") {
		t.Error("the scope is a label of every series")
	}

	// names.go and the scrape have the same metrics, each with its HELP.
	helped := regexp.MustCompile(`(?m)^# HELP (latchkey_\w+) \S.*\.$`)
	var served []string
	for _, found := range helped.FindAllStringSubmatch(text, -1) {
		served = append(served, found[1])
	}
	slices.Sort(served)
	if names := slices.Sorted(maps.Values(constants(t, "Metric"))); !slices.Equal(served, names) {
		t.Errorf("served %v\nnamed  %v", served, names)
	}
}

// constants are the string constants of names.go that begin with a prefix.
func constants(t *testing.T, prefix string) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "names.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(s.Names[0].Name, prefix) {
			found[s.Names[0].Name], err = strconv.Unquote(s.Values[0].(*ast.BasicLit).Value)
			if err != nil || s.Comment == nil && s.Doc == nil {
				t.Errorf("%s has no sentence, or no value", s.Names[0].Name)
			}
		}
		return true
	})
	if len(found) == 0 {
		t.Fatalf("names.go has no constant %s...", prefix)
	}
	return found
}

// The silence of a replica that is not the one to tell is no zero.
func TestAnotherReplicaTells(t *testing.T) {
	t.Parallel()
	m := start(t, tracing.Options{}).Metrics
	s := sources()
	s.Unknown, s.Approvals = func() map[string]tracing.Backlog { return nil }, func() map[string]int { return nil }
	if err := m.Observe(s); err != nil {
		t.Fatal(err)
	}
	if text := scrape(t, m, plain); strings.Contains(text, "latchkey_unknown_open") || strings.Contains(text, "latchkey_approvals_waiting") ||
		!strings.Contains(text, "latchkey_redis_up 0") {
		t.Errorf("a replica that does not know tells:\n%s", text)
	}
}

// An attacker who invents tools and words adds no series beyond the one for each unknown.
func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	tel := start(t, tracing.Options{})
	m := tel.Metrics
	series := func() (n int) {
		for s := bufio.NewScanner(strings.NewReader(scrape(t, m, plain))); s.Scan(); {
			if strings.HasPrefix(s.Text(), "latchkey_") {
				n++
			}
		}
		return n
	}
	hostile := func(i int) {
		name := fmt.Sprintf("tool-%d\n\"}{", i)
		s := tel.Arrive(nil)
		s.Start("latchkey." + name).End()
		s.Answer(tracing.Outcome{Tool: name, Decision: "replayed", RunID: name, StepID: name, Tenant: name, Reason: name, Code: name})
		s.Served(name, name, name, 200)
		m.Attempt(name, name, 0)
		m.Executed(name, name)
		m.UnknownSettled(name, name, name, 0)
		m.ManualRecovery(name, name)
		m.WithoutStableKey(name)
	}
	hostile(0)
	before := series()
	for i := range 100_000 {
		hostile(i)
	}
	if after := series(); after != before || before > 200 {
		t.Errorf("%d series after one hostile name, %d after 100,000", before, after)
	}
	text := scrape(t, m, plain)
	if strings.Contains(text, "tool-") || !strings.Contains(text, `latchkey_attempts_total{decision="replayed",tool="unknown_tool"} 100001`) ||
		!strings.Contains(text, `latchkey_attempts_total{decision="other",tool="unknown_tool"} 100001`) {
		t.Error("hostile names are not counted as unknown_tool")
	}
}

// A large catalogue has all its series: the limit against hostile names is not in the way.
func TestLargeCatalogue(t *testing.T) {
	t.Parallel()
	var o tracing.Options
	for i := range 600 { // 2,400 series: more than the SDK keeps by default
		o.Tools = append(o.Tools, fmt.Sprintf("t%d", i), fmt.Sprintf("t%d", i)) // named twice is one
	}
	m := start(t, o).Metrics
	for _, name := range o.Tools {
		for _, outcome := range []string{"completed", "rejected", "unknown", "not_sent"} {
			m.Executed(name, outcome)
		}
	}
	text := scrape(t, m, plain)
	if n := strings.Count(text, "\nlatchkey_executions_total{"); n != 2400 || strings.Contains(text, "overflow") {
		t.Errorf("%d series for 600 tools and 4 outcomes", n)
	}
}

// Exemplars lead to the traces that are kept, and to no others.
func TestExemplars(t *testing.T) {
	t.Parallel()
	tel := replica(t, tracingtest.Receive(t), "r", 0)
	call := func(traceparent, decision string) string {
		s := tel.Arrive(given(traceparent))
		c := s.Start(tracing.SpanClaim)
		c.End()
		s.Answer(tracing.Outcome{Tool: "charge", Decision: decision})
		s.Served(tracing.SpanCall, "POST", "/", 200)
		return s.TraceID()
	}
	sampled, forced, forgotten := call(yes, "executed"), call("", "replayed"), call("", "refused")
	text := scrape(t, tel.Metrics, openMetrics)
	if !strings.HasSuffix(text, "# EOF\n") {
		t.Fatal("not OpenMetrics")
	}
	for _, line := range []string{
		`latchkey_attempts_total{decision="executed",tool="charge"} 1.0 # {[^}]*trace_id="` + sampled + `"[,}]`,
		`latchkey_attempts_total{decision="replayed",tool="charge"} 1.0 # {[^}]*trace_id="` + forced + `"[,}]`,
		`latchkey_call_duration_seconds_bucket{decision="replayed",tool="charge",le="[^"]*"} 1 # {[^}]*trace_id="` + forced + `"[,}]`,
		`latchkey_step_duration_seconds_bucket{step="claim",le="[^"]*"} [0-9]+ # {[^}]*trace_id="` + sampled + `"[,}]`,
		`latchkey_attempts_total{decision="refused",tool="charge"} 1.0\n`,
	} {
		if !regexp.MustCompile(`(?m)^` + line).MatchString(text) {
			t.Errorf("no line %s", line)
		}
	}
	if strings.Contains(text, forgotten) {
		t.Error("an exemplar leads to a trace that is not kept")
	}
	if strings.Contains(scrape(t, tel.Metrics, plain), "trace_id") {
		t.Error("plain text has exemplars")
	}
}

// Without an endpoint a call costs its record and its traceparent, and metrics cost no
// allocation at all.
func TestOffCostsNoAllocations(t *testing.T) {
	tel, o := start(t, tracing.Options{Sample: 1}), outcome("executed")
	h := given(yes)
	for _, c := range []struct {
		what string
		most float64
		f    func()
	}{
		{"a call with tracing off", 2, func() { fresh(tel, h, o) }},
		{"Attempt", 0, func() { tel.Metrics.Attempt("charge", "replayed", time.Millisecond) }},
		{"Attempt of an unknown tool", 0, func() { tel.Metrics.Attempt("made up", "made up", time.Millisecond) }},
		{"Executed", 0, func() { tel.Metrics.Executed("charge", "completed") }},
		{"Batch", 0, func() { tel.Metrics.Batch(8) }},
	} {
		if n := testing.AllocsPerRun(100, c.f); n > c.most {
			t.Errorf("%s: %v allocations, want at most %v", c.what, n, c.most)
		}
	}
}

// What was not wired does nothing.
func TestNothingWired(t *testing.T) {
	t.Parallel()
	var tel *tracing.Telemetry
	var m *tracing.Metrics
	everything(m)
	if err := m.Observe(sources()); err != nil {
		t.Error(err)
	}
	for _, s := range []tracing.Span{tel.Arrive(given(yes)), tel.Begin(tracing.SpanReconcile), tracing.Continue(yes)} {
		if x := s.Execute(yes, 1, "POST", "h"); x.Traceparent() != yes {
			t.Errorf("Execute travels as %s", x.Traceparent())
		}
		if c := s.Start(tracing.SpanClaim); c.TraceID() != s.TraceID() || c.SpanID() == s.SpanID() {
			t.Errorf("Start at %s-%s under %s-%s", c.TraceID(), c.SpanID(), s.TraceID(), s.SpanID())
		}
		s.About(tracing.Outcome{})
		s.Answer(tracing.Outcome{Execution: yes})
		s.Link(yes)
		s.Keep()
		s.End()
		s.Served(tracing.SpanCall, "POST", "/", 200)
		if s.Baggage() != "" || s.Tracestate() != "" {
			t.Error("a span without a record has baggage")
		}
	}
	if err := tel.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	none := tracing.From(t.Context())
	none.Start(tracing.SpanClaim).End()
	none.Query(tracing.SystemRedis, "get").Failed(errors.New("no"))
	none.Lookup("GET", "h").Received(500, "")
	if x := none.Execute(yes, 1, "POST", "h"); x.Traceparent() != yes {
		t.Errorf("without a span, Execute travels as %s", x.Traceparent())
	}
	s := tracing.Continue(yes)
	if tracing.From(tracing.With(t.Context(), s)) != s {
		t.Error("With and From do not agree")
	}
}
