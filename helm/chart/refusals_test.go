package chart

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	sigsyaml "sigs.k8s.io/yaml"
)

// Each of these is the minimal set with a change that must be refused, and what the refusal
// must name.
var refused = []struct{ change, names string }{
	{`replicas: 3`, "replicas"}, // misspelt replicaCount
	{`replicaCount: "3"`, "replicaCount"},
	{`logLevel: verbose`, "logLevel"},
	{`image: {digest: "sha256:abc"}`, "digest"},
	{`image: {pullPolicy: Sometimes}`, "pullPolicy"},
	{`agents: {port: 80}`, "agents"}, // a pod that is not root cannot open it
	{`agents: {service: {type: Cluster}}`, "type"},
	{`agents: {ingress: {enabled: true}}`, "hosts"},
	{`probes: {liveness: {path: /readyz}}`, "liveness"}, // an outage of Redis would restart every pod
	{`probes: {readiness: {path: /healthz}}`, "readiness"},
	{`podSecurityContext: {runAsUser: 0}`, "runAsUser"},
	{`podSecurityContext: {runAsNonRoot: false}`, "runAsNonRoot"},
	{`securityContext: {privileged: true}`, "privileged"},
	{`existingSecrets: {env: {"NOT-A-NAME": {name: a, key: b}}}`, "NOT-A-NAME"},
	{`existingSecrets: {env: {TOKEN: {name: a}}}`, "key"},
	{`configKind: File`, "configKind"},
	{`config: {listen: "127.0.0.1:8080"}`, "listen"},
	{`config: {operator_listen: "0.0.0.0:1"}`, "operator_listen"},
	{`config: {redis: {mode: embedded}}`, "mode"},
	{`config: {store: {driver: sqlite}}`, "driver"},
	{`config: {lease: 10}`, "lease"},
	{`config: {tools: {find_invoice: {class: harmless}}}`, "class"},
	{`config: {tools: {find_invoice: {timeout: soon}}}`, "timeout"},
	{`config: {redis: {addrs: []}}`, "config.redis.addrs must be given"},
	{`config: {auth: {keys: []}}`, "config.auth.keys must be given"},
	{`existingSecrets: {dsn: {name: ""}}`, "existingSecrets.dsn.name"},
	{`longestToolTimeout: 5s`, "longestToolTimeout 5s is shorter"},
	{`longestToolTimeout: 5`, "longestToolTimeout"},
	{`terminationGracePeriodSeconds: 30`, "at least 60"},
	{`existingConfig: {name: mine}`, "longestToolTimeout must be given"},
	{`prometheusRule: {enabled: true, runbookBaseUrl: "runbooks/"}`, "runbookBaseUrl"},
	{`autoscaling: {enabled: true, minReplicas: 0}`, "minReplicas"},
}

func TestWrongValuesAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range refused {
		t.Run(tt.change, func(t *testing.T) {
			t.Parallel()
			var change Values
			if err := sigsyaml.Unmarshal([]byte(tt.change), &change); err != nil {
				t.Fatal(err)
			}
			values := chartutil.CoalesceTables(change, sets(t)["minimal"])
			_, err := Render(dir, values, Options{Release: "rel", Namespace: "gateways"})
			if err == nil {
				t.Fatal("it was taken")
			}
			if !strings.Contains(err.Error(), tt.names) {
				t.Errorf("the refusal does not name %q: %v", tt.names, err)
			}
		})
	}
}

// A default that the schema does not know could not be set; a value that the schema knows
// and that has no default is documented nowhere.
func TestSchemaAndDefaultsMeet(t *testing.T) {
	t.Parallel()
	loaded, err := loader.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	data, err := os.ReadFile(dir + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	compare(t, "", schema, loaded.Values)
}

func compare(t *testing.T, at string, schema map[string]any, values map[string]any) {
	t.Helper()
	properties, _ := schema["properties"].(map[string]any)
	if open, isBool := schema["additionalProperties"].(bool); !isBool || open {
		return // free names
	}
	for name := range values {
		if properties[name] == nil {
			t.Errorf("%s.%s has a default and is unknown to the schema", at, name)
		}
	}
	for name, p := range properties {
		value, ok := values[name]
		if !ok && name != "global" && !optional[at+"."+name] {
			t.Errorf("%s.%s is in the schema and not in values.yaml", at, name)
		}
		inner, _ := p.(map[string]any)
		if below, ok := value.(map[string]any); ok && inner != nil {
			compare(t, at+"."+name, inner, below)
		}
	}
}

// optional are parts of a Kubernetes type of which values.yaml shows only what it sets.
var optional = map[string]bool{".resources.claims": true, ".migration.resources.claims": true}
