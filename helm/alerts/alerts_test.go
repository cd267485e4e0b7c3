package alerts

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"

	"github.com/latchkey-gateway/latchkey/helm/metrics"
)

const (
	rulesDir    = "../latchkey/rules"
	runbooksDir = "../runbooks"
	// runbooksURL is what the chart replaces by the value of prometheusRule.runbookBaseUrl.
	runbooksURL = "https://github.com/latchkey-gateway/latchkey/blob/main/helm/runbooks/"
)

// suite is promtool's file format for tests of rules, as far as these use it.
type suite struct {
	RuleFiles          []string       `json:"rule_files"`
	EvaluationInterval model.Duration `json:"evaluation_interval"`
	Tests              []struct {
		Name        string         `json:"name"`
		Interval    model.Duration `json:"interval"`
		InputSeries []struct {
			Series string `json:"series"`
			Values string `json:"values"`
		} `json:"input_series"`
		AlertRuleTest []struct {
			EvalTime  model.Duration `json:"eval_time"`
			Alertname string         `json:"alertname"`
			ExpAlerts []struct {
				ExpLabels      map[string]string `json:"exp_labels"`
				ExpAnnotations map[string]string `json:"exp_annotations"`
			} `json:"exp_alerts"`
		} `json:"alert_rule_test"`
	} `json:"tests"`
}

func allRules(t *testing.T) map[string]Rule {
	t.Helper()
	files, err := filepath.Glob(rulesDir + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no rules: %v", err)
	}
	rules := map[string]Rule{}
	for _, f := range files {
		list, err := ReadRules(f, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			if _, twice := rules[r.Alert]; twice || r.Alert == "" {
				t.Errorf("%s: %q is no alert or is there twice", f, r.Alert)
			}
			rules[r.Alert] = r
		}
	}
	return rules
}

func TestRulesFire(t *testing.T) {
	t.Parallel()
	fires, silent := map[string]bool{}, map[string]bool{}
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests of rules: %v", err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var s suite
		if err := yaml.UnmarshalStrict(data, &s); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		rules := map[string]Rule{}
		for _, r := range s.RuleFiles {
			list, err := ReadRules(filepath.Join("testdata", r), time.Duration(s.EvaluationInterval))
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range list {
				rules[r.Alert] = r
			}
		}
		for _, test := range s.Tests {
			var series Memory
			for _, in := range test.InputSeries {
				if err := series.Add(in.Series, in.Values, time.Duration(test.Interval)); err != nil {
					t.Fatal(err)
				}
			}
			for _, check := range test.AlertRuleTest {
				name := fmt.Sprintf("%s: %s after %s", test.Name, check.Alertname, check.EvalTime)
				rule, ok := rules[check.Alertname]
				if !ok {
					t.Fatalf("%s: there is no such alert", name)
				}
				got, err := Firing(t.Context(), rule, &series, time.Duration(check.EvalTime))
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if len(check.ExpAlerts) == 0 {
					silent[check.Alertname] = true
				} else {
					fires[check.Alertname] = true
				}
				if len(got) != len(check.ExpAlerts) {
					t.Errorf("%s: %d alerts fire, want %d: %v", name, len(got), len(check.ExpAlerts), got)
					continue
				}
				for i, want := range check.ExpAlerts {
					if !maps.Equal(got[i].Labels, want.ExpLabels) {
						t.Errorf("%s: labels are %v, want %v", name, got[i].Labels, want.ExpLabels)
					}
					if !maps.Equal(got[i].Annotations, want.ExpAnnotations) {
						t.Errorf("%s: annotations are %v, want %v", name, got[i].Annotations, want.ExpAnnotations)
					}
				}
			}
		}
	}
	for name := range allRules(t) {
		if !fires[name] || !silent[name] {
			t.Errorf("%s: shown to fire: %v; shown to be silent on healthy series: %v", name, fires[name], silent[name])
		}
	}
}

func TestRulesAreAboutWhatIsExported(t *testing.T) {
	t.Parallel()
	for name, r := range allRules(t) {
		if _, err := metrics.Check(r.Expr); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Contains([]string{"warning", "critical"}, r.Labels["severity"]) {
			t.Errorf("%s: severity is %q", name, r.Labels["severity"])
		}
		for _, a := range []string{"summary", "description"} {
			if r.Annotations[a] == "" {
				t.Errorf("%s has no %s", name, a)
			}
		}
	}
}

// Each alert leads to a page that says the three things that somebody woken up needs.
func TestRunbooks(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for name, r := range allRules(t) {
		link := r.Annotations["runbook_url"]
		page, ok := strings.CutPrefix(link, runbooksURL)
		if u, err := url.Parse(link); err != nil || !ok || u.Fragment != "" {
			t.Errorf("%s: runbook_url %q is not below %s", name, link, runbooksURL)
			continue
		}
		used[page] = true
		data, err := os.ReadFile(filepath.Join(runbooksDir, page))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text := string(data)
		if !strings.Contains(text, name) {
			t.Errorf("%s does not name its alert %s", page, name)
		}
		for _, heading := range []string{"\n## What it means\n", "\n## What is safe\n", "\n## What to do\n"} {
			if !strings.Contains(text, heading) {
				t.Errorf("%s lacks %q", page, strings.TrimSpace(heading))
			}
		}
	}
	files, err := filepath.Glob(runbooksDir + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name := path.Base(f); name != "README.md" && !used[name] {
			t.Errorf("no alert leads to %s", name)
		}
	}
}
