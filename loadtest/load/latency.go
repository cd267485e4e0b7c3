package load

import (
	"math"
	"slices"
	"time"
)

// Latency holds every measured latency of a run: exact percentiles, no buckets.
type Latency struct {
	sorted []time.Duration
}

// LatencyOf takes ownership of samples, in any order.
func LatencyOf(samples []time.Duration) Latency {
	l := Latency{samples}
	l.sort()
	return l
}

func (l *Latency) sort() { slices.Sort(l.sorted) }

// Percentile returns the smallest sample that at least p percent of the samples do not
// exceed (nearest rank, no interpolation); 0 without samples. p is in (0, 100].
func (l Latency) Percentile(p float64) time.Duration {
	n := len(l.sorted)
	if n == 0 {
		return 0
	}
	// 99.9 has no exact float64: without the slack the 999th of 1000 becomes the 1000th.
	rank := int(math.Ceil(p/100*float64(n) - 1e-9))
	return l.sorted[min(max(rank, 1), n)-1]
}

// Median returns the middle of values (the mean of the two middle ones when their number
// is even); 0 without values. It does not change values.
func Median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	return (s[(n-1)/2] + s[n/2]) / 2
}
