package metrics

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The gateway names its metrics in one file; each has its labels in the comment behind it.
// This list must say the same.
func TestAllIsWhatTheGatewayExports(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "../../tracing/names.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	exported := map[string][]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(v.Names[0].Name, "Metric") || len(v.Values) == 0 {
			return true
		}
		name, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		var labels []string
		if list, ok := strings.CutPrefix(v.Comment.Text(), "{"); ok {
			list, _, _ = strings.Cut(list, "}")
			labels = strings.Split(list, ",")
		}
		exported[name] = labels
		return true
	})
	if len(exported) < 20 {
		t.Fatalf("found only %d names; was the file moved?", len(exported))
	}
	for _, m := range All {
		labels, ok := exported[m.Name]
		if !ok {
			t.Errorf("the gateway does not export %s", m.Name)
		}
		if !slices.Equal(labels, m.Labels) {
			t.Errorf("%s has the labels %v, the list says %v", m.Name, labels, m.Labels)
		}
		delete(exported, m.Name)
	}
	for name := range exported {
		t.Errorf("the gateway exports %s, which the list lacks", name)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ expr, fault string }{
		{`sum by (tool) (rate(latchkey_attempts_total[5m]))`, ""},
		{`histogram_quantile(0.99, sum by (le) (rate(latchkey_step_duration_seconds_bucket{step="claim"}[5m])))`, ""},
		{`sum(rate(latchkey_atempts_total[5m]))`, "nothing exports"},
		{`sum(latchkey_attempts_total)`, "without a rate"},
		{`sum(rate(latchkey_step_duration_seconds[5m]))`, "nothing exports"},
		{`max(latchkey_unknown_open{downstream="a"})`, `no label "downstream"`},
		{`max by (region) (latchkey_unknown_open)`, "grouping by"},
		{`max(latchkey_unknown_open`, "unclosed"},
	} {
		_, err := Check(tt.expr)
		if (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
			t.Errorf("%s: got %v, want %q", tt.expr, err, tt.fault)
		}
	}
}
