// Package alerts proves the alert rules of the chart: it evaluates them with Prometheus' own
// query engine over written series, in promtool's format for unit tests of rules, so that
// `promtool test rules testdata/*.yaml` says the same.
package alerts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/template"
)

// Rule is one alert and the pause between two evaluations of it.
type Rule struct {
	rulefmt.Rule
	Interval time.Duration
}

// ReadRules reads a file of rules as Prometheus does.
func ReadRules(file string, otherwise time.Duration) ([]Rule, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	groups, faults := rulefmt.Parse(data, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var rules []Rule
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			rules = append(rules, Rule{r, cmp.Or(time.Duration(g.Interval), otherwise)})
		}
	}
	return rules, nil
}

// Alert is one that fires.
type Alert struct {
	Labels      map[string]string
	Annotations map[string]string
}

// Firing evaluates a rule from the epoch until at, as Prometheus does: a series of the
// expression must be there for the whole of the rule's "for" before it fires.
func Firing(ctx context.Context, rule Rule, series *Memory, at time.Duration) ([]Alert, error) {
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute,
		EnableAtModifier: true, EnableNegativeOffset: true, Parser: parser.NewParser(parser.Options{}),
	})
	defer engine.Close()
	pending := map[string]time.Duration{} // since when, by labels
	var last promql.Vector
	var end time.Duration
	for now := time.Duration(0); now <= at; now += rule.Interval {
		q, err := engine.NewInstantQuery(ctx, series, nil, rule.Expr, epoch.Add(now))
		if err != nil {
			return nil, err
		}
		vector, err := q.Exec(ctx).Vector()
		if err != nil {
			q.Close()
			return nil, err
		}
		last = slices.Clone(vector)
		q.Close()
		end = now
		still := map[string]time.Duration{}
		for _, s := range last {
			since, ok := pending[s.Metric.String()]
			if !ok {
				since = now
			}
			still[s.Metric.String()] = since
		}
		pending = still
	}
	var alerts []Alert
	for _, s := range last {
		if end-pending[s.Metric.String()] < time.Duration(rule.For) {
			continue
		}
		a, err := rule.alert(ctx, s)
		if err != nil {
			return nil, err
		}
		alerts = append(alerts, a)
	}
	return alerts, nil
}

func (r Rule) alert(ctx context.Context, s promql.Sample) (Alert, error) {
	of := s.Metric.Map()
	delete(of, model.MetricNameLabel)
	data := template.AlertTemplateData(of, nil, "", s)
	expand := func(into map[string]string, texts map[string]string) error {
		for name, text := range texts {
			const variables = "{{$labels := .Labels}}{{$value := .Value}}"
			out, err := template.NewTemplateExpander(ctx, variables+text, r.Alert, data, model.TimeFromUnixNano(0), nil, nil, nil).Expand()
			if err != nil {
				return fmt.Errorf("%s: %s: %w", r.Alert, name, err)
			}
			into[name] = out
		}
		return nil
	}
	a := Alert{Labels: of, Annotations: map[string]string{}}
	return a, errors.Join(expand(a.Labels, r.Labels), expand(a.Annotations, r.Annotations))
}
