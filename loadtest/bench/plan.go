package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/load"
)

// Plan says how much to measure.
type Plan struct {
	Scenarios []Scenario // the yardstick among them
	Requests  int        // of each measurement
	Rounds    int
	// OpenFor is how long each open run lasts; 0 leaves them out. They need FreshDurable.
	OpenFor time.Duration
	// Note is told what happens; nil: nobody.
	Note func(format string, args ...any)
}

// Run measures all rounds and makes the report. It ends with the first error.
func (b *Bench) Run(ctx context.Context, p Plan) (*Report, error) {
	if p.Note == nil {
		p.Note = func(string, ...any) {}
	}
	r := &Report{Connections: b.Connections, Requests: p.Requests, Rounds: p.Rounds, scenarios: p.Scenarios}
	for round := range p.Rounds {
		samples, err := b.round(ctx, p, round)
		if err != nil {
			return nil, err
		}
		r.Samples = append(r.Samples, samples...)
	}
	r.summarise()
	durable, ok := r.Find(FreshDurable)
	if p.OpenFor <= 0 || !ok {
		return r, nil
	}
	open, err := b.open(ctx, p, durable.Rate/10)
	r.Open = open
	return r, err
}

// round measures each scenario once, starting with another one each round, so that none is
// always the one that runs when the machine or the database is fresh.
func (b *Bench) round(ctx context.Context, p Plan, round int) ([]Sample, error) {
	turn := round % len(p.Scenarios)
	order := slices.Concat(p.Scenarios[turn:], p.Scenarios[:turn])
	var samples []Sample
	var yardstick float64
	for _, s := range order {
		sample, err := b.Measure(ctx, s, p.Requests)
		if err != nil {
			return nil, err
		}
		sample.Round = round + 1
		p.Note("round %d/%d  %-16s %7.0f requests/s  p50 %6.2f ms  p99 %6.2f ms  %6.1f µs CPU/request", round+1, p.Rounds,
			s.Name, sample.Rate, sample.P50, sample.P99, sample.Total)
		if s.Name == Yardstick {
			yardstick = sample.Total
		}
		samples = append(samples, sample)
	}
	for i := range samples {
		samples[i].Ratio = ratio(samples[i].Total, yardstick)
	}
	return samples, nil
}

// ratio is 0 where the yardstick used less than a tick: too few requests to tell.
func ratio(cpu, yardstick float64) float64 {
	if yardstick <= 0 {
		return 0
	}
	return cpu / yardstick
}

// open runs the yardstick and fresh durable calls at the same fixed rate, in turns.
func (b *Bench) open(ctx context.Context, p Plan, rate float64) (*Open, error) {
	n := max(1, int(rate*p.OpenFor.Seconds()))
	o := &Open{Rate: rate}
	all := Scenarios()
	pair := []Scenario{all[0], all[slices.IndexFunc(all, func(s Scenario) bool { return s.Name == FreshDurable })]}
	var added []float64
	for round := range p.Rounds {
		p50 := map[string]float64{}
		for _, s := range pair {
			sample, err := b.MeasureAt(ctx, s, n, rate)
			if err != nil {
				return nil, fmt.Errorf("at %.0f requests/s: %w", rate, err)
			}
			sample.Round = round + 1
			p.Note("round %d/%d  %-16s %7.0f requests/s  p50 %6.2f ms  p99 %6.2f ms  (fixed rate)", round+1, p.Rounds,
				s.Name, rate, sample.P50, sample.P99)
			o.Samples = append(o.Samples, sample)
			p50[s.Name] = sample.P50
		}
		added = append(added, p50[FreshDurable]-p50[Yardstick])
		slices.Reverse(pair)
	}
	o.AddedP50, o.Target = load.Median(added), addedP50Target
	o.Met = o.AddedP50 <= o.Target
	for _, s := range all {
		if s.Name == Yardstick || s.Name == FreshDurable {
			o.Results = append(o.Results, summary(s, o.Samples))
		}
	}
	return o, nil
}
