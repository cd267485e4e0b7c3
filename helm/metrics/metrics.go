// Package metrics lists what the gateway exports, for dashboards and alerts: a panel or a
// rule over a name or a label that does not exist shows nothing, for ever, and says so
// nowhere.
package metrics

import "slices"

// Kind is what Prometheus takes a metric for.
type Kind string

// A histogram is queried by its _bucket, _sum and _count series.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Metric is one name and the labels that its series have, besides those of the scrape.
type Metric struct {
	Name   string
	Kind   Kind
	Labels []string
}

// All are the metrics of CONTRACT.md and of the gateway's own health.
var All = []Metric{
	{"latchkey_attempts_total", Counter, []string{"tool", "decision"}},
	{"latchkey_executions_total", Counter, []string{"tool", "outcome"}},
	{"latchkey_duplicates_prevented_total", Counter, []string{"tool", "how"}},
	{"latchkey_parameter_mismatches_total", Counter, []string{"tool"}},
	{"latchkey_step_conflicts_total", Counter, []string{"tool"}},
	{"latchkey_unknown_open", Gauge, []string{"tool"}},
	{"latchkey_unknown_oldest_seconds", Gauge, []string{"tool"}},
	{"latchkey_unknown_duration_seconds", Histogram, []string{"tool", "settled_by"}},
	{"latchkey_unknown_reconciled_total", Counter, []string{"tool", "settled_by", "outcome"}},
	{"latchkey_manual_recoveries_total", Counter, []string{"tool", "action"}},
	{"latchkey_calls_without_stable_key_total", Counter, []string{"tool"}},
	{"latchkey_call_duration_seconds", Histogram, []string{"tool", "decision"}},
	{"latchkey_step_duration_seconds", Histogram, []string{"step"}},
	{"latchkey_breaker_state", Gauge, []string{"downstream"}},
	{"latchkey_downstream_in_flight", Gauge, []string{"downstream"}},
	{"latchkey_near_cache_hits_total", Counter, nil},
	{"latchkey_near_cache_misses_total", Counter, nil},
	{"latchkey_near_cache_bytes", Gauge, nil},
	{"latchkey_store_batch_size", Histogram, nil},
	{"latchkey_approvals_waiting", Gauge, []string{"tool"}},
	{"latchkey_journal_dropped_total", Counter, nil},
	{"latchkey_notifications_total", Counter, []string{"outcome"}},
	{"latchkey_redis_up", Gauge, nil},
	{"latchkey_store_up", Gauge, nil},
	{"latchkey_spans_dropped_total", Counter, []string{"reason"}},
}

// platform are metrics of the Go and process collectors.
var platform = []Metric{
	{"go_goroutines", Gauge, nil},
	{"process_resident_memory_bytes", Gauge, nil},
	{"process_cpu_seconds_total", Counter, nil},
}

// scraped are labels that every series has from the scrape.
var scraped = []string{"job", "instance"}

// Find is the metric that a series name in a query belongs to, and the labels it may name.
func Find(series string) (m Metric, labels []string, ok bool) {
	for _, m := range slices.Concat(All, platform) {
		names, own := []string{m.Name}, m.Labels
		if m.Kind == Histogram {
			names = []string{m.Name + "_bucket", m.Name + "_sum", m.Name + "_count"}
		}
		if i := slices.Index(names, series); i >= 0 {
			if m.Kind == Histogram && i == 0 {
				own = append(slices.Clone(own), "le")
			}
			return m, slices.Concat(own, scraped), true
		}
	}
	return Metric{}, nil, false
}
