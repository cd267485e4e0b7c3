package dashboards

import "github.com/grafana/grafana-foundation-sdk/go/units"

// agents is what the agents' owners ask: do the calls get answers, how many duplicates were
// there, who rewords its retries, what waits for a person.
func agents() View {
	return View{
		Name: "agents", Title: "Latchkey / Agents", Filter: "tool", From: "latchkey_attempts_total",
		About: "What agents meet: answers, duplicates that did nothing, calls that changed their mind, outcomes that are unknown.",
		Rows: []Row{
			{"Now", []Panel{
				{Title: "Calls a second", Unit: units.RequestsPerSecond, Stat: true, Queries: []Query{
					{`sum(rate(latchkey_attempts_total{tool=~"$tool"}[$__rate_interval]))`, "calls"}}},
				{Title: "Duplicates prevented", About: "Arrivals in the time range that would have acted again.", Unit: units.Short, Stat: true, Queries: []Query{
					{`sum(increase(latchkey_duplicates_prevented_total{tool=~"$tool"}[$__range]))`, "prevented"}}},
				{Title: "Unknown now", About: "Actions that may or may not have happened. Do not repeat them: resolve them on the console.", Unit: units.Short, Stat: true, Warn: 1, Alarm: 10, Queries: []Query{
					{`sum(max by (tool) (latchkey_unknown_open{tool=~"$tool"}))`, "unknown"}}},
				{Title: "Waiting for approval", Unit: units.Short, Stat: true, Warn: 1, Alarm: 20, Queries: []Query{
					{`sum(max by (tool) (latchkey_approvals_waiting{tool=~"$tool"}))`, "waiting"}}},
				{Title: "Changed their mind", About: "Share of calls in the last hour that came back for the same step with other arguments.", Unit: units.PercentUnit, Stat: true, Warn: 0.01, Alarm: 0.05, Queries: []Query{
					{`(sum(increase(latchkey_parameter_mismatches_total{tool=~"$tool"}[1h])) + sum(increase(latchkey_step_conflicts_total{tool=~"$tool"}[1h]))) / sum(increase(latchkey_attempts_total{tool=~"$tool"}[1h]))`, "drift"}}},
				{Title: "Without a stable key", About: "Refused in the last hour: the host program gave neither run and step nor a key.", Unit: units.Short, Stat: true, Warn: 1, Alarm: 100, Queries: []Query{
					{`sum(increase(latchkey_calls_without_stable_key_total{tool=~"$tool"}[1h]))`, "refused"}}},
			}},
			{"Calls", []Panel{
				{Title: "Calls by decision", About: "What became of each arrival. executed made a request; the others did not.", Unit: units.RequestsPerSecond, Stack: true, Queries: []Query{
					{`sum by (decision) (rate(latchkey_attempts_total{tool=~"$tool"}[$__rate_interval]))`, "{{decision}}"}}},
				{Title: "Calls by tool", Unit: units.RequestsPerSecond, Stack: true, Queries: []Query{
					{`sum by (tool) (rate(latchkey_attempts_total{tool=~"$tool"}[$__rate_interval]))`, "{{tool}}"}}},
				{Title: "Time to an answer", About: "From arrival to answer, waiting included.", Unit: units.Seconds, Queries: []Query{
					{quantile("0.5", "latchkey_call_duration_seconds", "decision", `tool=~"$tool"`), "p50 {{decision}}"},
					{quantile("0.99", "latchkey_call_duration_seconds", "decision", `tool=~"$tool"`), "p99 {{decision}}"}}},
			}},
			{"Duplicates and drift", []Panel{
				{Title: "Duplicates prevented, by how", About: "collapsed and pending joined a call under way, replayed got the stored result; mismatch and step_conflict were refused.", Unit: units.RequestsPerSecond, Stack: true, Queries: []Query{
					{`sum by (how) (rate(latchkey_duplicates_prevented_total{tool=~"$tool"}[$__rate_interval]))`, "{{how}}"}}},
				{Title: "Same key, other arguments", About: "422 idempotency_conflict. A model reworded a retry, or identity is missing an argument.", Unit: units.RequestsPerSecond, Queries: []Query{
					{`sum by (tool) (rate(latchkey_parameter_mismatches_total{tool=~"$tool"}[$__rate_interval]))`, "{{tool}}"}}},
				{Title: "Same step, other intent", About: "409 step_conflict. A confused retry, or a host that should set occurrence.", Unit: units.RequestsPerSecond, Queries: []Query{
					{`sum by (tool) (rate(latchkey_step_conflicts_total{tool=~"$tool"}[$__rate_interval]))`, "{{tool}}"}}},
			}},
			{"People", []Panel{
				{Title: "Waiting for approval", Unit: units.Short, Queries: []Query{
					{`max by (tool) (latchkey_approvals_waiting{tool=~"$tool"})`, "{{tool}}"}}},
				{Title: "Decisions by people", Unit: units.Short, Stack: true, Queries: []Query{
					{`sum by (action) (increase(latchkey_manual_recoveries_total{tool=~"$tool"}[$__rate_interval]))`, "{{action}}"}}},
				{Title: "Calls without a stable key", Unit: units.RequestsPerSecond, Queries: []Query{
					{`sum by (tool) (rate(latchkey_calls_without_stable_key_total{tool=~"$tool"}[$__rate_interval]))`, "{{tool}}"}}},
			}},
		},
	}
}

// quantile is a PromQL expression for a histogram, by one label.
func quantile(q, metric, by, match string) string {
	grouping := "le"
	if by != "" {
		grouping += ", " + by
	}
	if match != "" {
		match = "{" + match + "}"
	}
	return "histogram_quantile(" + q + ", sum by (" + grouping + ") (rate(" + metric + "_bucket" + match + "[$__rate_interval])))"
}
