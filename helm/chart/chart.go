// Package chart renders the Helm chart beside it as `helm template` does and decodes every
// object strictly into Kubernetes' own types: a misspelt field is an error here and would be
// dropped silently, or refused, by a cluster.
package chart

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// Values are a chart's values.
type Values = map[string]any

// ReadValues reads a file of values.
func ReadValues(file string) (Values, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	v := Values{}
	if err := sigsyaml.UnmarshalStrict(data, &v); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return v, nil
}

// Rendered is what the chart makes of some values.
type Rendered struct {
	Objects []runtime.Object
	Notes   string
}

// Options say how to render.
type Options struct {
	Release, Namespace string
	// SkipSchema renders values that the schema refuses, such as an embedded Redis.
	SkipSchema bool
}

// Render applies the templates of the chart in dir to values, on top of its defaults.
func Render(dir string, values Values, o Options) (*Rendered, error) {
	loaded, err := loader.Load(dir)
	if err != nil {
		return nil, err
	}
	release := chartutil.ReleaseOptions{Name: o.Release, Namespace: o.Namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValuesWithSchemaValidation(loaded, values, release, capabilities(), o.SkipSchema)
	if err != nil {
		return nil, err
	}
	texts, err := engine.Render(loaded, all)
	if err != nil {
		return nil, err
	}
	return decodeAll(loaded, texts)
}

// capabilities is a cluster of the oldest version that the chart takes.
func capabilities() *chartutil.Capabilities {
	c := *chartutil.DefaultCapabilities
	c.KubeVersion = chartutil.KubeVersion{Version: "v1.30.0", Major: "1", Minor: "30"}
	return &c
}

func decodeAll(loaded *chart.Chart, texts map[string]string) (*Rendered, error) {
	decoder, err := newDecoder()
	if err != nil {
		return nil, err
	}
	out := &Rendered{}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		switch short := strings.TrimPrefix(name, loaded.Name()+"/templates/"); {
		case short == "NOTES.txt":
			out.Notes = texts[name]
		case path.Ext(short) == ".yaml":
			objects, err := decode(decoder, texts[name])
			if err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", short, err, texts[name])
			}
			out.Objects = append(out.Objects, objects...)
		}
	}
	return out, nil
}

func newDecoder() (runtime.Decoder, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme,
		networkingv1.AddToScheme, policyv1.AddToScheme, monitoringv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer(), nil
}

func decode(decoder runtime.Decoder, text string) ([]runtime.Object, error) {
	var objects []runtime.Object
	for d := yaml.NewDocumentDecoder(io.NopCloser(strings.NewReader(text))); ; {
		document := make([]byte, 1<<20)
		n, err := d.Read(document)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		var anything any
		if err := sigsyaml.Unmarshal(document[:n], &anything); err != nil {
			return nil, err
		}
		if anything == nil {
			continue // comments alone
		}
		o, _, err := decoder.Decode(document[:n], nil, nil)
		if err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
}

// All are the objects of one type.
func All[T runtime.Object](r *Rendered) []T {
	var out []T
	for _, o := range r.Objects {
		if t, ok := o.(T); ok {
			out = append(out, t)
		}
	}
	return out
}
