package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/bench"
	"github.com/latchkey-gateway/latchkey/loadtest/rig"
)

// The rig starts copies of this program: of the test program while testing.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{roleDownstream, roleProxy, roleProvider}, os.Args[1]) {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// needServers skips where a server's program is missing, and says which.
func needServers(tb testing.TB) {
	tb.Helper()
	_, redis := rig.RedisServer()
	_, postgres := rig.PostgresBin()
	if err := errors.Join(redis, postgres); errors.Is(err, rig.ErrMissing) {
		tb.Skipf("this needs redis-server and PostgreSQL's server programs: %v", err)
	}
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		tb.Skip("CPU time is measured on Linux only")
	}
}

// BenchmarkCalls measures each scenario over 64 connections against one stack. ns/op is
// wall time; cpu-µs/op is what gateway, Redis and PostgreSQL used, ratio is that over the
// bare proxy's. The yardstick runs first, so a -bench filter must let it through for the
// ratios to appear. `go run ./loadtest bench` measures better: in rounds, with medians.
func BenchmarkCalls(b *testing.B) {
	needServers(b)
	r, err := rig.New(false)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := r.Close(); err != nil {
			b.Error(err)
		}
	})
	const connections = 64
	s, err := startStack(b.Context(), r, stackOptions{connections: connections})
	if err != nil {
		b.Fatal(err)
	}
	m := &bench.Bench{Stack: s.Stack, Connections: connections, Warmup: 500, Timeout: 5 * time.Minute}
	var yardstick float64
	for _, sc := range bench.Scenarios() {
		b.Run(sc.Name, func(b *testing.B) {
			m.Sending, m.Sent = b.ResetTimer, b.StopTimer
			sample, err := m.Measure(b.Context(), sc, b.N)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(sample.Rate, "requests/s")
			b.ReportMetric(sample.P50, "p50-ms")
			b.ReportMetric(sample.P99, "p99-ms")
			b.ReportMetric(sample.Total, "cpu-µs/op")
			if sc.Name == bench.Yardstick {
				yardstick = sample.Total
			} else if yardstick > 0 {
				b.ReportMetric(sample.Total/yardstick, "ratio")
			}
		})
	}
}

// The whole command against the real binary and servers, small: it shows that the config
// still loads, that every scenario still means what it says, and that everything ends.
func TestBenchCommand(t *testing.T) {
	needServers(t)
	if testing.Short() {
		t.Skip("builds and starts a whole stack")
	}
	t.Setenv("TMPDIR", readable(t)) // the rig's directory, and not another run's
	out := filepath.Join(t.TempDir(), "report.json")
	var text, notes bytes.Buffer
	err := runBench(t.Context(), benchFlags{
		stackOptions: stackOptions{connections: 8}, requests: 50, warmup: 20, rounds: 1,
		openFor: 100 * time.Millisecond, timeout: time.Minute, out: out,
	}, &text, &notes)
	if err != nil {
		t.Fatalf("%v\n%s", err, notes.String())
	}
	for _, s := range bench.Scenarios() {
		if !strings.Contains(text.String(), "| "+s.Title+" |") {
			t.Errorf("the table lacks %s:\n%s", s.Title, text.String())
		}
	}
	var report bench.Report
	if raw, err := os.ReadFile(out); err != nil {
		t.Error(err)
	} else if err := json.Unmarshal(raw, &report); err != nil || len(report.Results) != 5 || report.Open == nil || report.Machine["redis"] == "" {
		t.Errorf("the report: %v, %s", err, raw)
	}
	for _, w := range report.Warnings {
		if strings.Contains(w, "near cache") { // the runs are too short for the other warnings
			t.Error(w)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "latchkey-loadtest-*")); len(left) != 0 {
		t.Errorf("%q is left", left)
	}
}

// readable returns a directory of the test's own through which PostgreSQL's user gets.
func readable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "loadtest-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"bench", "--connections", "0"}, {"bench", "--requests", "-1"}, {"bench", "--rounds", "0"}, {"bench", "--warmup", "-1"},
		{"bench", "--scenarios", "fresh"}, {"bench", "surplus"}, {"proxy"}, {"nothing"},
	} {
		if err := execute(args); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}

// A run that is told to end ends everything it started.
func TestCancelledRunCleansUp(t *testing.T) {
	needServers(t)
	dir := readable(t)
	t.Setenv("TMPDIR", dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := runBench(ctx, benchFlags{stackOptions: stackOptions{connections: 1, latchkey: "/bin/false"}, requests: 1, rounds: 1, timeout: time.Minute},
		&bytes.Buffer{}, &bytes.Buffer{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want canceled", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}
