package chaos

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/fleet"
	"github.com/latchkey-gateway/latchkey/loadtest/history"
)

// Patience is the tools' timeout in every run: short, so that much goes wrong in a minute.
const Patience = time.Second

// Lease of a claim; a replica that sleeps longer loses it.
const Lease = 2 * time.Second

// Tenants are whose agents call. The keys are not secret: everything listens on loopback
// for the time of a run.
var Tenants = [2]fleet.Tenant{
	{Name: "acme", AgentKey: "loadtest-acme-agent", OperatorKey: "loadtest-acme-operator"},
	{Name: "globex", AgentKey: "loadtest-globex-agent", OperatorKey: "loadtest-globex-operator"},
}

type object = map[string]any

// gatewayConfig is the config of one replica.
func gatewayConfig(region, downstream string, redis, store object, faults object) object {
	var keys []any
	for _, t := range Tenants {
		for role, key := range map[string]string{"agent": t.AgentKey, "operator": t.OperatorKey} {
			sum := sha256.Sum256([]byte(key))
			keys = append(keys, object{"id": t.Name + "-" + role, "sha256": hex.EncodeToString(sum[:]), "tenant": t.Name, "roles": []string{role}})
		}
	}
	tools := object{}
	for _, t := range history.Tools {
		tools[t.Name] = tool(t)
	}
	config := object{
		"region": region, "redis": redis, "store": store, "lease": Lease.String(),
		"limits": object{"in_flight": 4096, "wait": "10s"},
		"auth":   object{"keys": keys},
		"downstreams": object{"target": object{
			"base_url": "http://" + downstream, "timeout": Patience.String(), "max_in_flight": 1024,
			// Open often enough to be seen, and not for long.
			"breaker": object{"window": "2s", "min_requests": 20, "failure_ratio": 0.8, "open_for": "500ms", "half_open_probes": 5},
		}},
		"tools": tools,
	}
	if len(faults) > 0 {
		config["faults"] = faults
	}
	return config
}

// tool is a tool's config. Between them they end an unknown outcome in every way.
func tool(t history.Tool) object {
	if t.Class == "read_only" {
		return object{"class": t.Class, "downstream": "target", "description": "Finds something",
			"request": object{"method": "GET", "path": "/" + t.Name + "?q={args.ref}"}}
	}
	text := object{"type": "string"}
	c := object{
		"class": t.Class, "downstream": "target", "description": "Does what the agent asks for",
		"request":     object{"method": "POST", "path": "/" + t.Name, "body": "args"},
		"identity":    []string{"/ref", "/to"},
		"normalise":   object{"/to": []string{"trim", "lowercase"}},
		"on_unknown":  "park",
		"forward_key": object{"header": "Idempotency-Key"},
		"input_schema": object{"type": "object", "required": []string{"ref", "to"},
			"properties": object{"ref": text, "to": text, "memo": text, "amount": object{"type": "integer"}}},
	}
	if t.Hot {
		c["durability"] = "hot"
	}
	switch t.Name {
	case "ticket": // longer than a lease: an answer can come after its key was lost
		c["timeout"] = (3 * Lease).String()
	case "mail":
		c["on_unknown"], c["lookup"] = "lookup", lookup(t, true)
	case "wire":
		c["on_unknown"], c["lookup"] = "lookup", lookup(t, false)
		c["approval"] = object{"expires": "5m"}
	case "charge", "status":
		c["on_unknown"] = "retry"
		c["forward_key"] = object{"header": "Idempotency-Key", "dedupes": t.Dedupes, "for": "24h"}
	}
	return c
}

// lookup is what the target promises: an effect happens within LateAtMost and shows within
// LagAtMost, so that absence after six times the patience is proof.
func lookup(t history.Tool, proof bool) object {
	l := object{
		"request":      object{"method": "GET", "path": "/" + t.Name + "?reference={key}"},
		"settle_after": (6 * Patience).String(), "every": "500ms", "give_up_after": "20s",
		"completed_when": "response.status == 200 && size(response.body.data) > 0",
		"result":         "response.body.data[0]",
		"absent_when":    "response.status == 200 && size(response.body.data) == 0",
	}
	if proof {
		l["absence_is_proof"], l["reexecute_when_absent"] = true, true
	}
	return l
}
