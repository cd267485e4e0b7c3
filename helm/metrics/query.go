package metrics

import (
	"fmt"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// Check parses a PromQL expression and finds series, matchers and groupings that nothing
// exports, and counters that are read without a rate. It returns the metrics used.
func Check(expr string) ([]string, error) {
	root, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return nil, err
	}
	var used []string
	known := map[string]bool{}
	parser.Inspect(root, func(n parser.Node, path []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok || err != nil {
			return nil
		}
		m, may, found := Find(v.Name)
		if !found {
			err = fmt.Errorf("nothing exports %q", v.Name)
			return nil
		}
		for _, l := range may {
			known[l] = true
		}
		used = append(used, m.Name)
		for _, match := range v.LabelMatchers {
			if match.Name != model.MetricNameLabel && !slices.Contains(may, match.Name) {
				err = fmt.Errorf("%s has no label %q", v.Name, match.Name)
			}
		}
		if m.Kind != Gauge && !inside(path, "rate", "increase", "irate") {
			err = fmt.Errorf("%s is a %s and is read without a rate", v.Name, m.Kind)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	parser.Inspect(root, func(n parser.Node, _ []parser.Node) error {
		if a, ok := n.(*parser.AggregateExpr); ok {
			for _, l := range a.Grouping {
				if !known[l] {
					err = fmt.Errorf("grouping by %q, which no series of the expression has", l)
				}
			}
		}
		return nil
	})
	return used, err
}

func inside(path []parser.Node, functions ...string) bool {
	return slices.ContainsFunc(path, func(n parser.Node) bool {
		c, ok := n.(*parser.Call)
		return ok && slices.Contains(functions, c.Func.Name)
	})
}
