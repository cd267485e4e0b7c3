package downstream

import (
	"strings"
	"testing"

	"github.com/latchkey-gateway/latchkey/intent"
)

func withSchema(t testing.TB, schema string) *Tool {
	t.Helper()
	spec := emailSpec()
	spec.InputSchema = []byte(schema)
	tool, _ := load(t, "http://x", spec).Tool("send")
	return tool
}

func TestValidate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		schema, args string
		pointer      string // "-": valid
		says         string
	}{
		{`{"type":"object","required":["to"],"properties":{"to":{"type":"string"}}}`, `{"to":"a"}`, "-", ""},
		{`{"type":"object","required":["to"]}`, `{}`, "/to", "/to is required."},
		{`{"properties":{"a":{"properties":{"b/c":{"type":"string"}}}}}`, `{"a":{"b/c":7}}`, "/a/b~1c", "must be of type string"},
		{`{"properties":{"a":{"type":["string","null"]}}}`, `{"a":1}`, "/a", "null or string"},
		{`{"properties":{"a":{"items":{"type":"integer"}}}}`, `{"a":[1,1.0,1.5]}`, "/a/2", "integer"},
		{`{"additionalProperties":false,"properties":{"a":true}}`, `{"a":1,"b":2}`, "/b", "leave it out"},
		{`{"properties":{"a":{"enum":["x",1]}}}`, `{"a":"secret"}`, "/a", `must be one of "x", 1`},
		{`{"properties":{"a":{"const":"x"}}}`, `{"a":"secret"}`, "/a", `must be "x"`},
		{`{"properties":{"a":{"pattern":"^x"}}}`, `{"a":"secret"}`, "/a", "^x"},
		{`{"properties":{"a":{"minLength":10}}}`, `{"a":"secret"}`, "/a", "at least 10"},
		{`{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`, `{"a":1}`, "/a", "none of the forms"},
		{`{"properties":{"a":{"oneOf":[{"minimum":1},{"minimum":2}]}}}`, `{"a":3}`, "/a", "exactly one"},
		{`{"properties":{"a":{"not":{"type":"string"}}}}`, `{"a":"secret"}`, "/a", "not allowed"},
		{`{"properties":{"a":false}}`, `{"a":"secret"}`, "/a", "leave it out"},
		{`{"properties":{"a":{"uniqueItems":true}}}`, `{"a":[1,2,1.0]}`, "/a", "elements 0 and 2"},
		{`{"properties":{"a":{"contains":{"type":"string"}}}}`, `{"a":[1]}`, "/a", "elements"},
		{`{"dependentRequired":{"a":["b"]}}`, `{"a":"secret"}`, "/b", "together with a"},
		{`{"propertyNames":{"pattern":"^x"}}`, `{"secret":1}`, "", "name is not allowed"},
		{`{"$ref":"#/$defs/x","$defs":{"x":{"required":["to"]}}}`, `{}`, "/to", "is required"},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"type":"string"}}}`, `{"a":1}`, "/a", "string"},
		{`{"if":{"required":["a"]},"then":{"required":["b"]}}`, `{"a":1}`, "/b", "is required"},
		// Numbers are exact: float64 would merge the first two, and drop the last digit.
		{`{"properties":{"a":{"const":9007199254740993}}}`, `{"a":9007199254740993}`, "-", ""},
		{`{"properties":{"a":{"const":9007199254740993}}}`, `{"a":9007199254740992}`, "/a", "must be 9007199254740993"},
		{`{"properties":{"a":{"maximum":9007199254740992}}}`, `{"a":9007199254740993}`, "/a", "at most 9007199254740992"},
		{`{"properties":{"a":{"exclusiveMaximum":0.3}}}`, `{"a":0.29999999999999999999}`, "-", ""},
		{`{"properties":{"a":{"multipleOf":0.01}}}`, `{"a":19.99}`, "-", ""},
		{`{"properties":{"a":{"multipleOf":0.01}}}`, `{"a":19.999}`, "/a", "multiple of 0.01"},
		{`{"properties":{"a":{"type":"integer"}}}`, `{"a":123456789012345678901234567890}`, "-", ""},
		{`{"properties":{"a":{"type":"integer"}}}`, `{"a":1e2}`, "-", ""},
		// What the validator would panic on, or choke on.
		{`{"properties":{"a":{"minimum":1}}}`, `{"a":1e999999999}`, "/a", "too large or too small"},
		{`{"properties":{"a":{"minimum":1}}}`, `{"b":[{"c":1e-999999999}]}`, "/b/0/c", "too large or too small"},
		{`{"properties":{"a":{"minimum":1}}}`, `{"a":1` + strings.Repeat("0", 2000) + `}`, "/a", "too large or too small"},
		{`{}`, `[1]`, "", "args must be a JSON object"},
		{`{}`, `"secret"`, "", "args must be a JSON object"},
		{`{"type":"object"}`, `{"anything":null}`, "-", ""},
	}
	for _, tt := range tests {
		tool := withSchema(t, tt.schema)
		err := tool.Validate(parse(t, tt.args))
		if tt.pointer == "-" {
			if err != nil {
				t.Errorf("%s refuses %s: %v", tt.schema, tt.args, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%s takes %s", tt.schema, tt.args)
			continue
		}
		if err.Category != intent.InvalidArguments || err.Pointer != tt.pointer || !strings.Contains(err.Public, tt.says) {
			t.Errorf("%s on %.100s: %q at %q, want %q at %q", tt.schema, tt.args, err.Public, err.Pointer, tt.says, tt.pointer)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error repeats an argument: %q", err)
		}
	}
}

func TestTheSameMistakesGetTheSameAnswer(t *testing.T) {
	t.Parallel()
	tool := withSchema(t, `{"properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"string"},"d":{"type":"string"}},"required":["e"]}`)
	const want = "/a must be of type string. /b must be of type string. /c must be of type string. And 2 more."
	for range 20 {
		if err := tool.Validate(parse(t, `{"d":1,"c":1,"b":1,"a":1}`)); err == nil || err.Public != want || err.Pointer != "/a" {
			t.Fatalf("%v", err)
		}
	}
}

func TestALongNameIsCut(t *testing.T) {
	t.Parallel()
	tool := withSchema(t, `{"additionalProperties":false}`)
	if err := tool.Validate(parse(t, `{"`+strings.Repeat("é", 5000)+`":1}`)); err == nil || len(err.Public) > 300 {
		t.Errorf("%v", err)
	}
}

// Whatever the arguments are, validating neither panics nor repeats a marked value.
func FuzzValidate(f *testing.F) {
	schema := `{"type":"object","required":["to"],"additionalProperties":{"type":["number","array","object"],"multipleOf":0.01,"minimum":-5,"items":{"type":"string"}},
		"properties":{"to":{"type":"string","pattern":"^[a-z]+$","maxLength":5},"n":{"enum":[1,"x"]},"u":{"uniqueItems":true},"o":{"oneOf":[{"type":"string"},{"maximum":3}]}}}`
	for _, seed := range []string{`{}`, `{"to":"MARKED"}`, `{"to":"a","n":1e400,"u":[1,1.0],"o":4}`, `{"x":{"y":[1e-400]}}`, `[]`, `{"to":"a","u":[{"a":[]},{"a":[]}]}`} {
		f.Add(seed)
	}
	tool := withSchema(f, schema)
	f.Fuzz(func(t *testing.T, args string) {
		v, err := intent.Parse([]byte(args))
		if err != nil {
			return
		}
		if bad := tool.Validate(v); bad != nil && v.Member("to").Text() == "MARKED" && strings.Contains(bad.Public, "MARKED") {
			t.Errorf("%q repeats the argument", bad.Public)
		}
	})
}

func BenchmarkValidate(b *testing.B) {
	tool := withSchema(b, `{"type":"object","required":["invoice_id","to"],"properties":{"invoice_id":{"type":"string"},"to":{"type":"string"},"memo":{"type":"string"}}}`)
	args := parse(b, `{"invoice_id":"inv-1","to":"a@example.com","memo":"thanks"}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := tool.Validate(args); err != nil {
			b.Fatal(err)
		}
	}
}
