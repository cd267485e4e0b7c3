package chart

import (
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
)

const dir = "../latchkey"

// sets are the value sets under ci/, by name.
func sets(t *testing.T) map[string]Values {
	t.Helper()
	files, err := filepath.Glob(dir + "/ci/*-values.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("found %d value sets, want at least 5 (%v)", len(files), err)
	}
	all := map[string]Values{}
	for _, f := range files {
		v, err := ReadValues(f)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(f), "-values.yaml")] = v
	}
	return all
}

func render(t *testing.T, values Values) *Rendered {
	t.Helper()
	r, err := Render(dir, values, Options{Release: "rel", Namespace: "gateways"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLint(t *testing.T) {
	t.Parallel()
	for name, values := range sets(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			linted := lint.AllWithKubeVersion(dir, values, "gateways", nil)
			if len(linted.Messages) == 0 {
				t.Fatal("lint said nothing at all; it has a remark on every chart without an icon")
			}
			for _, m := range linted.Messages {
				if m.Severity > support.InfoSev {
					t.Error(m)
				}
			}
		})
	}
}

// Decoding is strict, so this alone finds misspelt and misplaced fields.
func TestEverySetDecodes(t *testing.T) {
	t.Parallel()
	for name, values := range sets(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := render(t, values)
			seen := map[string]bool{}
			for _, o := range r.Objects {
				m, err := meta.Accessor(o)
				if err != nil {
					t.Fatal(err)
				}
				kind := o.GetObjectKind().GroupVersionKind().Kind
				id := kind + "/" + m.GetName()
				if m.GetName() == "" || seen[id] {
					t.Errorf("%s has no name or is there twice", id)
				}
				seen[id] = true
				if m.GetLabels()["app.kubernetes.io/instance"] != "rel" {
					t.Errorf("%s does not say which release it belongs to", id)
				}
				if len(m.GetName()) > 63 {
					t.Errorf("%s: the name is too long", id)
				}
			}
			if len(All[*corev1.Service](r)) != 2 {
				t.Error("want one Service for agents and one for operators")
			}
			if !strings.Contains(r.Notes, "helm test") {
				t.Errorf("the notes do not say how to try it:\n%s", r.Notes)
			}
		})
	}
}

func TestDecodingIsStrict(t *testing.T) {
	t.Parallel()
	d, err := newDecoder()
	if err != nil {
		t.Fatal(err)
	}
	_, err = decode(d, "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {portz: []}\n")
	if err == nil || !strings.Contains(err.Error(), `unknown field "spec.portz"`) {
		t.Fatalf("a misspelt field: got %v", err)
	}
}
