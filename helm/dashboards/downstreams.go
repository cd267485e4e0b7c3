package dashboards

import "github.com/grafana/grafana-foundation-sdk/go/units"

// downstreams is what the owners of the called services ask: how much comes in, is the
// breaker open, what do our answers do to the agents.
func downstreams() View {
	return View{
		Name: "downstreams", Title: "Latchkey / Downstreams", Filter: "downstream", From: "latchkey_breaker_state",
		About: "The services that tools act on, as the gateway sees them.",
		Rows: []Row{
			{"Now", []Panel{
				{Title: "Breakers open", Unit: units.Short, Stat: true, Width: 6, Warn: 1, Alarm: 2, Queries: []Query{
					{`sum(latchkey_breaker_state{downstream=~"$downstream"} == bool 2)`, "open"}}},
				{Title: "Requests in flight", Unit: units.Short, Stat: true, Width: 6, Queries: []Query{
					{`sum(latchkey_downstream_in_flight{downstream=~"$downstream"})`, "in flight"}}},
				{Title: "Executions a second", Unit: units.RequestsPerSecond, Stat: true, Width: 6, Queries: []Query{
					{`sum(rate(latchkey_executions_total[$__rate_interval]))`, "executions"}}},
				{Title: "Unknown outcomes", About: "Share of executions in the last hour whose answer told nothing.", Unit: units.PercentUnit, Stat: true, Width: 6, Warn: 0.001, Alarm: 0.01, Queries: []Query{
					{`sum(increase(latchkey_executions_total{outcome="unknown"}[1h])) / sum(increase(latchkey_executions_total[1h]))`, "unknown"}}},
			}},
			{"Breakers and load", []Panel{
				{Title: "Breaker", About: "The worst of all replicas: 0 closed, 1 half open, 2 open.", Unit: units.Short, Width: 12, Warn: 1, Alarm: 2, Queries: []Query{
					{`max by (downstream) (latchkey_breaker_state{downstream=~"$downstream"})`, "{{downstream}}"}}},
				{Title: "Requests in flight", Unit: units.Short, Width: 12, Queries: []Query{
					{`sum by (downstream) (latchkey_downstream_in_flight{downstream=~"$downstream"})`, "{{downstream}}"}}},
			}},
			{"Answers, of all downstreams", []Panel{
				{Title: "Executions by tool", Unit: units.RequestsPerSecond, Stack: true, Queries: []Query{
					{`sum by (tool) (rate(latchkey_executions_total[$__rate_interval]))`, "{{tool}}"}}},
				{Title: "Not accepted or not sent", Unit: units.RequestsPerSecond, Queries: []Query{
					{`sum by (tool, outcome) (rate(latchkey_executions_total{outcome=~"rejected|not_sent"}[$__rate_interval]))`, "{{tool}}: {{outcome}}"}}},
				{Title: "Unknown", About: "Timeouts, resets and 5xx after the request was sent.", Unit: units.RequestsPerSecond, Queries: []Query{
					{`sum by (tool) (rate(latchkey_executions_total{outcome="unknown"}[$__rate_interval]))`, "{{tool}}"}}},
			}},
			{"Time and lookups, of all downstreams", []Panel{
				{Title: "Time of a request", Unit: units.Seconds, Queries: []Query{
					{quantile("0.5", "latchkey_step_duration_seconds", "step", `step="execute"`), "p50"},
					{quantile("0.99", "latchkey_step_duration_seconds", "step", `step="execute"`), "p99"}}},
				{Title: "Time of a lookup", Unit: units.Seconds, Queries: []Query{
					{quantile("0.5", "latchkey_step_duration_seconds", "step", `step="lookup"`), "p50"},
					{quantile("0.99", "latchkey_step_duration_seconds", "step", `step="lookup"`), "p99"}}},
				{Title: "Settled by lookups and late answers", Unit: units.Short, Stack: true, Queries: []Query{
					{`sum by (tool, outcome) (increase(latchkey_unknown_reconciled_total{settled_by=~"lookup|downstream"}[$__rate_interval]))`, "{{tool}}: {{outcome}}"}}},
			}},
		},
	}
}
