package gateway

import (
	"net/http"
	"strconv"

	"github.com/latchkey-gateway/latchkey/intent"
)

func typed(t, description string) spec { return spec{"type": t, "description": description} }

func str(description string) spec { return typed("string", description) }

func whole(description string) spec { return typed("integer", description) }

func words(description string, values ...any) spec {
	return spec{"type": "string", "enum": values, "description": description}
}

func clock(description string) spec {
	return spec{"type": "string", "format": "date-time", "description": description}
}

// maybe allows null beside a type.
func maybe(s spec) spec {
	s["type"] = []any{s["type"], "null"}
	return s
}

func listOf(items spec) spec { return spec{"type": "array", "items": items} }

// record is an object whose members are all there, except the optional ones.
func record(members spec, optional ...string) spec {
	left := map[string]bool{}
	for _, name := range optional {
		left[name] = true
	}
	required := []any{}
	for name := range members {
		if !left[name] {
			required = append(required, name)
		}
	}
	sortWords(required)
	return spec{"type": "object", "properties": members, "required": required}
}

// request is an object that takes no other members.
func request(members spec, required ...any) spec {
	s := spec{"type": "object", "properties": members, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// anyJSON is any value, null among them. It is spelt out: not every tool takes no type for that.
func anyJSON(description string) spec {
	return spec{"type": []any{"object", "array", "string", "number", "boolean", "null"}, "description": description}
}

const (
	keyPattern         = "^[0-9a-f]{64}$"
	fingerprintPattern = "^sha256:[0-9a-f]{64}$"
)

func keyText(description string) spec {
	return spec{"type": "string", "pattern": keyPattern, "description": description}
}

func statuses() spec {
	return words("Where the key stands.", "awaiting_approval", "started", "unknown", "completed", "rejected")
}

func retries() spec {
	return words("What a caller may do: never call again, call the same again, or only a corrected call.", "never", "same_key", "corrected")
}

func reasonText() spec {
	return spec{"type": "string", "minLength": 1, "maxLength": maxReason, "description": "Why, in a sentence. It is kept in the audit."}
}

// verbSchema is the body of a decision.
func verbSchema(v verb) spec {
	all := decisionMembers()
	members, required := spec{"reason": reasonText()}, []any{}
	for _, name := range v.members {
		members[name] = all[name]
	}
	if !v.brief {
		required = append(required, "reason")
	}
	if v.action == intent.ActionResolve {
		required = append(required, "outcome")
	}
	return request(members, required...)
}

func decisionMembers() spec {
	return spec{
		"outcome":     words("completed: it happened. rejected: it did not.", "completed", "rejected"),
		"retry":       words("With rejected: whether the same call may act again (the default) or only a corrected one.", "same_key", "corrected"),
		"result":      anyJSON("With completed: the result for callers."),
		"fingerprint": spec{"type": "string", "pattern": fingerprintPattern, "description": "intent.fingerprint of the receipt that the person saw."},
		"for":         str("How long until the next check, as Go writes durations; 1h unless it is said."),
	}
}

func bulkMembers(more spec) spec {
	all := decisionMembers()
	more["action"], more["reason"] = words("What is decided.", "resolve", "reconcile", "wait"), reasonText()
	more["outcome"], more["retry"], more["for"] = all["outcome"], all["retry"], all["for"]
	return more
}

func schemas() spec {
	links := spec{"type": "object", "additionalProperties": spec{"type": "string"}}
	evidence := anyJSON("As it was brought; null where there is none.")
	tag := str("The receipt's ETag, with its quotes.")
	return spec{
		"call": request(spec{
			"run_id":          spec{"type": "string", "maxLength": 255, "description": "The agent run, from the host program."},
			"step_id":         spec{"type": "string", "maxLength": 255, "description": "The step of the run, from the host program."},
			"occurrence":      spec{"type": "integer", "minimum": 0, "maximum": intent.MaxOccurrence, "description": "Above 0 where the same tool is meant to act again in the same step."},
			"idempotency_key": spec{"type": "string", "minLength": 1, "maxLength": 255, "description": "As the header Idempotency-Key."},
			"args":            typed("object", "The tool's arguments."),
		}),
		"receipt": record(spec{
			"key": maybe(keyText("The intent key; null for a read-only tool.")), "tool": str(""), "class": words("", "read_only", "idempotent", "effectful", "irreversible"),
			"tenant": str(""), "run_id": str(""), "step_id": str(""), "occurrence": whole(""),
			"status": statuses(), "replayed": typed("boolean", "This is the result of an earlier call."),
			"durable": typed("boolean", "The durable store has acknowledged this status."), "retry": retries(),
			"advice":  str("What is true and what may be done, for a language model; empty where there is nothing to say."),
			"outcome": spec{"oneOf": []any{ref("schemas", "outcome"), spec{"type": "null"}}},
			"intent": record(spec{"args": maybe(typed("object", "Normalised; redacted members are masked.")),
				"fingerprint": spec{"type": "string", "pattern": fingerprintPattern, "description": "Of all arguments but the volatile ones."}}),
			"attempts": whole("Arrivals."), "executions": whole("Requests to the downstream that were not provably unsent."), "fence": whole(""),
			"created_at": clock(""), "started_at": maybe(clock("")), "settled_at": maybe(clock("")), "unknown_since": maybe(clock("")),
			"settled_by": str("downstream, gateway, lookup, operator, or empty."), "reason": str(""), "evidence": evidence, "trace_id": str(""),
			"recovery": record(spec{"checks": whole("Lookups and retries made."), "next_check_at": maybe(clock("The next one; of an approval: when it expires.")),
				"parked":      str("Why only a person goes on: policy, gave_up, tries, window_passed, request_changed, no_tool, arguments_not_kept; or empty."),
				"doubt":       words("", "", "possible_double", "contradicted"),
				"approved_by": listOf(spec{"type": "string"})}),
			"links": links,
		}, "recovery"),
		"outcome": record(spec{"http_status": whole("0 where a person or a lookup brought it."), "headers": links,
			"body":      anyJSON("The downstream's JSON, numbers exact; over the cap: truncated, length and sha256."),
			"body_text": str("A body that is text."), "body_base64": str("Any other body.")}, "body", "body_text", "body_base64"),
		"receipts": record(spec{"receipts": listOf(ref("schemas", "receipt")), "next_cursor": str("Of the next page; empty at the end.")}),
		"attempts": record(spec{"key": keyText(""), "total": whole("Arrivals in all."),
			"attempts": listOf(record(spec{"time": clock(""),
				"decision": words("", "executed", "collapsed", "replayed", "mismatch", "step_conflict", "refused", "pending"),
				"trace_id": str(""), "span_id": str(""), "replica": str(""), "region": str(""), "credential_id": str("")})),
			"executions": listOf(record(spec{"fence": whole(""), "status": statuses(), "started_at": clock(""), "ended_at": maybe(clock("")),
				"http_status": whole(""), "retry": retries(), "reason": str(""), "trace_id": str(""), "span_id": str(""), "replica": str(""), "region": str(""),
				"evidence": listOf(record(spec{"time": clock(""), "action": str(""), "actor": str(""), "evidence": evidence}))}, "http_status", "retry"))}),
		"audit": record(spec{"key": keyText(""), "entries": listOf(record(spec{"id": whole(""), "time": clock(""),
			"actor":  str("Id of the key that a person used; gateway where no person did it."),
			"action": words("", "lookup", "retry", "reexecute", "park", "approve", "decline", "expire", "resolve", "wait", "late_answer", "acknowledge"),
			"reason": str(""), "before": str("Status, fence and version, such as: unknown 1.2"), "after": str(""), "evidence": evidence,
			"trace_id": str(""), "span_id": str("")}))}),
		"tools": record(spec{"tools": listOf(record(spec{"name": str(""), "description": str(""), "class": words("", "read_only", "idempotent", "effectful", "irreversible"),
			"durability": words("", "durable", "hot"), "on_unknown": words("", "lookup", "retry", "park"), "timeout": str(""), "downstream": str(""),
			"breaker": str("Of the downstream: closed, half-open or open."), "in_flight": whole(""),
			"input_schema": anyJSON("JSON Schema of the arguments; null where anything goes.")}, "durability", "on_unknown"))}),
		"bulkPlanRequest": request(bulkMembers(spec{
			"filter": request(spec{"run_id": str(""), "step_id": str(""), "tool": str(""), "status": statuses(), "since": clock(""), "until": clock(""), "q": str(""),
				"attention": spec{"enum": []any{true, "true"}}}),
			"keys": spec{"type": "array", "maxItems": bulkMost, "items": keyText("")}}), "action", "reason"),
		"bulkPlan": record(spec{"action": str(""), "limit": whole("Most receipts of one plan."), "more": typed("boolean", "The filter matches more than that."),
			"items": listOf(record(spec{"key": keyText(""), "etag": tag, "tool": str(""), "run_id": str(""), "step_id": str(""), "status": statuses(),
				"age_seconds": whole("Since it became unknown."), "parked": str(""), "checks": whole(""), "evidence": evidence, "would": str("What the run would do.")})),
			"skipped": listOf(record(spec{"key": keyText(""), "etag": tag, "tool": str(""), "status": statuses(),
				"code": words("", skipIrreversible, skipAwaiting, skipStarted, skipSettled, skipNone, skipNoLookup), "detail": str("")}, "etag", "tool", "status"))}),
		"bulkRunRequest": request(bulkMembers(spec{"items": spec{"type": "array", "minItems": 1, "maxItems": bulkMost,
			"items": request(spec{"key": keyText(""), "etag": tag}, "key", "etag")}}), "action", "reason", "items"),
		"bulkLine": spec{"oneOf": []any{
			record(spec{"key": keyText(""), "result": words("", "done", "skipped", "refused", "failed"), "status": statuses(), "etag": tag, "code": str(""), "detail": str("")},
				"status", "etag", "code", "detail"),
			record(spec{"summary": spec{"type": "boolean", "const": true}, "total": whole(""), "results": spec{"type": "object", "additionalProperties": spec{"type": "integer"}},
				"stopped": words("Why the rest was left alone.", "aborted", "draining")}, "stopped")}},
		"stats": record(spec{"since": clock(""), "until": clock(""), "step": str("As Go writes durations."),
			"counts": listOf(record(spec{"at": clock("Begin of the step."), "tool": str(""), "kind": words("", "attempt", "audit", "execution"), "word": str("A decision, an action, or unknown for an execution that ended so."), "n": whole("")})),
			"totals": spec{"type": "object", "additionalProperties": spec{"type": "object", "additionalProperties": spec{"type": "integer"}}},
			"open": listOf(record(spec{"tool": str(""), "what": words("", "unknown", "parked", "awaiting_approval", "doubt"), "n": whole(""),
				"oldest_at": clock(""), "oldest_seconds": whole("")}))}),
		"change":  record(spec{"key": keyText(""), "tool": str(""), "kind": words("", "attempt", "audit"), "word": str("A decision or an action."), "at": clock("")}),
		"ready":   record(spec{"ready": typed("boolean", ""), "degraded": typed("boolean", "Redis is down: durable calls go on, hot ones are refused."), "checks": links}),
		"problem": problemSchema(),
	}
}

func problemSchema() spec {
	return record(spec{"type": str("urn:latchkey:problem: and the code."), "title": str(""), "status": whole(""), "detail": str(""), "code": str(""), "retry": retries(),
		"advice": str("What is true and what may be done, for a language model."), "reason": str("A bounded word."), "pointer": str("The argument at fault, as a JSON Pointer."),
		"earlier_key": keyText("Of the receipt that is in the way."), "earlier_receipt": str("Its address."), "trace_id": str("")},
		"reason", "pointer", "earlier_key", "earlier_receipt")
}

func callResponses() spec {
	headers := []string{"Latchkey-Receipt", "Idempotent-Replayed", "X-Should-Retry"}
	receipt := func(description string, more ...string) spec {
		return answered(description, asJSON, ref("schemas", "receipt"), append(headers, more...)...)
	}
	either := receipt("Provably not sent, or not accepted for now: the same call again is safe. A receipt where one was stored, else a problem.", "Retry-After")
	either["content"].(spec)["application/problem+json"] = spec{"schema": ref("schemas", "problem")}
	r := problems(400, 404, 409, 410, 413, 415, 422, 500, 502, 504)
	r["200"] = receipt("The result, first time or replayed.")
	r["202"] = receipt("Still running, unknown, or waiting for approval. Do not repeat it in another form.", "Location", "Retry-After")
	r["424"] = receipt("The downstream did not accept it: it did not happen.")
	r["503"] = either
	return r
}

// problemResponses name the shared answers that are problems.
var problemResponses = map[int]struct{ name, description string }{
	http.StatusBadRequest:            {"badRequest", "The request is malformed; detail says how."},
	http.StatusUnauthorized:          {"unauthenticated", "No key, or one that is not known."},
	http.StatusForbidden:             {"forbidden", "The key has not the role."},
	http.StatusNotFound:              {"notFound", "There is no such tool or receipt, or it is another tenant's."},
	http.StatusConflict:              {"conflict", "Calls: the step already used the tool for something else. Decisions: the receipt's status does not allow it."},
	http.StatusGone:                  {"gone", "The result is no longer retained; the action is not done again."},
	http.StatusPreconditionFailed:    {"moved", "The receipt is not at the version of If-Match any more."},
	http.StatusRequestEntityTooLarge: {"tooLarge", "The body is over the cap."},
	http.StatusUnsupportedMediaType:  {"unsupportedMedia", "The body is not JSON."},
	http.StatusUnprocessableEntity:   {"otherArguments", "The key was used with other arguments."},
	http.StatusPreconditionRequired:  {"matchRequired", "If-Match is missing."},
	http.StatusInternalServerError:   {"internal", "The gateway failed."},
	http.StatusBadGateway:            {"downstreamFailed", "A read-only tool's downstream failed."},
	http.StatusServiceUnavailable:    {"unavailable", "The gateway cannot do that at the moment."},
	http.StatusGatewayTimeout:        {"downstreamLate", "A read-only tool's downstream did not answer in time."},
}

func sharedResponses() spec {
	r := spec{}
	for status, p := range problemResponses {
		names := []string{"X-Should-Retry"}
		switch status {
		case http.StatusUnauthorized:
			names = append(names, "WWW-Authenticate")
		case http.StatusServiceUnavailable:
			names = []string{"Retry-After"}
		case http.StatusConflict, http.StatusUnprocessableEntity, http.StatusGone:
			names = append(names, "Latchkey-Receipt")
		}
		r[p.name] = answered(strconv.Itoa(status)+": "+p.description, "application/problem+json", ref("schemas", "problem"), names...)
	}
	return r
}
