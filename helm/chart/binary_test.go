package chart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chartutil"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	sigsyaml "sigs.k8s.io/yaml"
)

// binaryDir outlives a single test: the binary is built once for all of them.
var binaryDir string

func TestMain(m *testing.M) {
	var err error
	if binaryDir, err = os.MkdirTemp("", "latchkey-chart"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(binaryDir)
	os.Exit(code)
}

var built = sync.OnceValues(func() (string, error) {
	file := filepath.Join(binaryDir, "latchkey")
	cmd := exec.Command("go", "build", "-o", file, "./cmd/latchkey")
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return file, nil
})

func binary(t *testing.T) string {
	t.Helper()
	file, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// hash is the SHA-256 of "test-key".
const hash = "62af8704764faf8ea82fc61ce9c4c3908b6cb97d463a634e9e587d7c885db0ef"

// node stands in for the kubelet: it lays out a pod's volumes under a folder and resolves
// its environment from Secrets that it makes up.
type node struct {
	root string
	env  []string
}

func mount(t *testing.T, r *Rendered, spec corev1.PodSpec, secrets map[string]string) *node {
	t.Helper()
	n := &node{root: t.TempDir()}
	c := spec.Containers[0]
	for _, e := range c.Env {
		value := e.Value
		switch {
		case e.ValueFrom == nil:
		case e.ValueFrom.FieldRef != nil:
			value = "rel-latchkey-5d8f-abcde"
		case e.ValueFrom.SecretKeyRef != nil:
			value = secrets[e.ValueFrom.SecretKeyRef.Name+"/"+e.ValueFrom.SecretKeyRef.Key]
			if value == "" {
				t.Fatalf("%s comes from %+v, which the test does not know", e.Name, e.ValueFrom.SecretKeyRef)
			}
		}
		n.env = append(n.env, e.Name+"="+value)
	}
	for _, m := range c.VolumeMounts {
		if err := os.MkdirAll(filepath.Join(n.root, m.MountPath), 0o755); err != nil {
			t.Fatal(err)
		}
		if m.Name == "config" {
			n.write(t, m.MountPath+"/latchkey.yaml", strings.ReplaceAll(configOf(r, spec), "${file:/", "${file:"+n.root+"/"))
		}
	}
	for name, value := range secrets { // "/path": a file of a Secret, where it is mounted
		if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return strings.HasPrefix(name, m.MountPath+"/") }) {
			n.write(t, name, value)
		}
	}
	return n
}

func (n *node) write(t *testing.T, path, text string) {
	t.Helper()
	path = filepath.Join(n.root, path)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (n *node) command(t *testing.T, args []string) (*exec.Cmd, *bytes.Buffer) {
	var rooted []string
	for _, a := range args {
		rooted = append(rooted, strings.ReplaceAll(a, "=/etc/", "="+n.root+"/etc/"))
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary(t), rooted...)
	cmd.Env, cmd.Stdout, cmd.Stderr = n.env, &out, &out
	return cmd, &out
}

// known are the Secrets that the value sets name.
var known = map[string]string{
	"latchkey-postgres/dsn":       "postgres://latchkey:s3cret@postgres:5432/latchkey",
	"latchkey-postgres-owner/dsn": "postgres://owner:s3cret@postgres:5432/latchkey",
	"latchkey-redis/password":     "s3cret",
	"billing/token":               "t0ken",
	"latchkey-keys/fleet-b":       hash,
}

// mounted are the files that the sets' configurations read.
var mounted = map[string]map[string]string{
	"production": {"/etc/latchkey/keys/fleet-a": hash + "\n", "/etc/latchkey/keys/desk": strings.Repeat("ab", 32)},
	"cluster":    {"/etc/redis-ca/ca.crt": ""}, // filled in by the test
}

// The gateway itself takes every configuration that the chart renders, and finds each safe.
func TestBinaryTakesEveryConfig(t *testing.T) {
	t.Parallel()
	all := sets(t)
	all["example"] = exampleAsValues(t)
	for name, values := range all {
		if name == "existing-config" {
			continue // the chart renders none there
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := render(t, values)
			secrets := map[string]string{}
			maps.Copy(secrets, known)
			for k, v := range mounted[name] {
				if v == "" {
					v = authority(t)
				}
				secrets[k] = v
			}
			for _, p := range allPods(r) {
				if p.name == "test" {
					continue
				}
				n := mount(t, r, p.spec, secrets)
				cmd, out := n.command(t, []string{"check", "--config=/etc/latchkey/config/latchkey.yaml"})
				if err := cmd.Run(); err != nil {
					t.Errorf("%s: latchkey check: %v\n%s", p.name, err, out)
				}
			}
		})
	}
}

// exampleAsValues is the product's example of every field, put under config: what Helm does
// to numbers, to "on" and to names that are numbers must not change it.
func exampleAsValues(t *testing.T) Values {
	t.Helper()
	config, err := ReadValues("../../cmd/latchkey/latchkey.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	delete(config, "listen")
	delete(config, "operator_listen")
	delete(config["store"].(Values), "dsn")
	return Values{
		"config": config,
		"existingSecrets": Values{
			"dsn": Values{"name": "latchkey-postgres"},
			"env": Values{"BILLING_TOKEN": Values{"name": "billing", "key": "token"}},
		},
	}
}

// compose.yaml's configuration is taken too.
func TestBinaryTakesComposesConfig(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), binary(t), "check", "--config", "../compose/latchkey.yaml")
	cmd.Env = []string{"REPLICA=latchkey-1", "LATCHKEY_DSN=postgres://latchkey:latchkey@postgres:5432/latchkey"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("latchkey check: %v\n%s", err, out)
	}
}

// freePorts are ports that nothing listens on at the moment.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// A pod's life, with the real binary: the migration Job, the start, the probes on the paths
// and ports that the Deployment names, `helm test`, the end within the grace period. Redis
// and the store are the embedded ones, which the schema refuses for a cluster.
func TestBinaryServesWhatTheProbesAsk(t *testing.T) {
	t.Parallel()
	invoices := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"path":%q}`, r.URL.Path)
	}))
	t.Cleanup(invoices.Close)
	database := filepath.Join(t.TempDir(), "latchkey.db")
	ports := freePorts(t, 2)
	var change Values
	err := sigsyaml.Unmarshal(fmt.Appendf(nil, `
config:
  redis: {mode: embedded, addrs: []}
  store: {driver: sqlite, path: %q}
  auth: {keys: [{id: fleet-a, sha256: "${file:/etc/latchkey/keys/fleet-a}", tenant: acme, roles: [agent]}]}
  downstreams: {billing: {base_url: %q}}
existingSecrets: {dsn: {name: ""}, keyHashes: {name: keys}}
agents: {port: %d, service: {port: %[3]d}}
operators: {port: %d}
tests: {key: {name: test, key: key}, tool: find_invoice, args: {invoice_id: "inv-1"}}
`, database, invoices.URL, ports[0], ports[1]), &change)
	if err != nil {
		t.Fatal(err)
	}
	values := chartutil.CoalesceTables(change, sets(t)["minimal"])
	r, err := Render(dir, values, Options{Release: "rel", Namespace: "gateways", SkipSchema: true})
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[string]string{"/etc/latchkey/keys/fleet-a": hash, "test/key": "test-key"}

	job := one(t, "Job", All[*batchv1.Job](r)).Spec.Template.Spec
	cmd, out := mount(t, r, job, secrets).command(t, job.Containers[0].Args)
	if err := cmd.Run(); err != nil {
		t.Fatalf("the migration Job: %v\n%s", err, out)
	}

	pod := one(t, "Deployment", All[*appsv1.Deployment](r)).Spec.Template.Spec
	container := pod.Containers[0]
	cmd, out = mount(t, r, pod, secrets).command(t, container.Args)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		if t.Failed() {
			cmd.Process.Kill()
			t.Logf("latchkey said:\n%s", out)
		}
	})

	for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
		url := fmt.Sprintf("http://127.0.0.1:%d%s", portOf(t, container, probe.HTTPGet.Port.StrVal), probe.HTTPGet.Path)
		awaitOK(t, url, ended)
	}
	metrics := fmt.Sprintf("http://127.0.0.1:%d/metrics", portOf(t, container, "operators"))
	if status := get(t, metrics); status != http.StatusOK {
		t.Errorf("GET /metrics: %d", status)
	}
	agents := fmt.Sprintf("http://127.0.0.1:%d", portOf(t, container, "agents"))
	if status := get(t, agents+"/console"); status != http.StatusNotFound {
		t.Errorf("the agents' port answers /console with %d", status)
	}
	helmTest(t, r, secrets, agents)

	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("after SIGTERM: %v", err)
		}
	case <-time.After(time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second):
		t.Error("it was still there after the grace period")
	}
}

// helmTest runs the script of the test pod against the gateway.
func helmTest(t *testing.T, r *Rendered, secrets map[string]string, agents string) {
	t.Helper()
	spec := one(t, "test Pod", All[*corev1.Pod](r)).Spec
	c := spec.Containers[0]
	n := mount(t, r, spec, secrets)
	for i, e := range n.env {
		if strings.HasPrefix(e, "BASE=http://rel-latchkey:") {
			n.env[i] = "BASE=" + agents
		}
	}
	cmd := exec.CommandContext(t.Context(), c.Command[0], append(c.Command[1:], c.Args...)...)
	cmd.Env = append(n.env, "PATH="+os.Getenv("PATH"))
	text, err := cmd.CombinedOutput()
	for _, want := range []string{
		"GET /readyz: 200", "GET /v1/tools without a credential: 401", "GET /v1/tools: 200",
		"POST /v1/tools/find_invoice/calls: 200", `"path":"/invoices/inv-1"`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("helm test (%v) does not say %q:\n%s", err, want, text)
		}
	}
	if err != nil {
		t.Errorf("helm test: %v", err)
	}
}

func portOf(t *testing.T, c corev1.Container, name string) int32 {
	t.Helper()
	for _, p := range c.Ports {
		if p.Name == name {
			return p.ContainerPort
		}
	}
	t.Fatalf("no port is called %s", name)
	return 0
}

func get(t *testing.T, url string) int {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer response.Body.Close()
	io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// awaitOK asks as the kubelet does, until the answer is 200.
func awaitOK(t *testing.T, url string, ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		response, err := http.Get(url)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
			err = errors.New(response.Status)
		}
		select {
		case <-tick.C:
		case how := <-ended:
			t.Fatalf("latchkey ended: %v", how)
		case <-ctx.Done():
			t.Fatalf("%s: %v", url, err)
		}
	}
}
