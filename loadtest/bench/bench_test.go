package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func newBench(t *testing.T, s *standIn) *Bench {
	b := &Bench{Stack: s.stack(t), Connections: 8, Warmup: 20, Timeout: time.Minute, window: time.Millisecond}
	b.Stack.Counters = map[string]Counter{
		CountRedisCommands: func(context.Context) (int64, error) { return s.commands.Load(), nil },
	}
	return b
}

func TestAllScenarios(t *testing.T) {
	t.Parallel()
	s := newStandIn()
	b := newBench(t, s)
	var notes atomic.Int64
	report, err := b.Run(t.Context(), Plan{Scenarios: Scenarios(), Requests: 50, Rounds: 3, OpenFor: 10 * time.Millisecond,
		Note: func(string, ...any) { notes.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		cpu, ratio, commands float64
		met                  bool
	}{
		Yardstick:         {10, 1, 0, true},
		FreshDurable:      {20, 2, 2, true},
		"fresh-hot":       {20, 2, 2, false}, // the target is 1.5
		"cached-replay":   {4, 0.4, 0, true},
		"uncached-replay": {30, 3, 1, false},
	} {
		got, ok := report.Find(name)
		if !ok {
			t.Errorf("%s is missing", name)
			continue
		}
		if !near(got.Total, want.cpu) || !near(got.Ratio, want.ratio) || !near(got.Counts[CountRedisCommands], want.commands) || got.Met != want.met || got.Requests != 150 {
			t.Errorf("%s: CPU %v, ratio %v, commands %v, met %v, %d requests; want %+v of 150 requests",
				name, got.Total, got.Ratio, got.Counts[CountRedisCommands], got.Met, got.Requests, want)
		}
		if got.Rate <= 0 || got.P50 <= 0 || got.P99 < got.P50 || got.P999 < got.P99 {
			t.Errorf("%s: %+v", name, got.Sample)
		}
	}
	if len(report.Samples) != 15 || len(report.Warnings) != 0 {
		t.Errorf("%d samples, warnings %q", len(report.Samples), report.Warnings)
	}
	durable, _ := report.Find(FreshDurable)
	if o := report.Open; o == nil || len(o.Samples) != 6 || !near(o.Rate, durable.Rate/10) {
		t.Errorf("open: %+v; want 6 samples at a tenth of %v", o, durable.Rate)
	}
	if notes.Load() != 21 {
		t.Errorf("%d notes, want one a measurement", notes.Load())
	}
	// Effects: bare, durable and hot calls, keys for replays, and warm-up, all at once.
	if err := b.verify(t.Context(), Scenario{}); err != nil {
		t.Error(err)
	}
	if _, err := json.Marshal(report); err != nil {
		t.Error(err)
	}
	text := report.Markdown()
	for _, want := range []string{"| bare `httputil.ReverseProxy` |", "| 2.00 | ≤ 2.5 | yes |", "| 2.00 | ≤ 1.5 | **no** |", "Added p50 of a fresh durable call"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
}

func near(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 }

// A gateway that is wrong has no numbers.
func TestAWrongGatewayFailsTheRun(t *testing.T) {
	t.Parallel()
	first := func(n int) bool { return n == 1 }
	always := func(int) bool { return true }
	for name, tc := range map[string]struct {
		spoil    func(*standIn)
		scenario string
		effects  bool // an EffectsError
		want     string
	}{
		"acts twice":              {func(s *standIn) { s.actTwice = first }, FreshDurable, true, "70 fresh calls of effect made 71 effects for 70 intentions"},
		"acts twice, hot":         {func(s *standIn) { s.actTwice = first }, "fresh-hot", true, "70 fresh calls of effect_hot made 71 effects"},
		"loses an effect":         {func(s *standIn) { s.actNot = first }, FreshDurable, true, "made 69 effects for 69 intentions"},
		"a cached replay acts":    {func(s *standIn) { s.actAgain = func(n int) bool { return n == 40 } }, "cached-replay", true, "16 fresh calls of effect made 17 effects for 16 intentions"},
		"an uncached replay acts": {func(s *standIn) { s.actAgain = func(n int) bool { return n == 100 } }, "uncached-replay", true, "70 fresh calls of effect made 71 effects"},
		"refuses one call":        {func(s *standIn) { s.refuse = func(n int) bool { return n == 60 } }, FreshDurable, false, "status 503: not sent"},
		"refuses in the warm-up":  {func(s *standIn) { s.refuse = first }, FreshDurable, false, "status 503: not sent"},
		"a replay is none":        {func(s *standIn) { s.denyReplay = always }, "uncached-replay", false, `Idempotent-Replayed is "false", want "true"`},
		"knows what is fresh":     {func(s *standIn) { s.calls["effect/bench-fresh-durable-1/000000003"] = &standInCall{} }, FreshDurable, false, `Idempotent-Replayed is "true", want "false"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStandIn()
			tc.spoil(s)
			scenarios, err := Select([]string{tc.scenario})
			if err != nil {
				t.Fatal(err)
			}
			_, err = newBench(t, s).Measure(t.Context(), scenarios[1], 50)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), tc.scenario+": ") {
				t.Fatalf("error %v, want %q", err, tc.want)
			}
			if _, ok := errors.AsType[*EffectsError](err); ok != tc.effects {
				t.Errorf("an EffectsError: %v, want %v", ok, tc.effects)
			}
		})
	}
}

func TestDoubts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		replay   replay
		ratio    float64
		commands float64
		counted  bool
		want     string
	}{
		"fresh":                      {fresh, 2, 2, true, ""},
		"cached":                     {cached, 0.4, 0, true, ""},
		"cached, but asks Redis":     {cached, 0.4, 1, true, "did not come from the near cache"},
		"uncached":                   {uncached, 0.9, 1, true, ""},
		"uncached, but asks nobody":  {uncached, 0.9, 0, true, "came from the near cache"},
		"uncached, Redis not looked": {uncached, 0.9, 0, false, ""},
		"too short":                  {fresh, 0, 2, true, "too few requests"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := Result{Sample: Sample{Ratio: tc.ratio, Counts: map[string]float64{}}}
			if tc.counted {
				r.Counts[CountRedisCommands] = tc.commands
			}
			got := strings.Join(doubts(Scenario{Name: "x", Replay: tc.replay}, r), "; ")
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("doubts %q, want %q", got, tc.want)
			}
		})
	}
}

// The ratio is the median of each round's ratio, not the ratio of medians: here the second
// round ran at half speed throughout, which must not show.
func TestRatioIsTakenWithinARound(t *testing.T) {
	t.Parallel()
	s := Scenario{Name: "x", Target: 2}
	var samples []Sample
	for _, total := range []struct{ cpu, yardstick float64 }{{20, 10}, {40, 20}, {21, 10}} {
		samples = append(samples, Sample{Scenario: "x", Total: total.cpu, Ratio: ratio(total.cpu, total.yardstick), CPU: map[string]float64{}})
	}
	r := summary(s, samples)
	if r.Ratio != 2 || r.Total != 21 || !r.Met {
		t.Errorf("ratio %v, CPU %v, met %v", r.Ratio, r.Total, r.Met)
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		names []string
		want  string
	}{
		{nil, "bare-proxy fresh-durable fresh-hot cached-replay uncached-replay"},
		{[]string{"uncached-replay", "fresh-hot"}, "bare-proxy fresh-hot uncached-replay"},
		{[]string{"bare-proxy"}, "bare-proxy"},
	} {
		scenarios, err := Select(tc.names)
		var got []string
		for _, s := range scenarios {
			got = append(got, s.Name)
		}
		if err != nil || strings.Join(got, " ") != tc.want {
			t.Errorf("Select(%v) = %v, %v", tc.names, got, err)
		}
	}
	if _, err := Select([]string{"fresh"}); err == nil || !strings.Contains(err.Error(), "fresh-durable") {
		t.Errorf("an unknown scenario: %v", err)
	}
}

func TestRequest(t *testing.T) {
	t.Parallel()
	r := callRequest("127.0.0.1:1", "k", "effect", "run-1")
	if len(r.at) != 2 {
		t.Fatalf("the number stands in %d places, want step and ref", len(r.at))
	}
	for _, seq := range []int{0, 7, 123456789} {
		text := string(r.append([]byte("before"), seq))
		head, body, _ := strings.Cut(strings.TrimPrefix(text, "before"), "\r\n\r\n")
		if !strings.HasSuffix(head, fmt.Sprintf("\r\nContent-Length: %d", len(body))) {
			t.Errorf("the length of %d bytes is wrong in %q", len(body), head)
		}
		var call struct {
			Run  string `json:"run_id"`
			Step string `json:"step_id"`
			Args struct {
				Ref string `json:"ref"`
			} `json:"args"`
		}
		if err := json.Unmarshal([]byte(body), &call); err != nil {
			t.Fatal(err)
		}
		step := fmt.Sprintf("%09d", seq)
		if call.Run != "run-1" || call.Step != step || call.Args.Ref != "run-1-"+step {
			t.Errorf("request %d is %+v", seq, call)
		}
	}
	if strings.Contains(string(r.text), "000000007") {
		t.Error("append changed the template")
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	b := newBench(t, newStandIn())
	b.Timeout = time.Nanosecond
	if _, err := b.Measure(t.Context(), Scenarios()[0], 50); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want DeadlineExceeded", err)
	}
}

func TestMeterFails(t *testing.T) {
	t.Parallel()
	b := newBench(t, newStandIn())
	gone := errors.New("process is gone")
	b.Stack.Meters[PartRedis] = func() (time.Duration, error) { return 0, gone }
	if _, err := b.Measure(t.Context(), Scenarios()[0], 50); !errors.Is(err, gone) {
		t.Errorf("error %v, want %v", err, gone)
	}
}
