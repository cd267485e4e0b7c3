package gateway

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"sync"

	"github.com/gin-gonic/gin"
)

// The description of this API in OpenAPI 3.1. It is written here beside the routes, and a
// test compares it with them: every route is described, and everything described is served.

// spec is a part of the description.
type spec = map[string]any

// described is the whole description as JSON, made once.
var described = sync.OnceValue(func() []byte {
	text, err := json.MarshalIndent(openAPI(), "", " ")
	if err != nil {
		panic(err) // made of maps and strings alone
	}
	return append(text, '\n')
})

// getOpenAPI answers GET /openapi.json.
func (g *Gateway) getOpenAPI(c *gin.Context) {
	c.Data(http.StatusOK, "application/json", described())
}

func openAPI() spec {
	return spec{
		"openapi": "3.1.0",
		"info": spec{
			"title": "Latchkey", "version": "1",
			"summary": "An idempotency gateway for fleets of AI agents.",
			"description": "One approved intention produces at most one consequential action. A caller always learns which of these is true: " +
				"completed, rejected (a corrected attempt is safe), not sent (the same call again is safe), or pending / unknown (do not repeat; here is how to find out).\n\n" +
				"Operations are served on the listeners that x-latchkey-listeners names.",
			"license": spec{"name": "See LICENSE in the repository"},
		},
		"servers": []any{
			spec{"url": "http://127.0.0.1:8080", "description": "the agents' listener (listen)"},
			spec{"url": "http://127.0.0.1:8081", "description": "the operators' listener (operator_listen)"},
		},
		"security": []any{spec{"key": []any{}}},
		"tags": []any{
			spec{"name": "calls", "description": "Calling tools."},
			spec{"name": "receipts", "description": "Reading what came of calls."},
			spec{"name": "decisions", "description": "What people decide. Role operator."},
			spec{"name": "gateway", "description": "The gateway itself."},
		},
		"paths": paths(),
		"components": spec{
			"securitySchemes": spec{"key": spec{"type": "http", "scheme": "bearer",
				"description": "A key of the configuration. It gives the tenant and the roles: agent calls and reads, viewer reads, operator reads and decides."}},
			"schemas": schemas(), "headers": headers(), "parameters": sharedParameters(), "responses": sharedResponses(),
		},
	}
}

func ref(kind, name string) spec { return spec{"$ref": "#/components/" + kind + "/" + name} }

// operation is one method of one path. Every one that needs a key may answer 401 and 403.
func operation(id, tag, summary, description string, listeners []any, responses spec, more ...spec) spec {
	responses["401"], responses["403"] = ref("responses", "unauthenticated"), ref("responses", "forbidden")
	o := spec{"operationId": id, "tags": []any{tag}, "summary": summary, "responses": responses, "x-latchkey-listeners": listeners}
	if description != "" {
		o["description"] = description
	}
	for _, m := range more {
		maps.Copy(o, m)
	}
	return o
}

func open(o spec) spec {
	delete(o["responses"].(spec), "401")
	delete(o["responses"].(spec), "403")
	o["security"] = []any{}
	return o
}

func answered(description, media string, schema spec, headerNames ...string) spec {
	r := spec{"description": description, "content": spec{media: spec{"schema": schema}}}
	if len(headerNames) > 0 {
		h := spec{}
		for _, name := range headerNames {
			h[name] = ref("headers", name)
		}
		r["headers"] = h
	}
	return r
}

const asJSON = "application/json"

func problems(statuses ...int) spec {
	r := spec{}
	for _, s := range statuses {
		r[strconv.Itoa(s)] = ref("responses", problemResponses[s].name)
	}
	return r
}

func with(r spec, status string, response spec) spec {
	r[status] = response
	return r
}

func parametersOf(names ...string) spec {
	list := make([]any, len(names))
	for i, name := range names {
		list[i] = ref("parameters", name)
	}
	return spec{"parameters": list}
}

func bodyOf(schema spec, required bool) spec {
	return spec{"requestBody": spec{"required": required, "content": spec{asJSON: spec{"schema": schema}}}}
}

func paths() spec {
	agents, operators, both := []any{"agents"}, []any{"operators"}, []any{"agents", "operators"}
	receipt := func(description string) spec {
		return answered(description, asJSON, ref("schemas", "receipt"), "ETag", "Latchkey-Receipt", "Retry-After", "X-Should-Retry")
	}
	p := spec{
		"/v1/tools/{tool}/calls": spec{"post": operation("call", "calls", "Call a tool",
			"The same intention twice acts once: the second call joins the first or gets its result.", agents, callResponses(),
			parametersOf("tool", "Idempotency-Key", "Prefer", "traceparent"), bodyOf(ref("schemas", "call"), true))},
		"/v1/tools": spec{"get": operation("listTools", "calls", "List the tools, with the state of their downstreams", "", both,
			with(spec{}, "200", answered("The catalogue.", asJSON, ref("schemas", "tools"))))},
		"/v1/receipts": spec{"get": operation("listReceipts", "receipts", "List receipts, newest first", "", both,
			with(problems(400, 503), "200", answered("A page.", asJSON, ref("schemas", "receipts"), "Link")),
			parametersOf("run_id", "step_id", "tool_name", "status", "since", "until", "q", "attention", "limit", "cursor"))},
		"/v1/receipts/{key}": spec{"get": operation("getReceipt", "receipts", "Read a receipt",
			"With wait it answers when the receipt leaves awaiting_approval, started and unknown, or after that many seconds.", both,
			with(with(problems(400, 404, 503), "200", receipt("The receipt as it stands.")), "304", spec{"description": "It still has the version of If-None-Match.",
				"headers": spec{"ETag": ref("headers", "ETag")}}),
			parametersOf("key", "wait", "If-None-Match"))},
		"/v1/receipts/{key}/attempts": spec{"get": operation("getAttempts", "receipts", "List the arrivals and executions of a receipt", "", both,
			with(problems(400, 404, 503), "200", answered("At most the 1000 newest arrivals, oldest first.", asJSON, ref("schemas", "attempts"))), parametersOf("key"))},
		"/v1/receipts/{key}/audit": spec{"get": operation("getAudit", "receipts", "List what happened to a receipt besides calls", "", both,
			with(problems(400, 404, 503), "200", answered("At most the 1000 newest entries, oldest first.", asJSON, ref("schemas", "audit"))), parametersOf("key"))},
		"/v1/bulk/plan": spec{"post": operation("planBulk", "decisions", "Show what a decision about many receipts would do",
			"It changes nothing. At most 1000 receipts; more says that there are others. Never about irreversible tools.", both,
			with(problems(400, 413, 415, 503), "200", answered("The plan.", asJSON, ref("schemas", "bulkPlan"))), bodyOf(ref("schemas", "bulkPlanRequest"), true))},
		"/v1/bulk/run": spec{"post": operation("runBulk", "decisions", "Decide about many receipts",
			"Each item is a decision of its own, with its version and its audit. It is aborted by closing the connection: nothing begins after that.", both,
			with(problems(400, 413, 415), "200", answered("A line per item as it is done, then a summary. Without the summary it was cut off.", "application/x-ndjson", ref("schemas", "bulkLine"))),
			bodyOf(ref("schemas", "bulkRunRequest"), true))},
		"/v1/stats": spec{"get": operation("getStats", "gateway", "Count arrivals, decisions and what is open", "", both,
			with(problems(400, 503), "200", answered("The numbers of the key's tenant.", asJSON, ref("schemas", "stats"))), parametersOf("since", "until", "step"))},
		"/v1/events": spec{"get": operation("getEvents", "gateway", "Watch changes as server-sent events",
			"Each event \"change\" has a change as its data. A change may come twice. \"missed\" says that more happened than is told: read the list.", both,
			with(problems(400), "200", answered("The stream, until the gateway drains.", "text/event-stream", ref("schemas", "change"))), parametersOf("Last-Event-ID"))},
		"/openapi.json": spec{"get": operation("getOpenAPI", "gateway", "This description", "", operators,
			with(spec{}, "200", answered("OpenAPI 3.1.", asJSON, spec{"type": "object"})))},
		"/livez": spec{"get": open(operation("live", "gateway", "Is the process there", "", both,
			with(spec{}, "200", answered("It is.", "text/plain", spec{"type": "string"}))))},
		"/readyz": spec{"get": open(operation("ready", "gateway", "Can calls be written", "", both,
			with(with(spec{}, "200", answered("They can.", asJSON, ref("schemas", "ready"))), "503", answered("They cannot, or the gateway is draining.", asJSON, ref("schemas", "ready"))),
			parametersOf("degraded")))},
		"/metrics": spec{"get": open(operation("metrics", "gateway", "Metrics for Prometheus", "", operators,
			with(spec{}, "200", answered("In Prometheus' or OpenMetrics' text.", "text/plain", spec{"type": "string"}))))},
	}
	for _, v := range verbs {
		doc := verbDocs[v.name]
		statuses := []int{400, 404, 409, 412, 413, 415, 503}
		names := []string{"key", "If-Match"}
		if v.match {
			statuses, names = append(statuses, 428), []string{"key", "If-Match-required"}
		}
		if doc.waits {
			names = append(names, "Prefer")
		}
		p["/v1/receipts/{key}/"+v.name] = spec{"post": operation(v.name, "decisions", doc.summary, doc.description+" Repeated with the same words by the same key, it is one decision.", both,
			with(problems(statuses...), "200", receipt(doc.answer)), parametersOf(names...), bodyOf(verbSchema(v), !v.brief))}
	}
	return p
}

// verbDocs say what each decision does.
var verbDocs = map[string]struct {
	summary, description, answer string
	waits                        bool
}{
	"resolve": {"Settle an unknown", "Says what a person found out: it happened, or it did not.", "The settled receipt.", false},
	"approve": {"Approve and execute", "Approves exactly the arguments of the fingerprint, once, and executes them.",
		"The receipt after the execution, or as it stands when the wait is over: started while it runs on, awaiting_approval while another person must approve.", true},
	"decline":     {"Decline what awaits approval", "Nothing is sent.", "The rejected receipt.", false},
	"reconcile":   {"Look up an unknown now", "Asks the downstream whether it happened. An answer that proves nothing changes nothing.", "The receipt after the lookup.", false},
	"wait":        {"Keep an unknown waiting", "Leaves it unknown, and puts the next check off.", "The receipt with its next check.", false},
	"reexecute":   {"Execute an unknown again", "Acts again at the next fence, because a person says that it is safe. Refused for irreversible tools.", "The receipt after the execution, or started while it runs on.", true},
	"acknowledge": {"See to a doubt", "Says that a person has looked at what may have happened twice.", "The receipt without its doubt.", false},
}
