package downstream

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"cel.dev/cel-go/common/types"
)

// TestRulesAreCheckedAtLoad: the error names the field and shows the place, and is one line.
func TestRulesAreCheckedAtLoad(t *testing.T) {
	t.Parallel()
	bomb := "[" + strings.TrimSuffix(strings.Repeat("1,", 400), ",") + "]"
	tests := []struct {
		name   string
		change func(*LookupSpec)
		field  string
		msg    string
	}{
		{"an unknown field", func(l *LookupSpec) { l.CompletedWhen = "response.sttaus == 200" }, "completed_when", "column 9: undefined field 'sttaus'"},
		{"an unknown variable", func(l *LookupSpec) { l.AbsentWhen = "\n  respons.status == 404" }, "absent_when", "line 2, column 3: undeclared reference to 'respons'"},
		{"a number", func(l *LookupSpec) { l.CompletedWhen = "response.status" }, "completed_when", "gives a int, and must give true or false"},
		{"a string", func(l *LookupSpec) { l.AbsentWhen = "key" }, "absent_when", "gives a string"},
		{"a status as text", func(l *LookupSpec) { l.CompletedWhen = "response.status == '200'" }, "completed_when", "column 17: found no matching overload for '_==_'"},
		{"a header as a number", func(l *LookupSpec) { l.CompletedWhen = "response.headers['x'] == 1" }, "completed_when", "column 23: found no matching overload"},
		{"bad syntax", func(l *LookupSpec) { l.Result = "response.body.[0]" }, "result", "column 15: Syntax error"},
		{"an unknown function", func(l *LookupSpec) { l.Result = "shout(key)" }, "result", "column 6: undeclared reference to 'shout'"},
		{"a bad pattern", func(l *LookupSpec) { l.CompletedWhen = "key.matches('[')" }, "completed_when", "column 13: invalid matches argument"},
		{"two mistakes", func(l *LookupSpec) { l.CompletedWhen = "a && b" }, "completed_when", "column 1: undeclared reference to 'a'"},
		{"too long", func(l *LookupSpec) { l.CompletedWhen = strings.Repeat("true && ", ruleLength/8) + "true" }, "completed_when", "size exceeds limit"},
		{"too costly whatever the answer", func(l *LookupSpec) {
			l.Result = fmt.Sprintf("%s.map(a, %s.map(b, %s.map(c, a + b + c)))", bomb, bomb, bomb)
		}, "result", "costs at least"},
	}
	for _, tt := range tests {
		spec := lookupSpec()
		tt.change(spec.Lookup)
		_, err := NewCatalogue([]Spec{{Name: "mail", BaseURL: "http://x"}}, []ToolSpec{spec})
		got := fields(err)
		if len(got) != 1 || got[0] != "tools.send.lookup."+tt.field || !strings.Contains(err.Error(), tt.msg) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v: %v, want %s: ... %s", tt.name, got, err, tt.field, tt.msg)
		}
	}
}

// TestRulesAreBounded: a rule that could run for minutes ends in error within its bounds, and
// so does one that runs when the gateway gives up.
func TestRulesAreBounded(t *testing.T) {
	t.Parallel()
	compiled := func(text string) *rule {
		var found problems
		r := compile("result", text, false, found.at("x"))
		if len(found.list) > 0 {
			t.Fatal(found.list)
		}
		return r
	}
	wide := "[" + strings.TrimSuffix(strings.Repeat(`"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",`, 4_000), ",") + "]"
	vars := func() map[string]any {
		e := newExact()
		return map[string]any{"response": &answered{Status: 200, Body: e.show(parse(t, wide))}, "args": e.show(parse(t, "{}")), "key": "", "run_id": "", "step_id": ""}
	}
	for _, text := range []string{
		"response.body.map(a, response.body.map(b, a + b))",
		"response.body.filter(a, response.body.exists(b, a != b && b.matches('(a*)*b')))",
		"response.body.all(a, response.body == response.body)",
	} {
		began := time.Now()
		v, err := compiled(text).evaluate(t.Context(), vars())
		if err == nil || !strings.Contains(err.Error(), "looks at too much") && !strings.Contains(err.Error(), "takes too long") {
			t.Errorf("%s: no error (%v) or another one: %v", text, v != nil, err)
		}
		if took := time.Since(began); took > 10*ruleTime {
			t.Errorf("%s: took %v", text, took)
		}
	}
	// What costs nothing to name costs something to write.
	v, err := compiled("response.body.map(a, response.body + response.body)").evaluate(t.Context(), vars())
	if err == nil {
		_, err = newExact().append(nil, v)
	}
	if err == nil {
		t.Error("a list of lists was written whole")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := compiled("response.body.map(a, response.body.map(b, a + b))").evaluate(ctx, vars()); err == nil {
		t.Error("it ran on after the gateway gave up")
	}
	if v, err := compiled("response.body.exists(a, a == 'b')").evaluate(t.Context(), vars()); err != nil || v != types.False {
		t.Errorf("an honest loop over a long list: %v, %v", v, err)
	}
}
