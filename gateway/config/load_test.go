package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/gateway/config"
)

// minimal is the smallest config that loads without a warning. Its lines are numbered by
// the tests that add to it.
const minimal = `store: {driver: postgres, dsn: "postgres://x@127.0.0.1/latchkey"}
auth:
  keys:
    - {id: desk, sha256: 79f06f8fde333461739f220090a23cb2a79f6d714bee100d0e4b4af249294619, tenant: acme, roles: [agent, operator]}
downstreams:
  billing: {base_url: "http://127.0.0.1:9100"}
tools:
  send:
    class: effectful
    downstream: billing
    request: {method: POST, path: /emails}
`

var env = map[string]string{"TOKEN": "s3cret-token", "EMPTY": "", "PORT": "8443", "DB": "3", "ON": "on",
	"LATCHKEY_DSN": "postgres://u:pw-of-the-store@db/latchkey", "BILLING_TOKEN": "t", "LATCHKEY_REDIS_PASSWORD": "", "HOSTNAME": "replica-1",
	"LATCHKEY_SEAL_KEY":    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
	"LATCHKEY_DESK_SHA256": "b867ab5fbf1da1b4de7ba3b5ae7a0d9cd6f8d38a0d62cd9e4d3ee0c0e8fa1c1e"}

func options() config.Options {
	return config.Options{Env: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
}

func parse(text string) (*config.Config, []config.Warning, error) {
	return config.Parse("latchkey.yaml", []byte(text), options())
}

func mustParse(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, _, err := parse(text)
	if err != nil {
		t.Fatalf("Parse:\n%v", err)
	}
	return cfg
}

func TestMinimalConfigGetsTheDefaultsOfTheContract(t *testing.T) {
	t.Parallel()
	cfg, warnings, err := parse(minimal)
	if err != nil || len(warnings) != 0 {
		t.Fatalf("Parse: %v, warnings %v", err, warnings)
	}
	for _, test := range []struct{ name, got, want any }{
		{"region", cfg.Region, "local"},
		{"listen", cfg.Listen, "127.0.0.1:8080"},
		{"operator_listen", cfg.OperatorListen, "127.0.0.1:8081"},
		{"pprof", cfg.Pprof, false},
		{"lease", cfg.Lease, 10 * time.Second},
		{"redis.mode", cfg.Redis.Mode, "standalone"},
		{"redis.addrs", cfg.Redis.Addrs, []string{"127.0.0.1:6379"}},
		{"redis.prefix", cfg.Redis.Prefix, "latchkey"},
		{"store.migrate", cfg.Store.Migrate, true},
		{"limits", cfg.Limits, config.Limits{Body: 1 << 20, Result: 1 << 20, Wait: 30 * time.Second, InFlight: 4096}},
		{"retention", cfg.Retention, config.Retention{Hot: 24 * time.Hour, Result: 720 * time.Hour, Tombstone: 9600 * time.Hour}},
		{"downstream", cfg.Downstreams["billing"], config.Downstream{BaseURL: "http://127.0.0.1:9100", Timeout: 30 * time.Second, MaxInFlight: 256,
			Breaker: config.Breaker{Window: 30 * time.Second, MinRequests: 20, FailureRatio: 0.5, OpenFor: 10 * time.Second, HalfOpenProbes: 3}}},
		{"tracing", cfg.Tracing, config.Tracing{Sample: 1}},
	} {
		if !reflect.DeepEqual(test.got, test.want) {
			t.Errorf("%s = %+v, want %+v", test.name, test.got, test.want)
		}
	}
	if cfg.Replica == "" {
		t.Error("the replica has no name")
	}
	catalogue, err := cfg.Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := catalogue.Tool("send"); !ok {
		t.Error("the catalogue lacks the tool")
	}
}

// The example of the product's public contract, word for word but for the key's hash.
func TestContractExampleLoads(t *testing.T) {
	t.Parallel()
	cfg, warnings, err := config.Load(filepath.Join("testdata", "contract.yaml"), options())
	if err != nil {
		t.Fatalf("Load:\n%v", err)
	}
	if len(warnings) != 0 {
		t.Errorf("warnings = %v", warnings)
	}
	tool := cfg.Tools["send_invoice_email"]
	want := config.Tool{
		Class:       "effectful",
		Description: "Send an invoice by email",
		InputSchema: config.JSON(`{"type":"object","required":["invoice_id","to"],"properties":{"invoice_id":{"type":"string"},"to":{"type":"string"},"memo":{"type":"string"}}}`),
		Downstream:  "billing",
		Request:     config.Request{Method: "POST", Path: "/emails", Body: config.Body{Kind: "args"}},
		Timeout:     10 * time.Second,
		Identity:    []string{"/invoice_id", "/to"},
		Volatile:    []string{"/requested_at"},
		Normalise:   map[string][]string{"/to": {"trim", "lowercase"}},
		Redact:      []string{"/card_number"},
		Durability:  "durable",
		StepGuard:   "on",
		ForwardKey:  &config.ForwardKey{Header: "Idempotency-Key", Dedupes: true, For: 24 * time.Hour},
		Statuses:    map[int]string{503: "not_accepted"},
		OnUnknown:   "lookup",
		Lookup: &config.Lookup{
			Request:        config.Request{Method: "GET", Path: "/emails?reference={key}"},
			SettleAfter:    time.Minute,
			Every:          5 * time.Second,
			GiveUpAfter:    24 * time.Hour,
			CompletedWhen:  "response.status == 200 && size(response.body.data) > 0",
			Result:         "response.body.data[0]",
			AbsentWhen:     "response.status == 200 && size(response.body.data) == 0",
			AbsenceIsProof: true,
		},
		Approval: &config.Approval{Expires: time.Hour, People: 1},
	}
	if !reflect.DeepEqual(tool, want) {
		t.Errorf("tool = %+v\nwant   %+v", tool, want)
	}
	if got := cfg.Tracing.OTLP; got == nil || got.Endpoint != "127.0.0.1:4317" || got.Protocol != "grpc" {
		t.Errorf("tracing.otlp = %+v", got)
	}
	if got := cfg.Downstreams["billing"].Headers["Authorization"]; got != "Bearer t" {
		t.Errorf("header = %q", got)
	}
	if got := cfg.Line("tools.send_invoice_email.lookup.every"); got != 38 {
		t.Errorf("Line = %d, want 38", got)
	}
}

func TestReferences(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{"token": "from file\n", "two": "a\n\n", "crlf": "a\r\n", "bytes": "\xff\xfe", "port": "8081\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ written, want, problem string }{
		{"${env:TOKEN}", "s3cret-token", ""},
		{"Bearer ${env:TOKEN}", "Bearer s3cret-token", ""},
		{"${env:TOKEN}-${env:PORT}.", "s3cret-token-8443.", ""},
		{"${env:EMPTY}", "", ""},
		{"${file:token}", "from file", ""},
		{"${file:two}", "a\n", ""},
		{"${file:crlf}", "a", ""},
		{"${file:" + dir + "/token}", "from file", ""},
		{"$${env:TOKEN}", "${env:TOKEN}", ""},
		{"$$${env:TOKEN}", "$${env:TOKEN}", ""},
		{"costs $5 and $$5", "costs $5 and $$5", ""},
		{"${env:MISSING}", "", "environment variable MISSING is not set"},
		{"${env:TOKEN:-x}", "", "is not the name of an environment variable"},
		{"${env:}", "", "is not the name of an environment variable"},
		{"${file:}", "", "needs a path"},
		{"${file:missing}", "", "no such file"},
		{"${file:bytes}", "", "UTF-8"},
		{"${TOKEN}", "", "is neither ${env:NAME} nor ${file:PATH}; write $${ for a plain ${"},
		{"${env:TOKEN", "", "has no closing }"},
	} {
		t.Run(test.written, func(t *testing.T) {
			t.Parallel()
			text := minimal + fmt.Sprintf("    description: '%s'\n", test.written)
			opts := options()
			cfg, _, err := config.Parse(filepath.Join(dir, "latchkey.yaml"), []byte(text), opts)
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), "latchkey.yaml:12: tools.send.description: ") || !strings.Contains(err.Error(), test.problem) {
					t.Fatalf("Parse: %v; want line 12 and %q", err, test.problem)
				}
				return
			}
			if err != nil {
				t.Fatalf("Parse: %v", err)
			}
			if got := cfg.Tools["send"].Description; got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestAReferenceMayStandForANumberOrSwitch(t *testing.T) {
	t.Parallel()
	cfg := mustParse(t, minimal+"    step_guard: ${env:ON}\nredis: {db: \"${env:DB}\"}\nlisten: 127.0.0.1:${env:PORT}\nlimits: {in_flight: \"${env:DB}\", body: \"${env:PORT}\"}\n")
	if cfg.Redis.DB != 3 || cfg.Limits.InFlight != 3 || cfg.Limits.Body != 8443 || cfg.Listen != "127.0.0.1:8443" || cfg.Tools["send"].StepGuard != "on" {
		t.Errorf("got %+v", cfg)
	}
	if _, _, err := parse(minimal + "redis: {db: \"3\"}\n"); err == nil {
		t.Error("a quoted number without a reference was taken for a number")
	}
}

func TestProblemsNeverShowWhatAReferenceStandsFor(t *testing.T) {
	t.Parallel()
	text := strings.ReplaceAll(minimal, "http://127.0.0.1:9100", "${env:TOKEN}") +
		"    step_guard: ${env:TOKEN}\n    timeout: ${env:TOKEN}\n    on_unknown: ${env:TOKEN}\n    identity: [\"${env:TOKEN}\"]\n" +
		"listen: ${env:TOKEN}\nredis: {db: \"${env:TOKEN}\", mode: \"${env:TOKEN}\", tls: {ca: \"${env:TOKEN}\"}}\nlimits: {body: \"${env:TOKEN}\"}\n"
	_, _, err := parse(text)
	problems, ok := errors.AsType[config.Problems](err)
	if !ok || len(problems) < 9 {
		t.Fatalf("Parse: %v; want a problem for each reference", err)
	}
	if strings.Contains(err.Error(), env["TOKEN"]) {
		t.Errorf("the problems show a secret:\n%v", err)
	}
}

func TestSwitchesInEveryForm(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]config.Switch{"on": "on", "On": "on", `"on"`: "on", "true": "on", "off": "off", "OFF": "off", "false": "off"} {
		cfg := mustParse(t, minimal+"    step_guard: "+written+"\n")
		if got := cfg.Tools["send"].StepGuard; got != want {
			t.Errorf("step_guard: %s = %q, want %q", written, got, want)
		}
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]config.Size{"2048": 2048, `"2048"`: 2048, "1KiB": 1024, "1MiB": 1 << 20, "10MB": 10_000_000, "1.5MiB": 1536 << 10, "4 KiB": 4096, "2000B": 2000} {
		cfg := mustParse(t, minimal+"limits: {body: "+written+"}\n")
		if cfg.Limits.Body != want {
			t.Errorf("body: %s = %d, want %d", written, cfg.Limits.Body, want)
		}
	}
}

func TestFreeFormValuesStayExact(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		`{const: 9007199254740993}`:               `{"const":9007199254740993}`,
		`{const: 123456789012345678901234567890}`: `{"const":123456789012345678901234567890}`,
		`{const: 1.10}`:                           `{"const":1.10}`,
		`{const: -0.5e-3}`:                        `{"const":-0.5e-3}`,
		`{b: 1, a: [true, False, null, ~, "x"]}`:  `{"b":1,"a":[true,false,null,null,"x"]}`,
		`{enum: [on, yes, 2024-01-01, "1", '']}`:  `{"enum":["on","yes","2024-01-01","1",""]}`,
		`{}`:                                      `{}`,
		`{a: [], b: {}}`:                          `{"a":[],"b":{}}`,
		`{"a": "é \" \\ \n 😀"}`:                   `{"a":"é \" \\ \n 😀"}`,
		`{a: "${env:PORT}", b: "$${x}"}`:          `{"a":"8443","b":"${x}"}`,
		`{a: &x {k: 1}, b: *x}`:                   `{"a":{"k":1},"b":{"k":1}}`,
	} {
		cfg := mustParse(t, minimal+"    input_schema: "+written+"\n")
		if got := string(cfg.Tools["send"].InputSchema); got != want {
			t.Errorf("%s = %s, want %s", written, got, want)
		}
	}
}

func TestJSONIsTaken(t *testing.T) {
	t.Parallel()
	text := `{
	"store": {"driver": "sqlite", "path": "a.db"}, "redis": {"mode": "embedded"},
	"auth": {"keys": [{"id": "d", "sha256": "79f06f8fde333461739f220090a23cb2a79f6d714bee100d0e4b4af249294619", "tenant": "acme", "roles": ["operator"]}]},
	"downstreams": {"billing": {"base_url": "http:\/\/127.0.0.1:9100"}},
	"tools": {"send": {"class": "effectful", "downstream": "billing", "description": "\ud83d\ude00",
		"request": {"method": "POST", "path": "/e", "body": {"n": 9007199254740993, "e": 1e2}},
		"statuses": {"503": "not_accepted"}, "step_guard": true}}
}`
	cfg := mustParse(t, text)
	tool := cfg.Tools["send"]
	if tool.Description != "😀" || string(tool.Request.Body.Template) != `{"n":9007199254740993,"e":1e2}` || tool.Statuses[503] != "not_accepted" || tool.StepGuard != "on" {
		t.Errorf("tool = %+v", tool)
	}
	_, _, err := parse(strings.Replace(text, `"statuses"`, `"statusses"`, 1))
	if want := "latchkey.yaml:7: tools.send.statusses: unknown field; did you mean statuses?"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, _, err = parse(strings.Replace(text, `"path": "a.db"`, `"path": "a.db", "path": "b.db"`, 1))
	if want := "latchkey.yaml:2: store.path: duplicate name, first on line 2"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestLoadReportsAFileThatCannotBeRead(t *testing.T) {
	t.Parallel()
	_, _, err := config.Load("testdata/none.yaml", config.Options{})
	if problems, ok := errors.AsType[config.Problems](err); !ok || len(problems) != 1 || problems[0].Error() != "testdata/none.yaml: cannot be read: no such file or directory" {
		t.Errorf("Load: %v", err)
	}
}
