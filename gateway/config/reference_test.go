package config_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/gateway/config"
)

// TestEveryFieldIsExplained: the structs are the reference, so each field has a sentence
// and says its default, in the tag or in words, unless the sentence says that it is needed.
func TestEveryFieldIsExplained(t *testing.T) {
	t.Parallel()
	fset := token.NewFileSet()
	seen := 0
	for _, file := range []string{"config.go", "tools.go", "scalar.go"} {
		tree, err := parser.ParseFile(fset, file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			fields, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			doc := ""
			for _, f := range fields.Fields.List {
				if f.Tag == nil {
					continue
				}
				seen++
				// A comment may speak of the field and the one below it.
				if f.Doc != nil {
					doc = f.Doc.Text()
				}
				name := f.Names[0].Name
				if nested(f.Type) {
					continue
				}
				if !strings.Contains(doc, name) {
					t.Errorf("%s.%s has no sentence", spec.Name.Name, name)
				}
				if tag := f.Tag.Value; !strings.Contains(tag, "default:") && !strings.Contains(strings.ToLower(doc), "default") && !explained[spec.Name.Name+"."+name] && !strings.Contains(doc, "Required") {
					t.Errorf("%s.%s says nothing about its default", spec.Name.Name, name)
				}
			}
			return true
		})
	}
	if seen < 80 {
		t.Errorf("only %d fields were looked at", seen)
	}
}

// nested sections have a comment at their type.
func nested(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && ast.IsExported(id.Name) && id.Name != "Size" && id.Name != "Switch" && id.Name != "JSON" && id.Name != "Body" && id.Name != "TLS"
}

// explained are needed fields, or needed with another one, as their sentence says.
var explained = map[string]bool{"Redis.MasterName": true, "Store.DSN": true, "Store.Path": true, "Config.Downstreams": true, "Config.Tools": true,
	"Auth.Keys": true, "Key.ID": true, "Key.SHA256": true, "Key.Tenant": true, "Key.Roles": true, "Downstream.BaseURL": true, "Tool.Approval": true}

// TestSpecsCarryEveryField fails when a field is read from the file and then dropped on its
// way to package downstream.
func TestSpecsCarryEveryField(t *testing.T) {
	t.Parallel()
	for _, pair := range []struct{ from, to reflect.Type }{
		{reflect.TypeFor[config.Tool](), reflect.TypeFor[downstream.ToolSpec]()},
		{reflect.TypeFor[config.Downstream](), reflect.TypeFor[downstream.Spec]()},
		{reflect.TypeFor[config.Lookup](), reflect.TypeFor[downstream.LookupSpec]()},
		{reflect.TypeFor[config.Approval](), reflect.TypeFor[downstream.ApprovalSpec]()},
	} {
		for field := range pair.to.Fields() {
			name := field.Name
			if _, ok := pair.from.FieldByName(name); !ok && name != "Name" {
				t.Errorf("%s has no field %s", pair.from, name)
			}
		}
	}
	cfg, _, err := config.Load(filepath.Join("testdata", "contract.yaml"), options())
	if err != nil {
		t.Fatal(err)
	}
	catalogue, err := cfg.Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	tool, _ := catalogue.Tool("send_invoice_email")
	if tool.Timeout != 10*time.Second || tool.ForwardHeader != "Idempotency-Key" || !tool.Dedupes || tool.DedupesFor != 24*time.Hour ||
		tool.OnUnknown != downstream.LookupUnknown || tool.Lookup == nil || tool.Lookup.Every != 5*time.Second || !tool.Lookup.AbsenceIsProof ||
		tool.Approval == nil || tool.Approval.People != 1 || !tool.NeedsArgsAgain() || len(cfg.Store.Seal()) != 32 || tool.Statuses[503] != "not_accepted" || !tool.Rules.StepGuard || len(tool.Rules.Identity) != 2 ||
		len(tool.Rules.Volatile) != 1 || len(tool.Rules.Redact) != 1 || len(tool.Rules.Normalise) != 1 || tool.Schema == nil || tool.Method != "POST" || tool.Description == "" {
		t.Errorf("tool = %+v", tool)
	}
	for _, d := range catalogue.Downstreams() {
		if d.Name == "billing" && (d.Breaker.MinRequests != 20 || d.MaxInFlight != 256 || d.Headers["Authorization"] != "Bearer t") {
			t.Errorf("downstream = %+v", d)
		}
	}
}

// FuzzParse: whatever the text, Parse answers with a config or with problems that have a
// file and a text, and never panics.
func FuzzParse(f *testing.F) {
	f.Add([]byte(minimal))
	contract, err := os.ReadFile(filepath.Join("testdata", "contract.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(contract)
	for _, test := range refused {
		f.Add([]byte(minimal + test.new))
	}
	for _, s := range []string{"", "\x00", "\xff\xfe", "&a [*a]", "a: &a {b: *a}", "tools: {x: {input_schema: &a [*a, *a]}}", "- - - -", "{", `{"a":`, "? ", "!!map x",
		"tools: &t {a: {input_schema: {k: *t}}}", "redis: {tls: }", "redis: *x", "tools: {x: {request: {body: &b {c: *b}}}}", "<<: *a", "tools: {x: !!set {a}}",
		"lease: !!str", "lease: !!int \"x\"", "lease: !!timestamp 2000", "tracing: {sample: 1e999}", "limits: {body: 99999999999999999999GiB}", "listen: ${"} {
		f.Add([]byte(s))
	}
	opts := config.Options{
		Env:      func(name string) (string, bool) { return name, len(name)%2 == 0 },
		ReadFile: func(path string) ([]byte, error) { return []byte(path), nil },
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, _, err := config.Parse("f.yaml", data, opts)
		if err == nil {
			if _, err := cfg.Catalogue(); err != nil {
				t.Errorf("a config that loads has no catalogue: %v", err)
			}
			return
		}
		problems, ok := err.(config.Problems)
		if !ok || len(problems) == 0 || cfg != nil {
			t.Fatalf("Parse = %v, %T", cfg, err)
		}
		for _, p := range problems {
			if p.File == "" || p.Message == "" || p.Line < 0 {
				t.Errorf("a problem without file or text: %+v", p)
			}
		}
	})
}

func TestAliasesThatExplodeAreRefused(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString(minimal + "    input_schema:\n      a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n")
	for i := range 9 {
		a, b := "a"+string(rune('0'+i)), "a"+string(rune('1'+i))
		text.WriteString("      " + b + ": &" + b + " [" + strings.TrimSuffix(strings.Repeat("*"+a+",", 10), ",") + "]\n")
	}
	_, _, err := parse(text.String())
	if err == nil || !strings.Contains(err.Error(), "too many values") {
		t.Errorf("Parse: %v", err)
	}
	_, _, err = parse(minimal + "    input_schema: &a {b: *a}\n")
	if err == nil || !strings.Contains(err.Error(), "nested deeper") {
		t.Errorf("a value that contains itself: %v", err)
	}
}
