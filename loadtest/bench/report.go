package bench

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/latchkey-gateway/latchkey/loadtest/load"
)

// addedP50Target is in milliseconds.
const addedP50Target = 3

// Report is what a run measured; its JSON form is what --out writes.
type Report struct {
	Machine     map[string]string `json:"machine,omitempty"`
	Connections int               `json:"connections"`
	Requests    int               `json:"requests"`
	Rounds      int               `json:"rounds"`
	Results     []Result          `json:"results"`
	Open        *Open             `json:"open,omitempty"`
	Warnings    []string          `json:"warnings"`
	Samples     []Sample          `json:"samples"`

	scenarios []Scenario
}

// Result is a scenario's median over the rounds; Ratio is the median of the rounds' ratios.
type Result struct {
	Sample
	Title  string   `json:"title"`
	Parts  []string `json:"parts"`
	Target float64  `json:"target,omitempty"`
	Met    bool     `json:"met"`
}

// Open holds the runs at a fixed rate, a tenth of fresh durable's saturation rate.
type Open struct {
	Rate     float64  `json:"requests_per_second"`
	AddedP50 float64  `json:"added_p50_ms"` // median over the rounds of fresh durable's less the yardstick's
	Target   float64  `json:"target_ms"`
	Met      bool     `json:"met"`
	Results  []Result `json:"results"`
	Samples  []Sample `json:"samples"`
}

func (r *Report) summarise() {
	r.Results, r.Warnings = nil, []string{}
	for _, s := range r.scenarios {
		res := summary(s, r.Samples)
		r.Results = append(r.Results, res)
		r.Warnings = append(r.Warnings, doubts(s, res)...)
	}
}

func summary(s Scenario, samples []Sample) Result {
	var own []Sample
	for _, sample := range samples {
		if sample.Scenario == s.Name {
			own = append(own, sample)
		}
	}
	median := func(field func(Sample) float64) float64 {
		values := make([]float64, len(own))
		for i, sample := range own {
			values[i] = field(sample)
		}
		return load.Median(values)
	}
	res := Result{Title: s.Title, Parts: s.Parts, Target: s.Target, Sample: Sample{
		Scenario: s.Name, CPU: map[string]float64{}, Counts: map[string]float64{},
		Rate: median(func(s Sample) float64 { return s.Rate }),
		P50:  median(func(s Sample) float64 { return s.P50 }),
		P99:  median(func(s Sample) float64 { return s.P99 }),
		P999: median(func(s Sample) float64 { return s.P999 }), Total: median(func(s Sample) float64 { return s.Total }),
		Ratio: median(func(s Sample) float64 { return s.Ratio }),
	}}
	for _, sample := range own {
		res.Requests += sample.Requests
		for part := range sample.CPU {
			res.CPU[part] = median(func(s Sample) float64 { return s.CPU[part] })
		}
		for name := range sample.Counts {
			res.Counts[name] = median(func(s Sample) float64 { return s.Counts[name] })
		}
	}
	res.Met = s.Target == 0 || res.Ratio > 0 && res.Ratio <= s.Target
	return res
}

// doubts says where a result may not be what its title says.
func doubts(s Scenario, r Result) []string {
	var w []string
	if r.Ratio == 0 {
		w = append(w, fmt.Sprintf("%s: too few requests to tell CPU time apart from the clock tick", s.Name))
	}
	commands, counted := r.Counts[CountRedisCommands]
	switch {
	case !counted:
	case s.Replay == cached && commands > 0.5:
		w = append(w, fmt.Sprintf("%s: %.2f Redis commands a call: these replays did not come from the near cache", s.Name, commands))
	case s.Replay == uncached && commands < 0.5:
		w = append(w, fmt.Sprintf("%s: %.2f Redis commands a call: these replays came from the near cache", s.Name, commands))
	}
	return w
}

// Find returns the result of a scenario by its name.
func (r *Report) Find(name string) (Result, bool) {
	i := slices.IndexFunc(r.Results, func(res Result) bool { return res.Scenario == name })
	if i < 0 {
		return Result{}, false
	}
	return r.Results[i], true
}

// Markdown renders the report.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Closed model: %d connections, %d requests a measurement, medians of %d rounds.\n\n", r.Connections, r.Requests, r.Rounds)
	b.WriteString("| scenario | requests/s | p50 ms | p99 ms | p99.9 ms | CPU µs/request | gateway | Redis | PostgreSQL | × bare | target | met |\n")
	b.WriteString("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|\n")
	for _, res := range r.Results {
		fmt.Fprintf(&b, "| %s | %.0f | %.2f | %.2f | %.2f | %.1f | %s | %s | %s | %.2f | %s | %s |\n", res.Title, res.Rate, res.P50,
			res.P99, res.P999, res.Total, partText(res, PartGateway), partText(res, PartRedis), partText(res, PartPostgres), res.Ratio,
			targetText(res), metText(res.Target, res.Met))
	}
	b.WriteString("\nBeside it, not counted:\n\n| scenario | load generator µs | downstream µs | Redis commands a call | Redis reads a call | writing transactions a call |\n|---|--:|--:|--:|--:|--:|\n")
	for _, res := range r.Results {
		fmt.Fprintf(&b, "| %s | %.1f | %.1f | %.2f | %.3f | %.3f |\n", res.Title, res.CPU[PartLoad], res.CPU[PartDownstream],
			res.Counts[CountRedisCommands], res.Counts[CountRedisReads], res.Counts[CountPostgresTransactions])
	}
	if o := r.Open; o != nil {
		fmt.Fprintf(&b, "\nOpen model: %.0f requests/s, a tenth of the saturation rate of fresh durable calls; latency counts from when a request was due.\n\n", o.Rate)
		b.WriteString("| scenario | p50 ms | p99 ms | p99.9 ms |\n|---|--:|--:|--:|\n")
		for _, res := range o.Results {
			fmt.Fprintf(&b, "| %s | %.2f | %.2f | %.2f |\n", res.Title, res.P50, res.P99, res.P999)
		}
		fmt.Fprintf(&b, "\nAdded p50 of a fresh durable call: %.2f ms; target ≤ %.0f ms: %s.\n", o.AddedP50, o.Target, metText(o.Target, o.Met))
	}
	if len(r.Machine) > 0 {
		b.WriteString("\nMachine:")
		for _, name := range slices.Sorted(maps.Keys(r.Machine)) {
			fmt.Fprintf(&b, " %s %s;", name, r.Machine[name])
		}
		b.WriteString("\n")
	}
	b.WriteString("\nThe downstream's ledger shows exactly one effect for each fresh call and none for replays; no request failed.\n")
	for _, w := range r.Warnings {
		fmt.Fprintf(&b, "\nWarning: %s.\n", w)
	}
	return b.String()
}

func partText(r Result, name string) string {
	if !slices.Contains(r.Parts, name) {
		return ""
	}
	return fmt.Sprintf("%.1f", r.CPU[name])
}

func targetText(r Result) string {
	if r.Target == 0 {
		return ""
	}
	return fmt.Sprintf("≤ %.1f", r.Target)
}

func metText(target float64, ok bool) string {
	switch {
	case target == 0:
		return ""
	case ok:
		return "yes"
	}
	return "**no**"
}
