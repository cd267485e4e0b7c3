package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/gateway/auth"
	"github.com/latchkey-gateway/latchkey/gateway/config"
)

var update = flag.Bool("update", false, "write the golden files anew")

// auditedConfig has tools of every class and every way to resolve an unknown outcome, all
// of them safe.
const auditedConfig = `store: STORE
redis: {mode: embedded}
auth:
  keys:
    - {id: desk, sha256: 79f06f8fde333461739f220090a23cb2a79f6d714bee100d0e4b4af249294619, tenant: acme, roles: [agent, operator]}
downstreams:
  crm: {base_url: "http://127.0.0.1:9100"}
tools:
  find_contact:
    class: read_only
    downstream: crm
    request: {method: GET, path: "/contacts/{args.id}"}
  close_ticket:
    class: idempotent
    downstream: crm
    request: {method: PUT, path: "/tickets/{args.id}", body: {status: closed}}
  send_email:
    class: effectful
    downstream: crm
    request: {method: POST, path: /emails}
    input_schema: {type: object, required: [invoice_id, to], properties: {invoice_id: {type: string}, to: {type: string}}}
    identity: [/invoice_id, /to]
    forward_key: {header: Idempotency-Key}
    on_unknown: lookup
    lookup:
      request: {method: GET, path: "/emails?reference={key}"}
      completed_when: "size(response.body.data) > 0"
      absent_when: "size(response.body.data) == 0"
      absence_is_proof: true
  charge_card:
    class: effectful
    downstream: crm
    request: {method: POST, path: /charges}
    forward_key: {header: Idempotency-Key, dedupes: true, for: 24h}
    on_unknown: retry
  wire:
    class: irreversible
    downstream: crm
    request: {method: POST, path: /wires}
    on_unknown: park
`

// unsafeTool retries an unknown outcome on a downstream that does not dedupe.
const unsafeTool = `  refund:
    class: effectful
    downstream: crm
    request: {method: POST, path: /refunds}
    on_unknown: retry
`

func sqliteConfig(t *testing.T) string {
	t.Helper()
	return strings.Replace(auditedConfig, "STORE", "{driver: sqlite, path: "+filepath.Join(t.TempDir(), "a.db")+"}", 1)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs:\n%s\nwant\n%s", path, got, want)
	}
}

func TestCheckPrintsTheTable(t *testing.T) {
	t.Parallel()
	got := runIn(t, "check", "--config", writeConfig(t, sqliteConfig(t)))
	if got.code != 0 {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
	golden(t, "check.txt", got.stdout)
	// Nothing is wrong; what remains is said all the same.
	for line := range strings.Lines(got.stderr) {
		if !strings.HasPrefix(line, "latchkey: note: ") {
			t.Errorf("stderr: %s", line)
		}
	}
	for _, want := range []string{":13: tools.close_ticket.on_unknown: what is lost is sent again", ":29: tools.send_email.lookup.absence_is_proof: what a lookup does not find",
		":35: tools.charge_card.on_unknown: what is lost is sent again"} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("stderr lacks %q:\n%s", want, got.stderr)
		}
	}
}

func TestCheckRefusesAnUnsafeTool(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, sqliteConfig(t)+unsafeTool)
	got := runIn(t, "check", "--config", path)
	if got.code != 1 {
		t.Errorf("exit %d, want 1", got.code)
	}
	// refund.on_unknown stands on the last line
	if want := "latchkey: error: " + path + ":45: tools.refund.on_unknown: "; !strings.Contains(got.stderr, want) || !strings.Contains(got.stderr, "latchkey: 1 tool setting is unsafe\n") {
		t.Errorf("stderr %q; want %q", got.stderr, want)
	}
	if !strings.Contains(got.stdout, "\nrefund ") {
		t.Errorf("the table lacks the tool:\n%s", got.stdout)
	}
}

func TestCheckAsJSON(t *testing.T) {
	t.Parallel()
	read := func(got answered) report {
		var r report
		dec := json.NewDecoder(strings.NewReader(got.stdout))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&r); err != nil {
			t.Fatalf("%v in %q", err, got.stdout)
		}
		return r
	}
	good := runIn(t, "check", "--json", "--config", writeConfig(t, sqliteConfig(t)))
	if r := read(good); good.code != 0 || !r.OK || len(r.Tools) != 5 || len(r.Problems) != 0 {
		t.Errorf("a good config: exit %d, %+v", good.code, r)
	}
	isNote := func(f finding) bool {
		return f.Severity == downstream.Note && f.Field == "tools.charge_card.on_unknown"
	}
	if r := read(good); !slices.ContainsFunc(r.Findings, isNote) {
		t.Errorf("the remaining risk is not told: %+v", r.Findings)
	}
	bad := runIn(t, "check", "--json", "--config", writeConfig(t, sqliteConfig(t)+unsafeTool))
	r := read(bad)
	isRefund := func(f finding) bool {
		return f.Severity == downstream.Unsafe && f.Tool == "refund" && f.Line == 45 && f.Message != ""
	}
	if bad.code != 1 || r.OK || len(r.Tools) != 6 || !slices.ContainsFunc(r.Findings, isRefund) {
		t.Errorf("an unsafe tool: exit %d, %+v", bad.code, r)
	}
	wrong := runIn(t, "check", "--json", "--config", writeConfig(t, sqliteConfig(t)+"    tmeout: 3s\n"))
	r = read(wrong)
	if wrong.code != 2 || r.OK || len(r.Problems) != 1 || r.Problems[0].Line != 41 || r.Problems[0].Field != "tools.wire.tmeout" || r.Tools == nil {
		t.Errorf("a wrong config: exit %d, %+v", wrong.code, r)
	}
}

func TestCheckReportsAWrongConfig(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, sqliteConfig(t)+"    tmeout: 3s\n    timeout: 3\n")
	got := runIn(t, "check", "--config", path)
	want := "latchkey: " + path + ":41: tools.wire.tmeout: unknown field; did you mean timeout?\n" +
		"latchkey: " + path + ":42: tools.wire.timeout: needs a duration such as 500ms, 30s or 24h, not \"3\"; it lacks a unit\n"
	if got.code != 2 || got.stdout != "" || got.stderr != want {
		t.Errorf("exit %d, stderr\n%s\nwant\n%s", got.code, got.stderr, want)
	}
}

// The example is what people copy: it loads and it is safe.
func TestExampleIsSafe(t *testing.T) {
	t.Parallel()
	values := map[string]string{"LATCHKEY_DSN": "postgres://latchkey@127.0.0.1/latchkey", "BILLING_TOKEN": "token"}
	cfg, warnings, err := config.Load("latchkey.example.yaml", config.Options{
		Env: func(name string) (string, bool) { v, ok := values[name]; return v, ok },
	})
	if err != nil || len(warnings) != 0 {
		t.Fatalf("Load: %v; warnings %v", err, warnings)
	}
	catalogue, err := cfg.Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	_, findings := catalogue.Audit()
	for _, f := range findings {
		if f.Severity == downstream.Unsafe || f.Field != "statuses.503" { // the one that the example explains
			t.Errorf("finding: %+v", f)
		}
	}
	keys := make([]auth.Key, len(cfg.Auth.Keys))
	for i, k := range cfg.Auth.Keys {
		keys[i] = auth.Key(k)
	}
	if _, err := auth.New(keys); err != nil {
		t.Errorf("auth.New: %v", err)
	}
}

func TestExampleShowsEveryField(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("latchkey.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(typ.Elem())
		case reflect.Struct:
			if seen[typ] {
				return
			}
			seen[typ] = true
			for field := range typ.Fields() {
				if name := field.Tag.Get("yaml"); name != "" {
					if !regexp.MustCompile(`(?m)(^|[ {#])` + name + `:`).Match(text) {
						t.Errorf("the example does not show %s (of %s)", name, typ)
					}
					walk(field.Type)
				}
			}
		}
	}
	walk(reflect.TypeFor[config.Config]())
	if len(seen) < 10 {
		t.Errorf("only %d sections were looked at", len(seen))
	}
}

// The two packages know nothing of each other: their roles must be the same.
func TestRolesOfConfigAndAuthAgree(t *testing.T) {
	t.Parallel()
	for r := auth.Agent; r <= auth.Operator+1; r++ {
		text := strings.Replace(sqliteConfig(t), "[agent, operator]", "[operator, "+r.String()+"]", 1)
		_, _, err := config.Parse("latchkey.yaml", []byte(text), config.Options{})
		if known := r <= auth.Operator; known != (err == nil) {
			t.Errorf("role %s: %v", r, err)
		}
	}
}
