package gateway

import (
	"cmp"
	"slices"
)

func sortWords(list []any) {
	slices.SortFunc(list, func(a, b any) int { return cmp.Compare(a.(string), b.(string)) })
}

// sharedParameters are those of paths, queries and request headers, by a name of their own.
func sharedParameters() spec {
	in := func(where, name string, schema spec, required bool) spec {
		p := spec{"in": where, "name": name, "schema": schema, "required": required}
		if d, _ := schema["description"].(string); d != "" {
			p["description"] = d
			delete(schema, "description")
		}
		return p
	}
	query := func(name string, schema spec) spec { return in("query", name, schema, false) }
	header := func(name, description string) spec { return in("header", name, str(description), false) }
	required := header("If-Match", "The version that was seen, as its ETag gave it. Without it: 428.")
	required["required"] = true
	return spec{
		"tool":              in("path", "tool", str("The tool's name."), true),
		"key":               in("path", "key", spec{"type": "string", "pattern": "^[0-9A-Fa-f]{64}$", "description": "The receipt's key."}, true),
		"run_id":            query("run_id", str("The agent run.")),
		"step_id":           query("step_id", str("The step of the run.")),
		"tool_name":         query("tool", str("The tool's name.")),
		"status":            query("status", statuses()),
		"since":             query("since", clock("From then on.")),
		"until":             query("until", clock("Before then.")),
		"q":                 query("q", str("A key or its first 8 digits or more, a trace id, or words of the run, the step or the arguments.")),
		"attention":         query("attention", words("Only what a person may have to see to.", "true")),
		"limit":             query("limit", spec{"type": "integer", "minimum": 1, "maximum": 200, "description": "Receipts of a page; 50 unless it is said."}),
		"cursor":            query("cursor", str("Where the page before ended.")),
		"wait":              query("wait", spec{"type": "integer", "minimum": 0, "description": "Seconds to wait for it to settle."}),
		"degraded":          query("degraded", words("Ready is enough without Redis: durable calls go on.", "ok")),
		"step":              query("step", str("Whole minutes, as Go writes durations.")),
		"Idempotency-Key":   header("Idempotency-Key", "An explicit key: a quoted string or a bare token of 1 to 255 visible ASCII characters. Run and step are optional labels then."),
		"Prefer":            header("Prefer", "wait=N: seconds to wait for the answer."),
		"traceparent":       header("traceparent", "W3C trace context."),
		"If-None-Match":     header("If-None-Match", "An ETag: 304 while the receipt still has it."),
		"If-Match":          header("If-Match", "The version that was seen, as its ETag gave it: 412 when the receipt has moved."),
		"If-Match-required": required,
		"Last-Event-ID":     header("Last-Event-ID", "The id of the last event that was seen: the stream goes on from there."),
	}
}

// headers are those of answers.
func headers() spec {
	header := func(description string) spec {
		return spec{"description": description, "schema": spec{"type": "string"}}
	}
	return spec{
		"ETag":                header(`The receipt's version: "<fence>.<version>".`),
		"Latchkey-Receipt":    header("The receipt's key."),
		"Idempotent-Replayed": header("true where this is the result of an earlier call."),
		"X-Should-Retry":      header("false wherever the same call again is not what to do."),
		"Retry-After":         header("Seconds."),
		"Location":            header("The receipt's address."),
		"Link":                header(`The next page, rel="next".`),
		"WWW-Authenticate":    header("Bearer"),
	}
}
