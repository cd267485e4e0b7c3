package tracing

import (
	"context"
	"encoding/hex"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// Outcome is what is known of a call when it is answered, in the words of the contract.
type Outcome struct {
	Key        [32]byte // of the receipt, for a conflict the earlier one's; zero: none
	Tool       string
	Class      string
	Decision   string
	Status     string // of the receipt; "" without one
	Fence      uint64
	Attempt    int
	RunID      string
	StepID     string
	Tenant     string
	Credential string // the id of the API key
	HTTPStatus int
	Code       string // of a problem
	Reason     string // a bounded word

	// Execution is the traceparent on record for the key: the span of the execution that
	// this arrival made, joined or met.
	Execution string
}

// About says what a record that is no call is about: an operator's request, a sweep.
func (s Span) About(o Outcome) {
	if s.rec == nil {
		return
	}
	s.rec.mu.Lock()
	s.rec.outcome = o
	s.rec.mu.Unlock()
}

// Answer says what became of a call: its attributes, whether it is kept, its link to the
// execution that it met, and its metrics. Once per call, before Served.
func (s Span) Answer(o Outcome) {
	r := s.rec
	if r == nil {
		return
	}
	x, found := parse(o.Execution)
	r.mu.Lock()
	r.outcome = o
	met := found && x.span != r.execution && x.span != s.span // somebody else's execution, perhaps in our own trace
	if e := r.at(s); e != nil {
		r.keep = r.keep || keeps(o) && (o.Decision != "replayed" || r.tel.queue.replay(time.Now()))
		if met {
			e.link(x)
		}
	}
	ctx := r.exemplar()
	r.mu.Unlock()
	m := r.tel.Metrics
	m.attempt(ctx, o.Tool, o.Decision, time.Since(r.began))
	if met && o.Decision == "pending" {
		m.duplicate(ctx, o.Tool, o.Decision)
	}
}

// keeps says whether a call's spans are kept whatever the head sampler said.
func keeps(o Outcome) bool {
	switch o.Decision {
	case "collapsed", "replayed", "mismatch", "step_conflict", "pending":
		return true
	}
	return o.Status == "unknown" || o.Code == "internal"
}

// Served ends a request. name is SpanCall; or the Span constant of a person's decision,
// which is always kept; or "METHOD route" for anything else; or "" to forget it (probes,
// scrapes). route is the matched pattern.
func (s Span) Served(name, method, route string, status int) {
	r := s.rec
	if r == nil || !r.tel.exports() {
		return
	}
	r.mu.Lock()
	if e := r.at(s); e != nil {
		e.name, e.a, e.b = name, knownMethod(method), route
	}
	switch {
	case name == "":
		r.keep = false
	case name != SpanCall && strings.HasPrefix(name, "latchkey."):
		r.keep = true
	}
	r.mu.Unlock()
	failed := ""
	if status >= 500 {
		failed = strconv.Itoa(status)
	}
	s.end(status, failed)
}

func knownMethod(m string) string {
	switch m {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE":
		return m
	}
	return "_OTHER"
}

// Log writes the canonical line of a call that has been answered.
func (s Span) Log(ctx context.Context, log *slog.Logger, level slog.Level) {
	r := s.rec
	if r == nil || !log.Enabled(ctx, level) {
		return
	}
	r.mu.Lock()
	o := r.outcome
	r.mu.Unlock()
	attrs := make([]slog.Attr, 0, 24)
	text := func(name, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(name, value))
		}
	}
	text(LogTool, r.tel.Metrics.known(o.Tool))
	text(LogClass, o.Class)
	text(LogDecision, o.Decision)
	text(LogStatus, o.Status)
	attrs = append(attrs, slog.Int(LogHTTPStatus, o.HTTPStatus))
	text(LogCode, o.Code)
	text(LogReason, o.Reason)
	if o.Key != [32]byte{} {
		attrs = append(attrs, slog.String(LogKey, hex.EncodeToString(o.Key[:4])))
	}
	if o.Fence > 0 {
		attrs = append(attrs, slog.Uint64(LogFence, o.Fence))
	}
	if o.Attempt > 0 {
		attrs = append(attrs, slog.Int(LogAttempt, o.Attempt))
	}
	text(LogRunID, o.RunID)
	text(LogStepID, o.StepID)
	text(LogTenant, o.Tenant)
	text(LogCredential, o.Credential)
	attrs = append(attrs, slog.String(LogTraceID, s.TraceID()), slog.String(LogSpanID, s.SpanID()))
	if x, ok := parse(o.Execution); ok {
		attrs = append(attrs, slog.String(LogExecution, x.TraceID()))
	}
	attrs = append(attrs, slog.Float64(LogDuration, millis(time.Since(r.began))))
	took := make([]any, 0, steps)
	for i := claim; i < steps; i++ {
		if d := r.took[i].Load(); d > 0 {
			took = append(took, slog.Float64(stepNames[i], millis(time.Duration(d))))
		}
	}
	if len(took) > 0 {
		attrs = append(attrs, slog.Group(LogSteps, took...))
	}
	log.LogAttrs(ctx, level, LogLine, attrs...)
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
