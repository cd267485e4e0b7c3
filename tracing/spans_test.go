package tracing_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/latchkey-gateway/latchkey/tracing"
	"github.com/latchkey-gateway/latchkey/tracing/tracingtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	traceID  = "4bf92f3577b34da6a3ce929d0e0e4736"
	callerID = "00f067aa0ba902b7"
	yes      = "00-" + traceID + "-" + callerID + "-01"
	no       = "00-" + traceID + "-" + callerID + "-00"
)

func given(traceparent string) http.Header { return http.Header{"Traceparent": {traceparent}} }

func replica(t testing.TB, to *tracingtest.Receiver, name string, sample float64) *tracing.Telemetry {
	return start(t, tracing.Options{Endpoint: to.GRPC, Protocol: "grpc", Sample: sample, Replica: name, Region: "eu-west-1", Version: "1.2.3"})
}

func flush(t testing.TB, tels ...*tracing.Telemetry) {
	t.Helper()
	for _, tel := range tels {
		if err := tel.Shutdown(context.Background()); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	}
}

func named(spans []tracingtest.Span, name string) (found []tracingtest.Span) {
	for _, s := range spans {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

func one(t *testing.T, spans []tracingtest.Span, name string) tracingtest.Span {
	t.Helper()
	found := named(spans, name)
	if len(found) != 1 {
		t.Fatalf("%d spans %q, want 1", len(found), name)
	}
	return found[0]
}

// A fresh call makes one tree, over either protocol, and Shutdown flushes it.
func TestCallMakesOneTree(t *testing.T) {
	t.Parallel()
	to := tracingtest.Receive(t)
	for _, o := range []tracing.Options{{Endpoint: to.GRPC, Protocol: "grpc"}, {Endpoint: to.HTTP, Protocol: "http"}} {
		t.Run(o.Protocol, func(t *testing.T) {
			t.Parallel()
			o.Replica, o.Region, o.Version = "replica-"+o.Protocol, "eu-west-1", "1.2.3"
			tel := start(t, o)
			fresh(tel, given(yes), outcome("executed"))
			flush(t, tel)
			spans := slices.DeleteFunc(to.Spans(), func(s tracingtest.Span) bool { return s.Resource[tracing.AttrReplica] != o.Replica })

			call := one(t, spans, tracing.SpanCall)
			claim, begin, settle := one(t, spans, tracing.SpanClaim), one(t, spans, tracing.SpanBegin), one(t, spans, tracing.SpanSettle)
			execute := one(t, spans, tracing.SpanExecute)
			for _, c := range []struct {
				span         tracingtest.Span
				parent, kind string
			}{
				{call, callerID, "SERVER"},
				{claim, call.SpanID, "INTERNAL"}, {begin, call.SpanID, "INTERNAL"}, {settle, call.SpanID, "INTERNAL"},
				{execute, call.SpanID, "CLIENT"},
				{one(t, spans, "claim redis"), claim.SpanID, "CLIENT"},
				{one(t, spans, "begin postgresql"), begin.SpanID, "CLIENT"},
				{one(t, spans, "settle postgresql"), settle.SpanID, "CLIENT"},
				{one(t, spans, "settle redis"), settle.SpanID, "CLIENT"},
			} {
				s := c.span
				if s.TraceID != traceID || s.ParentID != c.parent || s.Kind != c.kind || s.Failed || !s.Sampled {
					t.Errorf("%+v, want parent %s and kind %s", s, c.parent, c.kind)
				}
				if s.End.Before(s.Start) || s.Start.Before(call.Start) || s.End.After(call.End) || time.Since(s.Start) > time.Minute {
					t.Errorf("%s took %v to %v, the call %v to %v", s.Name, s.Start, s.End, call.Start, call.End)
				}
			}
			if len(spans) != 9 {
				t.Errorf("%d spans, want 9", len(spans))
			}
			want(t, call.Attributes, map[string]string{
				"latchkey.key": "010203" + strings.Repeat("0", 58), "latchkey.tool": "send_email", "latchkey.class": "effectful",
				"latchkey.decision": "executed", "latchkey.status": "completed", "latchkey.fence": "1", "latchkey.run_id": "run-42",
				"latchkey.step_id": "7", "latchkey.attempt": "1", "http.request.method": "POST",
				"http.route": "/v1/tools/:tool/calls", "http.response.status_code": "200",
			})
			want(t, execute.Attributes, map[string]string{
				"latchkey.key": "010203" + strings.Repeat("0", 58), "latchkey.tool": "send_email", "latchkey.fence": "1",
				"http.request.method": "POST", "server.address": "127.0.0.1", "server.port": "9100", "http.response.status_code": "200",
			})
			want(t, one(t, spans, "claim redis").Attributes, map[string]string{
				"db.system.name": "redis", "db.system": "redis", "db.operation.name": "claim"})
			want(t, call.Resource, map[string]string{"service.name": "latchkey", "service.version": "1.2.3",
				"service.instance.id": o.Replica, "cloud.region": "eu-west-1"})
			if len(call.Links) > 0 || len(execute.Links) > 0 {
				t.Errorf("the call that executed links to %v and %v", call.Links, execute.Links)
			}
		})
	}
}

func want(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s = %q, want %q", name, got[name], value)
		}
	}
	for name, value := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s = %q was not asked for", name, value)
		}
	}
}

// Whatever the head says, calls that somebody will ask about are kept; the traceparent
// that travels carries the head's decision alone.
func TestWhatIsKept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		caller string // traceparent
		sample float64
		o      tracing.Outcome
		kept   bool
	}{
		{yes, 0, tracing.Outcome{Decision: "executed", Status: "completed"}, true},
		{no, 1, tracing.Outcome{Decision: "executed", Status: "completed"}, false},
		{"", 1, tracing.Outcome{Decision: "executed", Status: "completed"}, true},
		{"", 0, tracing.Outcome{Decision: "executed", Status: "completed"}, false},
		{"", 0, tracing.Outcome{Decision: "executed", Status: "rejected"}, false},
		{"", 0, tracing.Outcome{Decision: "refused", Code: "not_sent"}, false},
		{"", 0, tracing.Outcome{Decision: "refused", Code: "bad_request"}, false},
		{"malformed", 0, tracing.Outcome{Decision: "executed", Status: "completed"}, false},
		{no, 0, tracing.Outcome{Decision: "executed", Status: "unknown"}, true},
		{no, 0, tracing.Outcome{Decision: "collapsed", Status: "completed"}, true},
		{no, 0, tracing.Outcome{Decision: "replayed", Status: "completed"}, true},
		{no, 0, tracing.Outcome{Decision: "replayed", Status: "rejected"}, true},
		{no, 0, tracing.Outcome{Decision: "mismatch", Code: "idempotency_conflict"}, true},
		{no, 0, tracing.Outcome{Decision: "step_conflict", Code: "step_conflict"}, true},
		{no, 0, tracing.Outcome{Decision: "pending", Status: "started"}, true},
		{no, 0, tracing.Outcome{Decision: "pending", Status: "unknown"}, true},
		{no, 0, tracing.Outcome{Decision: "pending", Status: "awaiting_approval"}, true},
		{no, 0, tracing.Outcome{Decision: "pending", Code: "internal"}, true},
	} {
		t.Run(strings.Join([]string{c.caller, c.o.Decision, c.o.Status, c.o.Code}, " "), func(t *testing.T) {
			t.Parallel()
			to := tracingtest.Receive(t)
			tel := replica(t, to, "r", c.sample)
			s := tel.Arrive(given(c.caller))
			head := "-00"
			if c.caller == yes || c.caller == "" && c.sample == 1 {
				head = "-01"
			}
			receipt := s.Reserve().Traceparent()
			claim := s.Start(tracing.SpanClaim)
			claim.End()
			for _, p := range []string{receipt, s.Traceparent(), claim.Traceparent(), s.Execute(receipt, 1, "POST", "h").Traceparent()} {
				if !strings.HasSuffix(p, head) {
					t.Errorf("traceparent %s, want flags %s", p, head)
				}
			}
			s.Answer(c.o)
			s.Served(tracing.SpanCall, "POST", "/", 200)
			flush(t, tel)
			spans := to.Spans()
			if got := len(named(spans, tracing.SpanCall)) == 1 && len(named(spans, tracing.SpanClaim)) == 1; got != c.kept || !c.kept && len(spans) > 0 {
				t.Fatalf("kept: %v (%d spans), want %v", got, len(spans), c.kept)
			}
			if c.kept {
				if forced := spans[0].Attributes[tracing.AttrForced] == "true"; forced == (head == "-01") {
					t.Errorf("latchkey.forced = %v with head %s", forced, head)
				}
			}
		})
	}
}

// Every attempt that did not execute links to the execution, by nothing but the
// traceparent in the receipt: made by another replica, in another process, long ago.
func TestLinksFromAStoredTraceparent(t *testing.T) {
	t.Parallel()
	to := tracingtest.Receive(t)
	first := replica(t, to, "first", 1)
	s := first.Arrive(given(yes))
	receipt := s.Reserve().Traceparent()
	s.Execute(receipt, 1, "POST", "127.0.0.1:9100").Received(504, "timeout")
	s.Answer(tracing.Outcome{Tool: "charge", Decision: "executed", Status: "unknown", Execution: receipt})
	s.Served(tracing.SpanCall, "POST", "/", 202)
	flush(t, first) // the process is gone

	other := replica(t, to, "other", 0)
	for _, d := range []string{"collapsed", "replayed", "mismatch", "step_conflict", "pending"} {
		// An agent retries within its own trace, so the trace id alone tells nothing.
		s := other.Arrive(given(no))
		s.Reserve()
		s.Answer(tracing.Outcome{Tool: "charge", Decision: d, Status: "completed", Execution: receipt})
		s.Served(tracing.SpanCall, "POST", "/", 200)
	}
	resolve := other.Arrive(nil)
	resolve.About(tracing.Outcome{Tool: "charge", Key: [32]byte{9}, Status: "completed"})
	resolve.Link(receipt)
	resolve.Link(receipt) // said twice is one link
	resolve.Served(tracing.SpanResolve, "POST", "/v1/receipts/:key/resolve", 200)
	sweep := other.Begin(tracing.SpanReconcile)
	lookup := sweep.Lookup("GET", "billing.example")
	lookup.Link(receipt)
	lookup.Received(200, "")
	sweep.Link(receipt)
	sweep.End()
	flush(t, other)

	if text := scrape(t, other.Metrics, plain); !strings.Contains(text, `latchkey_duplicates_prevented_total{how="pending",tool="charge"} 1`) {
		t.Error("a duplicate that was told to wait is not counted")
	}
	execution := one(t, to.Spans(), tracing.SpanExecute)
	if !execution.Failed || execution.Attributes[tracing.AttrErrorType] != "timeout" || execution.Attributes[tracing.AttrHTTPStatus] != "504" {
		t.Errorf("the failed execution says %+v", execution)
	}
	linking := 0
	for _, s := range to.Spans() {
		if s.Resource[tracing.AttrReplica] == "first" {
			if len(s.Links) > 0 {
				t.Errorf("%s of the execution's own call links to %v", s.Name, s.Links)
			}
			continue
		}
		linking++
		if len(s.Links) != 1 || s.Links[0].Attributes[tracing.AttrLink] != tracing.LinkExecution {
			t.Errorf("%s %s has links %v, want one to the execution", s.Name, s.Attributes[tracing.AttrDecision], s.Links)
			continue
		}
		if got, ok := to.Find(s.Links[0]); !ok || got.Name != tracing.SpanExecute {
			t.Errorf("%s %s links to %+v", s.Name, s.Attributes[tracing.AttrDecision], got)
		}
	}
	if linking != 8 {
		t.Errorf("%d spans link, want 5 calls, a resolution, a reconciliation and its lookup", linking)
	}
	if l := one(t, to.Spans(), tracing.SpanLookup); l.Attributes["server.address"] != "billing.example" || l.Attributes["server.port"] != "" {
		t.Errorf("lookup's server: %v", l.Attributes)
	}
}

// An approval executes what an agent asked for: the execution is the span that the receipt
// names, in the agent's trace, and leads to the approval.
func TestExecutionInTheReceiptsTrace(t *testing.T) {
	t.Parallel()
	to := tracingtest.Receive(t)
	tel := replica(t, to, "r", 0)
	s := tel.Arrive(nil)
	s.About(tracing.Outcome{Tool: "charge", Key: [32]byte{7}})
	x := s.Execute(yes, 1, "POST", "h:1")
	if x.Traceparent() != yes {
		t.Errorf("the execution travels as %s, want the receipt's %s", x.Traceparent(), yes)
	}
	x.Query(tracing.SystemRedis, "get").Failed(errors.New("secret detail"))
	x.Received(200, "")
	s.Served(tracing.SpanApprove, "POST", "/v1/receipts/:key/approve", 200)
	flush(t, tel)

	execute, approve := one(t, to.Spans(), tracing.SpanExecute), one(t, to.Spans(), tracing.SpanApprove)
	if execute.TraceID != traceID || execute.SpanID != callerID || execute.ParentID != "" {
		t.Errorf("execution at %s-%s under %q, want the receipt's place", execute.TraceID, execute.SpanID, execute.ParentID)
	}
	if len(execute.Links) != 1 || execute.Links[0].SpanID != approve.SpanID || execute.Links[0].TraceID != approve.TraceID {
		t.Errorf("execution links to %v, want the approval %s", execute.Links, approve.SpanID)
	}
	q := one(t, to.Spans(), "get redis")
	if q.TraceID != traceID || q.ParentID != callerID || !q.Failed || q.Attributes[tracing.AttrErrorType] != "*errors.errorString" {
		t.Errorf("query below the execution: %+v", q)
	}
}

// The caller left, the answer was given, and the effect ends later: its span is exported
// when it ends, and forgotten with the rest where the call was.
func TestSpansThatOutliveTheirCall(t *testing.T) {
	t.Parallel()
	to := tracingtest.Receive(t)
	tel := replica(t, to, "r", 0)
	s := tel.Arrive(nil)
	receipt := s.Reserve().Traceparent()
	s.Answer(tracing.Outcome{Decision: "pending", Status: "started", Execution: receipt})
	x := s.Execute(receipt, 1, "POST", "h")
	s.Served(tracing.SpanCall, "POST", "/", 202)
	s.Served(tracing.SpanCall, "POST", "/", 202)
	x.Received(200, "")
	x.Received(500, "again")
	settle := s.Start(tracing.SpanSettle)
	settle.End()

	forgotten := tel.Arrive(nil)
	y := forgotten.Start(tracing.SpanExecute)
	forgotten.Answer(tracing.Outcome{Decision: "executed", Status: "completed"})
	forgotten.Served(tracing.SpanCall, "POST", "/", 200)
	y.End()
	y.Link(receipt)
	forgotten.Start(tracing.SpanSettle).End()
	forgotten.Keep() // too late

	probe := tel.Arrive(given(yes))
	probe.Served("", "GET", "/livez", 200)
	flush(t, tel)
	spans := to.Spans()
	if len(spans) != 3 {
		t.Fatalf("%d spans, want call, execute and settle: %+v", len(spans), spans)
	}
	if e := one(t, spans, tracing.SpanExecute); e.Failed || e.ParentID != one(t, spans, tracing.SpanCall).SpanID {
		t.Errorf("the late execution: %+v", e)
	}
	if c := one(t, spans, tracing.SpanCall); len(c.Links) != 0 {
		t.Errorf("a caller that did not wait for its own execution links to it: %v", c.Links)
	}
}

// A record has a bound, whatever a call does.
func TestRecordIsBounded(t *testing.T) {
	t.Parallel()
	to := tracingtest.Receive(t)
	tel := replica(t, to, "r", 1)
	s := tel.Arrive(nil)
	for range 1000 {
		s.Query(tracing.SystemRedis, "get").Failed(nil)
	}
	s.Answer(tracing.Outcome{Decision: "executed", Execution: s.Traceparent()}) // as a read-only call's envelope has it
	s.Served("GET /v1/receipts/:key", "BREW", "/v1/receipts/:key", 500)
	flush(t, tel)
	if n := len(to.Spans()); n != 64 {
		t.Errorf("%d spans of one request, want 64", n)
	}
	if r := one(t, to.Spans(), "GET /v1/receipts/:key"); r.Attributes["http.request.method"] != "_OTHER" || !r.Failed || r.Attributes["error.type"] != "500" || len(r.Links) > 0 {
		t.Errorf("request: %+v", r)
	}
}

// Each way for a collector to be away costs spans, which are counted, and nothing else.
func TestCollectorAway(t *testing.T) {
	t.Parallel()
	hole, err := net.Listen("tcp", "127.0.0.1:0") // accepts by its backlog, never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hole.Close() })
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for _, c := range []struct{ name, protocol, endpoint string }{
		{"gone", "grpc", gone.Addr().String()}, {"gone", "http", gone.Addr().String()},
		{"silent", "grpc", hole.Addr().String()}, {"silent", "http", hole.Addr().String()},
	} {
		t.Run(c.name+" "+c.protocol, func(t *testing.T) {
			t.Parallel()
			tel := start(t, tracing.Options{Endpoint: c.endpoint, Protocol: c.protocol, Sample: 1})
			const calls, each = 3000, 9
			for range calls { // a queue that blocks would never come to its end here
				fresh(tel, nil, outcome("executed"))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			began := time.Now()
			if err := tel.Shutdown(ctx); c.name == "silent" && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("shutdown with spans left: %v", err)
			}
			if took := time.Since(began); took > 4*time.Second { // its own bound is 5 s, ours 0.1 s
				t.Errorf("shutdown took %v with 100 ms to do it", took)
			}
			fresh(tel, nil, outcome("executed")) // after the end: no panic, counted
			full, failed, waiting := tracing.Dropped(tel)
			if c.name == "silent" && full != calls*each-1<<14+each || full+failed+waiting != (calls+1)*each {
				t.Errorf("of %d spans %d had no room, %d were not taken and %d wait", (calls+1)*each, full, failed, waiting)
			}
		})
	}
}

func TestReplaysHaveALimit(t *testing.T) {
	t.Parallel()
	tel := start(t, tracing.Options{Endpoint: tracingtest.Receive(t).GRPC, Protocol: "grpc"})
	now := time.Unix(1e9, 0)
	for second := range 3 {
		kept := 0
		for range 2500 {
			if tracing.KeepsReplay(tel, now.Add(time.Duration(second)*time.Second)) {
				kept++
			}
		}
		if kept != 1000 {
			t.Errorf("second %d keeps %d replays, want 1000", second, kept)
		}
	}
	if text := scrape(t, tel.Metrics, plain); !strings.Contains(text, `latchkey_spans_dropped_total{reason="replay_limit"} 4500`) {
		t.Error("replays over the limit are not counted")
	}
}

// The caller's goroutine and the one that leads the call use one record; run with -race.
func TestTwoGoroutinesOneRecord(t *testing.T) {
	t.Parallel()
	to := tracingtest.Receive(t)
	tel := replica(t, to, "r", .5)
	var calls sync.WaitGroup
	for i := range 200 {
		calls.Go(func() {
			s := tel.Arrive(nil)
			receipt := s.Reserve().Traceparent()
			var lead sync.WaitGroup
			lead.Go(func() {
				claim := s.Start(tracing.SpanClaim)
				claim.Query(tracing.SystemRedis, "claim").Failed(nil)
				claim.End()
				x := s.Execute(receipt, 1, "POST", "h")
				x.Received(200, "")
				s.Start(tracing.SpanSettle).End()
			})
			decision := []string{"pending", "executed"}[i%2]
			s.Answer(tracing.Outcome{Tool: "charge", Decision: decision, Execution: receipt})
			s.Served(tracing.SpanCall, "POST", "/", 202)
			s.Log(t.Context(), slog.New(slog.DiscardHandler), slog.LevelInfo)
			lead.Wait()
		})
	}
	calls.Wait()
	flush(t, tel)
	trees := make(map[string]int)
	for _, s := range to.Spans() {
		trees[s.TraceID]++
	}
	whole := 0
	for _, s := range named(to.Spans(), tracing.SpanCall) {
		if s.Attributes[tracing.AttrDecision] == "pending" {
			whole++
			if n := trees[s.TraceID]; n != 5 {
				t.Errorf("a kept call has %d spans, want 5", n)
			}
		}
	}
	if whole != 100 {
		t.Errorf("%d pending calls were kept, want 100", whole)
	}
	if text := scrape(t, tel.Metrics, plain); strings.Contains(text, `latchkey_duplicates_prevented_total{how="pending",tool="charge"}`) {
		t.Error("callers that did not wait for their own execution count as duplicates")
	}
}

func TestStartRefuses(t *testing.T) {
	t.Parallel()
	nan := 0.0
	nan /= nan
	for _, o := range []tracing.Options{{Sample: -.1}, {Sample: 1.1}, {Sample: nan}, {Endpoint: "h:1", Protocol: "udp"}} {
		if tel, err := tracing.Start(t.Context(), o); err == nil {
			t.Errorf("%+v was accepted", o)
			tel.Shutdown(t.Context())
		}
	}
}
