package k6run

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
)

// kind of a metric; the zero value is none.
type kind int

const (
	counter kind = iota + 1 // adds up
	rate                    // share of non-zero values
	trend                   // statistics over the values
)

func (k kind) String() string { return [...]string{"invalid", "counter", "rate", "trend"}[k] }

type sample struct {
	value float64
	tags  map[string]string
}

type metric struct {
	kind    kind
	samples []sample
}

// registry holds all samples of a run: a reduced run has few. Several VUs write to it.
type registry struct {
	mu      sync.Mutex
	metrics map[string]*metric
}

func newRegistry() *registry {
	return &registry{metrics: map[string]*metric{
		"checks": {kind: rate}, "http_reqs": {kind: counter}, "http_req_duration": {kind: trend}, "http_req_failed": {kind: rate},
		"iterations": {kind: counter}, "iteration_duration": {kind: trend},
		// The stand-in drops none.
		"dropped_iterations": {kind: counter},
	}}
}

// define makes a metric; the same name for another kind is a script's mistake.
func (r *registry) define(name string, k kind) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.metrics[name]
	if ok && known.kind != k {
		return fmt.Errorf("the metric %s is a %v already and cannot be a %v", name, known.kind, k)
	}
	if !ok {
		r.metrics[name] = &metric{kind: k}
	}
	return nil
}

func (r *registry) add(name string, value float64, tags ...map[string]string) {
	all := map[string]string{}
	for _, t := range tags {
		maps.Copy(all, t)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.metrics[name]
	m.samples = append(m.samples, sample{value, all})
}

// values are the aggregates that thresholds and summaries use, of the samples that have
// all these tags.
func (m *metric) values(tags map[string]string, seconds float64) (aggregates map[string]float64, percentile func(float64) float64, n int) {
	var v []float64
	for _, s := range m.samples {
		matches := true
		for name, value := range tags {
			matches = matches && s.tags[name] == value
		}
		if matches {
			v = append(v, s.value)
		}
	}
	var sum, nonZero float64
	for _, x := range v {
		sum += x
		if x != 0 {
			nonZero++
		}
	}
	slices.Sort(v)
	percentile = func(p float64) float64 { return interpolate(v, p) }
	count := float64(len(v))
	switch m.kind {
	case counter:
		return map[string]float64{"count": sum, "rate": sum / max(seconds, 1e-3)}, percentile, len(v)
	case rate:
		return map[string]float64{"rate": nonZero / max(count, 1), "passes": nonZero, "fails": count - nonZero}, percentile, len(v)
	}
	return map[string]float64{"avg": sum / max(count, 1), "min": percentile(0), "med": percentile(50), "max": percentile(100),
		"p(90)": percentile(90), "p(95)": percentile(95)}, percentile, len(v)
}

// interpolate finds a percentile of sorted values between the two nearest ones; 0 of none.
func interpolate(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := p / 100 * float64(len(sorted)-1)
	low, part := math.Modf(at)
	i := int(low)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (sorted[i+1]-sorted[i])*part
}
