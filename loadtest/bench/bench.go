package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/load"
	"github.com/latchkey-gateway/latchkey/loadtest/rig"
	"github.com/latchkey-gateway/latchkey/loadtest/target"
)

// Meter tells how much CPU time something has used since it started.
type Meter func() (time.Duration, error)

// Counter tells how often something has happened since it started.
type Counter func(context.Context) (int64, error)

// Stack is what is measured: addresses are host:port.
type Stack struct {
	Downstream string
	Proxy      string
	First      string // the measured replica
	Second     string // completes the keys of uncached replays
	Key        string // bearer key of an agent
	Meters     map[string]Meter
	// Counters count what the measured replica asked of others, by name.
	Counters map[string]Counter
}

// Bench measures one stack. It keeps the tally of what the downstream's ledger must show,
// so nothing else may call the stack meanwhile. Not for concurrent use.
type Bench struct {
	Stack       Stack
	Connections int
	Warmup      int           // requests before each measurement
	Timeout     time.Duration // of one measurement, after which it fails
	// Sending and Sent are called right before the requests to be measured are sent and right
	// after the last was answered; nil: not.
	Sending, Sent func()

	measured int            // names the runs
	expected map[string]int // effects that must have happened, by source
	window   time.Duration  // 0: quietWindow
}

// Sample is one measurement.
type Sample struct {
	Scenario string  `json:"scenario"`
	Round    int     `json:"round"`
	Requests int     `json:"requests"`
	Rate     float64 `json:"requests_per_second"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	P999     float64 `json:"p999_ms"`
	// CPU is in microseconds per request, by part; Total sums the parts that count.
	CPU   map[string]float64 `json:"cpu_us_by_part"`
	Total float64            `json:"cpu_us"`
	// Ratio is Total over the yardstick's in the same round.
	Ratio float64 `json:"ratio"`
	// Counts are per request, by counter.
	Counts map[string]float64 `json:"counts"`
}

// EffectsError says that the downstream's ledger does not show exactly one effect for each
// fresh call.
type EffectsError struct {
	Scenario, Source string
	Want             int
	Got              target.Count
}

func (e *EffectsError) Error() string {
	return fmt.Sprintf("%s: the promise is broken: %d fresh calls of %s made %d effects for %d intentions",
		e.Scenario, e.Want, e.Source, e.Got.Effects, e.Got.Refs)
}

// Measure sends n requests of a scenario in the closed model.
func (b *Bench) Measure(ctx context.Context, s Scenario, n int) (Sample, error) {
	return b.measure(ctx, s, n, func(p *load.Pool, t load.Traffic) (load.Result, error) {
		return p.Closed(ctx, t, b.Warmup, n)
	})
}

// MeasureAt sends n requests of a scenario at a fixed rate per second.
func (b *Bench) MeasureAt(ctx context.Context, s Scenario, n int, rate float64) (Sample, error) {
	return b.measure(ctx, s, n, func(p *load.Pool, t load.Traffic) (load.Result, error) {
		return p.Open(ctx, t, b.Warmup, n, rate)
	})
}

func (b *Bench) measure(ctx context.Context, s Scenario, n int, send func(*load.Pool, load.Traffic) (load.Result, error)) (Sample, error) {
	sample, err := b.attempt(ctx, s, n, send)
	if err != nil {
		err = fmt.Errorf("%s: %w", s.Name, err)
	}
	return sample, err
}

func (b *Bench) attempt(ctx context.Context, s Scenario, n int, send func(*load.Pool, load.Traffic) (load.Result, error)) (Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, b.Timeout)
	defer cancel()
	b.measured++
	run := fmt.Sprintf("bench-%s-%d", s.Name, b.measured)
	sample := Sample{Scenario: s.Name, Requests: n}

	if err := b.prepare(ctx, s, run, n+b.Warmup); err != nil {
		return sample, err
	}
	addr, traffic := b.traffic(s, run)
	pool, err := load.Dial(ctx, addr, b.Connections)
	if err != nil {
		return sample, err
	}
	defer pool.Close()
	if s.Replay == fresh {
		b.expect(s.source(), b.Warmup+n)
	}
	if _, err := pool.Closed(ctx, traffic, 0, b.Warmup); err != nil {
		return sample, err
	}
	// Counting costs the servers something, so it lies outside of what the meters see.
	counted, err := b.counts(ctx)
	if err != nil {
		return sample, err
	}
	before, err := b.quiet(ctx)
	if err != nil {
		return sample, err
	}
	call(b.Sending)
	res, err := send(pool, traffic)
	call(b.Sent)
	if err != nil {
		return sample, err
	}
	after, err := b.quiet(ctx)
	if err != nil {
		return sample, err
	}
	recounted, err := b.counts(ctx)
	if err != nil {
		return sample, err
	}
	sample.fill(s, res, before, after)
	sample.Counts = map[string]float64{}
	for name, count := range recounted {
		sample.Counts[name] = float64(count-counted[name]) / float64(n)
	}
	return sample, b.verify(ctx, s)
}

func call(hook func()) {
	if hook != nil {
		hook()
	}
}

func (s *Sample) fill(sc Scenario, res load.Result, before, after map[string]time.Duration) {
	ms := func(p float64) float64 { return res.Latency.Percentile(p).Seconds() * 1e3 }
	s.Rate, s.P50, s.P99, s.P999 = res.Rate(), ms(50), ms(99), ms(99.9)
	s.CPU = map[string]float64{}
	for part, used := range after {
		s.CPU[part] = (used - before[part]).Seconds() * 1e6 / float64(s.Requests)
	}
	for _, part := range sc.Parts {
		s.Total += s.CPU[part]
	}
}

// prepare completes the n keys that a replay will ask for; cached replays need only a few.
func (b *Bench) prepare(ctx context.Context, s Scenario, run string, n int) error {
	addr := b.Stack.First
	switch s.Replay {
	case fresh:
		return nil
	case cached:
		n = min(n, cachedKeys)
	case uncached:
		addr = b.Stack.Second
	}
	pool, err := load.Dial(ctx, addr, b.Connections)
	if err != nil {
		return err
	}
	defer pool.Close()
	b.expect(s.source(), n)
	req := callRequest(addr, b.Stack.Key, s.Tool, run)
	if _, err := pool.Closed(ctx, load.Traffic{Request: req.append, Replayed: "false"}, 0, n); err != nil {
		return fmt.Errorf("completing the keys to be replayed: %w", err)
	}
	return b.verify(ctx, s)
}

func (b *Bench) traffic(s Scenario, run string) (addr string, t load.Traffic) {
	if s.Tool == "" {
		return b.Stack.Proxy, load.Traffic{Request: bareRequest(b.Stack.Proxy, run).append}
	}
	req := callRequest(b.Stack.First, b.Stack.Key, s.Tool, run)
	t = load.Traffic{Request: req.append, Replayed: "true"}
	switch s.Replay {
	case fresh:
		t.Replayed = "false"
	case cached:
		t.Request = func(dst []byte, seq int) []byte { return req.append(dst, seq%cachedKeys) }
	}
	return b.Stack.First, t
}

func (b *Bench) expect(source string, n int) {
	if b.expected == nil {
		b.expected = map[string]int{}
	}
	b.expected[source] += n
}

// verify compares the downstream's ledger with all fresh calls made so far.
func (b *Bench) verify(ctx context.Context, s Scenario) error {
	text, err := rig.Get(ctx, "http://"+b.Stack.Downstream+"/counts", "")
	if err != nil {
		return err
	}
	var counts map[string]target.Count
	if err := json.Unmarshal(text, &counts); err != nil {
		return fmt.Errorf("the downstream's ledger: %w", err)
	}
	var errs []error
	for source, want := range b.expected {
		if got := counts[source]; got != (target.Count{Effects: want, Refs: want}) {
			errs = append(errs, &EffectsError{s.Name, source, want, got})
		}
	}
	return errors.Join(errs...)
}
