package tracing_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/tracing"
	"github.com/latchkey-gateway/latchkey/tracing/tracingtest"
)

// fresh is what a fresh durable call does to its span.
func fresh(t *tracing.Telemetry, h http.Header, o tracing.Outcome) {
	s := t.Arrive(h)
	receipt := s.Reserve().Traceparent()
	claim := s.Start(tracing.SpanClaim)
	claim.Query(tracing.SystemRedis, "claim").Failed(nil)
	claim.End()
	begin := s.Start(tracing.SpanBegin)
	begin.Query(tracing.SystemPostgreSQL, "begin").Failed(nil)
	begin.End()
	s.Execute(receipt, 1, "POST", "127.0.0.1:9100").Received(200, "")
	settle := s.Start(tracing.SpanSettle)
	settle.Query(tracing.SystemPostgreSQL, "settle").Failed(nil)
	settle.Query(tracing.SystemRedis, "settle").Failed(nil)
	settle.End()
	o.Execution = receipt
	s.Answer(o)
	s.Served(tracing.SpanCall, "POST", "/v1/tools/:tool/calls", 200)
}

func outcome(decision string) tracing.Outcome {
	return tracing.Outcome{Key: [32]byte{1, 2, 3}, Tool: "send_email", Class: "effectful", Decision: decision, Status: "completed",
		Fence: 1, Attempt: 1, RunID: "run-42", StepID: "7", Tenant: "acme", Credential: "fleet-a", HTTPStatus: 200}
}

func start(t testing.TB, o tracing.Options) *tracing.Telemetry {
	t.Helper()
	o.Tools, o.Downstreams = append(o.Tools, "send_email", "charge"), append(o.Downstreams, "billing")
	o.Insecure = true
	tel, err := tracing.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tel.Shutdown(context.Background()) })
	return tel
}

// BenchmarkCall is all that tracing, step and call metrics cost a fresh call of nine spans.
func BenchmarkCall(b *testing.B) {
	unsampled := http.Header{"Traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"}}
	to := tracingtest.Receive(b)
	for _, c := range []struct {
		name string
		o    tracing.Options
		h    http.Header
	}{
		{"off", tracing.Options{Sample: 1}, nil},
		{"unsampled", tracing.Options{Endpoint: to.GRPC, Protocol: "grpc"}, unsampled},
		{"one in a hundred", tracing.Options{Endpoint: to.GRPC, Protocol: "grpc", Sample: .01}, nil},
		{"all", tracing.Options{Endpoint: to.GRPC, Protocol: "grpc", Sample: 1}, nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			t := start(b, c.o)
			o := outcome("executed")
			b.ReportAllocs()
			for b.Loop() {
				fresh(t, c.h, o)
			}
		})
	}
	b.Run("no telemetry", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			fresh(nil, unsampled, outcome("executed"))
		}
	})
}

// BenchmarkReplay is a replay from the near cache, which is kept whatever the sampler says.
func BenchmarkReplay(b *testing.B) {
	to := tracingtest.Receive(b)
	for _, c := range []struct {
		name string
		o    tracing.Options
	}{
		{"off", tracing.Options{Sample: 1}},
		{"kept", tracing.Options{Endpoint: to.GRPC, Protocol: "grpc"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			t, o := start(b, c.o), outcome("replayed")
			o.Execution = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
			b.ReportAllocs()
			for b.Loop() {
				s := t.Arrive(nil)
				s.Answer(o)
				s.Served(tracing.SpanCall, "POST", "/v1/tools/:tool/calls", 200)
			}
		})
	}
}

func BenchmarkMetrics(b *testing.B) {
	m := start(b, tracing.Options{}).Metrics
	b.Run("Attempt", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.Attempt("send_email", "replayed", time.Millisecond)
		}
	})
	b.Run("Executed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.Executed("send_email", "completed")
		}
	})
	b.Run("UnknownSettled", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.UnknownSettled("send_email", "lookup", "completed", time.Minute)
		}
	})
}

func BenchmarkLog(b *testing.B) {
	s := start(b, tracing.Options{}).Arrive(nil)
	s.Answer(outcome("executed"))
	log := slog.New(slog.NewJSONHandler(io.Discard, nil))
	b.ReportAllocs()
	for b.Loop() {
		s.Log(b.Context(), log, slog.LevelInfo)
	}
}
