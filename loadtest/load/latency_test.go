package load

import (
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	t.Parallel()
	thousand := make([]time.Duration, 1000)
	for i := range thousand {
		thousand[i] = time.Duration(1000 - i) // 1000 ... 1
	}
	for name, tc := range map[string]struct {
		samples []time.Duration
		p       float64
		want    time.Duration
	}{
		"none":            {nil, 50, 0},
		"one":             {[]time.Duration{7}, 50, 7},
		"one, tail":       {[]time.Duration{7}, 99.9, 7},
		"two, median":     {[]time.Duration{9, 3}, 50, 3},
		"two, just above": {[]time.Duration{9, 3}, 50.1, 9},
		"three, median":   {[]time.Duration{9, 1, 5}, 50, 5},
		"all":             {[]time.Duration{9, 1, 5}, 100, 9},
		"thousand, 50":    {thousand, 50, 500},
		"thousand, 99":    {thousand, 99, 990},
		"thousand, 99.9":  {thousand, 99.9, 999},
		"thousand, 99.99": {thousand, 99.99, 1000},
		"lowest":          {thousand, 0.01, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			samples := append([]time.Duration(nil), tc.samples...)
			if got := LatencyOf(samples).Percentile(tc.p); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{4}, 4}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}, {[]float64{100, 1, 3, 2}, 2.5},
	} {
		if got := Median(tc.values); got != tc.want {
			t.Errorf("Median(%v) = %v, want %v", tc.values, got, tc.want)
		}
	}
	unsorted := []float64{3, 1, 2}
	if Median(unsorted); unsorted[0] != 3 {
		t.Error("Median changed its argument")
	}
}
