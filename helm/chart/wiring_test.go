package chart

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	sigsyaml "sigs.k8s.io/yaml"
)

func one[T any](t *testing.T, what string, all []T) T {
	t.Helper()
	if len(all) != 1 {
		t.Fatalf("%d of %s, want 1", len(all), what)
	}
	return all[0]
}

func selects(selector, of map[string]string) bool {
	return len(selector) > 0 && labels.SelectorFromSet(selector).Matches(labels.Set(of))
}

// Everything that names something else names something that is there.
func TestPortsAndSelectorsMeet(t *testing.T) {
	t.Parallel()
	for name, values := range sets(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := render(t, values)
			pods := one(t, "Deployment", All[*appsv1.Deployment](r)).Spec.Template
			container := one(t, "containers", pods.Spec.Containers)
			ports := map[string]int32{}
			for _, p := range container.Ports {
				ports[p.Name] = p.ContainerPort
			}
			if len(ports) != 2 || ports["agents"] == ports["operators"] {
				t.Fatalf("ports are %v, want agents and operators apart", ports)
			}
			for what, probe := range map[string]*corev1.Probe{
				"startup": container.StartupProbe, "liveness": container.LivenessProbe, "readiness": container.ReadinessProbe,
			} {
				if probe == nil || ports[probe.HTTPGet.Port.String()] == 0 {
					t.Errorf("the %s probe asks no port of the container: %+v", what, probe)
				}
			}
			others := podsBeside(r)
			services := map[string]*corev1.Service{}
			for _, s := range All[*corev1.Service](r) {
				services[s.Name] = s
				p := one(t, "ports of "+s.Name, s.Spec.Ports)
				if ports[p.TargetPort.String()] == 0 {
					t.Errorf("service %s sends to port %s, which the container lacks", s.Name, p.TargetPort.String())
				}
				mustSelect(t, "service "+s.Name, s.Spec.Selector, pods.Labels, others)
			}
			mustSelect(t, "the deployment", one(t, "Deployment", All[*appsv1.Deployment](r)).Spec.Selector.MatchLabels, pods.Labels, others)
			for _, b := range All[*policyv1.PodDisruptionBudget](r) {
				mustSelect(t, "the disruption budget", b.Spec.Selector.MatchLabels, pods.Labels, others)
				if (b.Spec.MinAvailable == nil) == (b.Spec.MaxUnavailable == nil) {
					t.Error("the disruption budget needs one of minAvailable and maxUnavailable")
				}
			}
			for _, c := range pods.Spec.TopologySpreadConstraints {
				mustSelect(t, "the spread over "+c.TopologyKey, c.LabelSelector.MatchLabels, pods.Labels, others)
			}
			for _, h := range All[*autoscalingv2.HorizontalPodAutoscaler](r) {
				d := one(t, "Deployment", All[*appsv1.Deployment](r))
				if h.Spec.ScaleTargetRef.Name != d.Name || d.Spec.Replicas != nil || len(h.Spec.Metrics) == 0 {
					t.Error("the autoscaler does not own the number of replicas")
				}
			}
			for _, i := range All[*networkingv1.Ingress](r) {
				for _, rule := range i.Spec.Rules {
					for _, p := range rule.HTTP.Paths {
						s := services[p.Backend.Service.Name]
						if s == nil || s.Spec.Ports[0].Name != p.Backend.Service.Port.Name {
							t.Errorf("ingress %s sends to %+v, which is no service here", i.Name, p.Backend.Service)
						}
					}
				}
			}
			for _, m := range All[*monitoringv1.ServiceMonitor](r) {
				endpoint := one(t, "endpoints", m.Spec.Endpoints)
				found := 0
				for _, s := range services {
					if selects(m.Spec.Selector.MatchLabels, s.Labels) {
						found++
						if s.Spec.Ports[0].Name != endpoint.Port || endpoint.Path != "/metrics" {
							t.Errorf("the monitor scrapes %s%s of %s", endpoint.Port, endpoint.Path, s.Name)
						}
					}
				}
				if found != 1 {
					t.Errorf("the monitor selects %d services, want the operators' alone", found)
				}
			}
			for _, p := range All[*networkingv1.NetworkPolicy](r) {
				for _, rule := range p.Spec.Ingress {
					for _, port := range rule.Ports {
						if port.Port.Type == intstr.String && ports[port.Port.StrVal] == 0 {
							t.Errorf("policy %s opens %s, which the container lacks", p.Name, port.Port.StrVal)
						}
						if port.Port.StrVal == "operators" && len(rule.From) == 0 {
							t.Error("the operators' port is open to everyone")
						}
					}
				}
			}
		})
	}
}

// podsBeside are the labels of pods that must get no calls.
func podsBeside(r *Rendered) []map[string]string {
	var out []map[string]string
	for _, j := range All[*batchv1.Job](r) {
		out = append(out, j.Spec.Template.Labels)
	}
	for _, p := range All[*corev1.Pod](r) {
		out = append(out, p.Labels)
	}
	return out
}

func mustSelect(t *testing.T, what string, selector, pods map[string]string, others []map[string]string) {
	t.Helper()
	if !selects(selector, pods) {
		t.Errorf("%s selects %v, which is not the gateway's pods", what, selector)
	}
	for _, o := range others {
		if selects(selector, o) {
			t.Errorf("%s also selects pods that are no gateway: %v", what, o)
		}
	}
}

type pod struct {
	name string
	meta metav1.ObjectMeta
	spec corev1.PodSpec
}

func allPods(r *Rendered) []pod {
	var out []pod
	for _, d := range All[*appsv1.Deployment](r) {
		out = append(out, pod{"deployment", d.Spec.Template.ObjectMeta, d.Spec.Template.Spec})
	}
	for _, j := range All[*batchv1.Job](r) {
		out = append(out, pod{"migrate", j.Spec.Template.ObjectMeta, j.Spec.Template.Spec})
	}
	for _, p := range All[*corev1.Pod](r) {
		out = append(out, pod{"test", p.ObjectMeta, p.Spec})
	}
	return out
}

func TestPodsAreHardened(t *testing.T) {
	t.Parallel()
	for name, values := range sets(t) {
		for _, p := range allPods(render(t, values)) {
			s := p.spec.SecurityContext
			if s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser == 0 ||
				s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
				t.Errorf("%s: %s: the pod's security context is %+v", name, p.name, s)
			}
			if p.spec.AutomountServiceAccountToken == nil || *p.spec.AutomountServiceAccountToken {
				t.Errorf("%s: %s mounts a token that it does not need", name, p.name)
			}
			for _, c := range p.spec.Containers {
				s := c.SecurityContext
				if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation ||
					s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
					s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
					t.Errorf("%s: %s: the container's security context is %+v", name, p.name, s)
				}
				if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
					t.Errorf("%s: %s has no memory limit or asks for no CPU", name, p.name)
				}
			}
		}
	}
}

// configOf is the text of the configuration that a pod's volume "config" holds.
func configOf(r *Rendered, spec corev1.PodSpec) string {
	for _, v := range spec.Volumes {
		if v.Name != "config" {
			continue
		}
		for _, s := range All[*corev1.Secret](r) {
			if v.Secret != nil && s.Name == v.Secret.SecretName {
				return s.StringData["latchkey.yaml"]
			}
		}
		for _, m := range All[*corev1.ConfigMap](r) {
			if v.ConfigMap != nil && m.Name == v.ConfigMap.Name {
				return m.Data["latchkey.yaml"]
			}
		}
	}
	return ""
}

var reference = regexp.MustCompile(`\$\{(env|file):([^}]+)\}`)

// What the configuration refers to is there in each pod that reads it, and the listeners are
// the container's ports on every interface.
func TestConfigMeetsItsPod(t *testing.T) {
	t.Parallel()
	for name, values := range sets(t) {
		if name == "existing-config" {
			continue // the chart does not see that one
		}
		r := render(t, values)
		for _, p := range allPods(r) {
			if p.name == "test" {
				continue
			}
			text := configOf(r, p.spec)
			container := p.spec.Containers[0]
			if !slices.Contains(container.Args, "--config=/etc/latchkey/config/latchkey.yaml") {
				t.Errorf("%s: %s reads another file: %v", name, p.name, container.Args)
			}
			for _, m := range reference.FindAllStringSubmatch(text, -1) {
				if m[1] == "env" && !slices.ContainsFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == m[2] }) {
					t.Errorf("%s: %s: %s is not set", name, p.name, m[0])
				}
				if m[1] == "file" && !slices.ContainsFunc(container.VolumeMounts, func(v corev1.VolumeMount) bool {
					return strings.HasPrefix(m[2], v.MountPath+"/")
				}) {
					t.Errorf("%s: %s: %s is not mounted", name, p.name, m[0])
				}
			}
			for _, mount := range container.VolumeMounts {
				if !slices.ContainsFunc(p.spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name }) {
					t.Errorf("%s: %s mounts %s, which is no volume", name, p.name, mount.Name)
				}
			}
			var config struct {
				Listen         string `json:"listen"`
				OperatorListen string `json:"operator_listen"`
				Store          struct {
					Migrate *bool `json:"migrate"`
				} `json:"store"`
			}
			if err := sigsyaml.Unmarshal([]byte(text), &config); err != nil || text == "" {
				t.Fatalf("%s: %s: no configuration (%v)", name, p.name, err)
			}
			if p.name == "deployment" {
				ports := map[string]string{}
				for _, port := range container.Ports {
					ports[port.Name] = fmt.Sprintf("0.0.0.0:%d", port.ContainerPort)
				}
				if config.Listen != ports["agents"] || config.OperatorListen != ports["operators"] {
					t.Errorf("%s: listens on %s and %s, the container has %v", name, config.Listen, config.OperatorListen, ports)
				}
			}
			if jobs := len(All[*batchv1.Job](r)); jobs == 1 && (config.Store.Migrate == nil || *config.Store.Migrate) {
				t.Errorf("%s: the pods migrate too although a Job does", name)
			}
		}
	}
}

// The grace period outlasts preStop, the slowest tool, the lease and the gateway's own
// five seconds.
func TestGraceOutlastsTheSlowestTool(t *testing.T) {
	t.Parallel()
	want := map[string]time.Duration{ // preStop + longest + lease + 5s
		"minimal":         10*time.Second + 30*time.Second + 10*time.Second + 5*time.Second,
		"production":      10*time.Second + 90500*time.Millisecond + 15*time.Second + 5*time.Second,
		"cluster":         10*time.Second + 2*time.Minute + 10*time.Second + 5*time.Second,
		"existing-config": 10*time.Second + 75*time.Second + 20*time.Second + 5*time.Second,
		"staging":         20*time.Second + 10*time.Second + 5*time.Second,
	}
	all := sets(t)
	if !slices.Equal(slices.Sorted(maps.Keys(all)), slices.Sorted(maps.Keys(want))) {
		t.Fatal("the table does not name every value set")
	}
	for name, values := range all {
		spec := one(t, "Deployment", All[*appsv1.Deployment](render(t, values))).Spec.Template.Spec
		grace := time.Duration(*spec.TerminationGracePeriodSeconds) * time.Second
		if grace < want[name] || name != "cluster" && grace > want[name]+10*time.Second {
			t.Errorf("%s: grace is %s, calls need %s", name, grace, want[name])
		}
		preStop := spec.Containers[0].Lifecycle
		if (name == "staging") != (preStop == nil) {
			t.Errorf("%s: preStop is %+v", name, preStop)
		}
	}
}
