package k6run

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// threshold is one expression over a metric, or over its samples that have some tags.
type threshold struct {
	name       string // as the script writes it: metric{tag:value}
	metric     string
	tags       map[string]string
	expression string
	aggregate  string
	percentile float64
	operator   string
	limit      float64
}

var (
	thresholdForm = regexp.MustCompile(`^(count|rate|avg|min|max|med|p\((\d+(?:\.\d+)?)\))\s*(<=|>=|<|>|===|==|!=)\s*(-?\d+(?:\.\d+)?)$`)
	nameForm      = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)(?:\{([^{}]+)\})?$`)
)

// aggregatesOf are the words that a threshold may use for each kind of metric.
var aggregatesOf = map[kind][]string{
	counter: {"count", "rate"}, rate: {"rate"}, trend: {"avg", "min", "max", "med", "p"},
}

// parseThreshold reads what k6 reads, and refuses a metric that nobody defined: k6 does too.
func (r *registry) parseThreshold(name, expression string) (threshold, error) {
	t := threshold{name: name, expression: expression, tags: map[string]string{}}
	parts := nameForm.FindStringSubmatch(name)
	if parts == nil {
		return t, fmt.Errorf("threshold on %q: this is no metric's name", name)
	}
	t.metric = parts[1]
	for pair := range strings.SplitSeq(parts[2], ",") {
		if pair == "" {
			continue
		}
		tag, value, ok := strings.Cut(pair, ":")
		if !ok {
			return t, fmt.Errorf("threshold on %q: %q is no tag:value", name, pair)
		}
		t.tags[strings.TrimSpace(tag)] = strings.TrimSpace(value)
	}
	r.mu.Lock()
	m, ok := r.metrics[t.metric]
	r.mu.Unlock()
	if !ok {
		return t, fmt.Errorf("threshold on %q: there is no such metric", name)
	}
	e := thresholdForm.FindStringSubmatch(expression)
	if e == nil {
		return t, fmt.Errorf("threshold on %q: %q is no expression", name, expression)
	}
	t.aggregate, t.operator = e[1], e[3]
	if e[2] != "" {
		t.aggregate = "p"
		t.percentile, _ = strconv.ParseFloat(e[2], 64) // the form allows digits alone
	}
	t.limit, _ = strconv.ParseFloat(e[4], 64)
	if !slices.Contains(aggregatesOf[m.kind], t.aggregate) {
		return t, fmt.Errorf("threshold on %q: %q is not for a %v", name, expression, m.kind)
	}
	return t, nil
}

// holds evaluates t. As in k6, every aggregate of no samples is 0; empty tells that.
func (r *registry) holds(t threshold, seconds float64) (ok, empty bool, value float64) {
	r.mu.Lock()
	aggregates, percentile, n := r.metrics[t.metric].values(t.tags, seconds)
	r.mu.Unlock()
	value = aggregates[t.aggregate]
	if t.aggregate == "p" {
		value = percentile(t.percentile)
	}
	switch t.operator {
	case "<":
		ok = value < t.limit
	case "<=":
		ok = value <= t.limit
	case ">":
		ok = value > t.limit
	case ">=":
		ok = value >= t.limit
	case "==", "===":
		ok = value == t.limit
	case "!=":
		ok = value != t.limit
	}
	return ok, n == 0, value
}
