package dashboards

import "github.com/grafana/grafana-foundation-sdk/go/units"

// sre is what whoever is on call asks: is it up, is anything unknown, which step is slow,
// does it lose records of what it did.
func sre() View {
	return View{
		Name: "sre", Title: "Latchkey / SRE", Filter: "tool", From: "latchkey_attempts_total",
		About: "Health of the gateway and of what it stands on. Alerts lead to the runbooks.",
		Rows: []Row{
			{"Now", []Panel{
				{Title: "Redis", About: "Replicas that can use Redis. Without it durable calls go on, more slowly; hot ones are refused.", Unit: units.PercentUnit, Stat: true, Below: true, Warn: 1, Alarm: 0.5, Queries: []Query{
					{`avg(latchkey_redis_up)`, "up"}}},
				{Title: "Store", About: "Replicas that can write to the durable store. Without it nothing new is sent.", Unit: units.PercentUnit, Stat: true, Below: true, Warn: 1, Alarm: 0.5, Queries: []Query{
					{`avg(latchkey_store_up)`, "up"}}},
				{Title: "Breakers open", About: "Breakers of all replicas that are open.", Unit: units.Short, Stat: true, Warn: 1, Alarm: 2, Queries: []Query{
					{`sum(latchkey_breaker_state == bool 2)`, "open"}}},
				{Title: "Unknown now", Unit: units.Short, Stat: true, Warn: 1, Alarm: 10, Queries: []Query{
					{`sum(max by (tool) (latchkey_unknown_open{tool=~"$tool"}))`, "unknown"}}},
				{Title: "Oldest unknown", Unit: units.Seconds, Stat: true, Warn: 3600, Alarm: 86400, Queries: []Query{
					{`max(latchkey_unknown_oldest_seconds{tool=~"$tool"})`, "age"}}},
				{Title: "Attempts not journalled", About: "Lines missing from lists of attempts in the time range. No effect and no result is lost by it.", Unit: units.Short, Stat: true, Warn: 1, Alarm: 1000, Queries: []Query{
					{`sum(increase(latchkey_journal_dropped_total[$__range]))`, "dropped"}}},
			}},
			{"Unknown outcomes", []Panel{
				{Title: "Unknown by tool", Unit: units.Short, Stack: true, Queries: []Query{
					{`max by (tool) (latchkey_unknown_open{tool=~"$tool"})`, "{{tool}}"}}},
				{Title: "Settled, by whom", About: "lookup, a late answer (downstream), operator, gateway.", Unit: units.Short, Stack: true, Queries: []Query{
					{`sum by (settled_by, outcome) (increase(latchkey_unknown_reconciled_total{tool=~"$tool"}[$__rate_interval]))`, "{{settled_by}}: {{outcome}}"}}},
				{Title: "How long they were unknown", Unit: units.Seconds, Queries: []Query{
					{quantile("0.5", "latchkey_unknown_duration_seconds", "settled_by", `tool=~"$tool"`), "p50 {{settled_by}}"},
					{quantile("0.95", "latchkey_unknown_duration_seconds", "settled_by", `tool=~"$tool"`), "p95 {{settled_by}}"}}},
			}},
			{"The order of things", []Panel{
				{Title: "Time by step, p50", Unit: units.Seconds, Queries: []Query{
					{quantile("0.5", "latchkey_step_duration_seconds", "step", ""), "{{step}}"}}},
				{Title: "Time by step, p99", Unit: units.Seconds, Queries: []Query{
					{quantile("0.99", "latchkey_step_duration_seconds", "step", ""), "{{step}}"}}},
				{Title: "Executions by outcome", Unit: units.RequestsPerSecond, Stack: true, Queries: []Query{
					{`sum by (outcome) (rate(latchkey_executions_total{tool=~"$tool"}[$__rate_interval]))`, "{{outcome}}"}}},
			}},
			{"What it stands on", []Panel{
				{Title: "Redis and store, by replica", Unit: units.Short, Queries: []Query{
					{`min by (instance) (latchkey_redis_up)`, "redis {{instance}}"},
					{`min by (instance) (latchkey_store_up)`, "store {{instance}}"}}},
				{Title: "Rows in one statement", About: "Group commit: more rows in a statement under load.", Unit: units.Short, Queries: []Query{
					{quantile("0.5", "latchkey_store_batch_size", "", ""), "p50"},
					{quantile("0.99", "latchkey_store_batch_size", "", ""), "p99"}}},
				{Title: "Near cache", About: "Share of calls answered in the replica itself.", Unit: units.PercentUnit, Queries: []Query{
					{`sum(rate(latchkey_near_cache_hits_total[$__rate_interval])) / (sum(rate(latchkey_near_cache_hits_total[$__rate_interval])) + sum(rate(latchkey_near_cache_misses_total[$__rate_interval])))`, "hits"}}},
			}},
			{"Records and messages", []Panel{
				{Title: "Attempts not journalled", Unit: units.Short, Queries: []Query{
					{`sum by (instance) (increase(latchkey_journal_dropped_total[$__rate_interval]))`, "{{instance}}"}}},
				{Title: "Spans not exported", Unit: units.Short, Queries: []Query{
					{`sum by (reason) (increase(latchkey_spans_dropped_total[$__rate_interval]))`, "{{reason}}"}}},
				{Title: "Notifications", Unit: units.Short, Stack: true, Queries: []Query{
					{`sum by (outcome) (increase(latchkey_notifications_total[$__rate_interval]))`, "{{outcome}}"}}},
			}},
			{"Process", []Panel{
				{Title: "CPU", Unit: units.Short, Width: 6, Queries: []Query{
					{`sum by (instance) (rate(process_cpu_seconds_total{job=~".*latchkey.*"}[$__rate_interval]))`, "{{instance}}"}}},
				{Title: "Memory", Unit: units.BytesIEC, Width: 6, Queries: []Query{
					{`max by (instance) (process_resident_memory_bytes{job=~".*latchkey.*"})`, "{{instance}}"}}},
				{Title: "Near cache", Unit: units.BytesIEC, Width: 6, Queries: []Query{
					{`max by (instance) (latchkey_near_cache_bytes)`, "{{instance}}"}}},
				{Title: "Goroutines", Unit: units.Short, Width: 6, Queries: []Query{
					{`max by (instance) (go_goroutines{job=~".*latchkey.*"})`, "{{instance}}"}}},
			}},
		},
	}
}
