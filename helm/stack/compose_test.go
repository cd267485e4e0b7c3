package stack

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"sigs.k8s.io/yaml"
)

const root = "../.."

// project is compose.yaml, read as docker compose does: unknown fields are errors.
func project(t *testing.T) *types.Project {
	t.Helper()
	dir, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	p, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  dir,
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(dir, "compose.yaml")}},
		Environment: types.Mapping{},
	}, func(o *loader.Options) { o.SetProjectName("latchkey", true) })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func replicas(p *types.Project) []string {
	var names []string
	for name := range p.Services {
		if strings.HasPrefix(name, "latchkey-") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestCompose(t *testing.T) {
	t.Parallel()
	p := project(t)
	if got := replicas(p); len(got) != 3 {
		t.Fatalf("the replicas are %v, want three", got)
	}
	for name, s := range p.Services {
		for _, v := range s.Volumes {
			if v.Type == types.VolumeTypeBind {
				if _, err := os.Stat(v.Source); err != nil {
					t.Errorf("%s mounts what is not there: %v", name, err)
				}
			}
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s is published on %q:%s; its keys are public", name, port.HostIP, port.Published)
			}
		}
		if s.Build == nil && (!strings.Contains(s.Image, ":") || strings.HasSuffix(s.Image, ":latest")) {
			t.Errorf("%s: the image %q has no version", name, s.Image)
		}
	}
	for _, name := range replicas(p) {
		s := p.Services[name]
		if s.Environment["REPLICA"] == nil || *s.Environment["REPLICA"] != name {
			t.Errorf("%s calls itself %v in receipts", name, s.Environment["REPLICA"])
		}
		if !s.ReadOnly || !slices.Contains(s.CapDrop, "ALL") {
			t.Errorf("%s is not hardened", name)
		}
		if s.StopGracePeriod == nil || time.Duration(*s.StopGracePeriod) < 25*time.Second {
			t.Errorf("%s is stopped before its slowest tool may end", name)
		}
		if s.DependsOn["migrate"].Condition != types.ServiceConditionCompletedSuccessfully {
			t.Errorf("%s does not wait for the migrations", name)
		}
	}
	redis := strings.Join(p.Services["redis"].Command, " ")
	for _, want := range []string{"--maxmemory-policy noeviction", "--appendonly yes"} {
		if !strings.Contains(redis, want) {
			t.Errorf("redis runs with %q, which lacks %q", redis, want)
		}
	}
}

var server = regexp.MustCompile(`(?m)^\s*server ([a-z0-9-]+):(\d+);`)

// Both files are taken by nginx itself; the names of other containers do not resolve here.
func TestNginx(t *testing.T) {
	t.Parallel()
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		if _, err := os.Stat("/usr/sbin/nginx"); err != nil {
			if os.Getenv("LATCHKEY_TEST_REQUIRE") != "" {
				t.Fatal("nginx is not installed")
			}
			t.Skip("nginx is not installed")
		}
		nginx = "/usr/sbin/nginx"
	}
	for _, name := range []string{"nginx.conf", "mailer.conf"} {
		text := read(t, "helm/compose/"+name)
		dir := t.TempDir()
		text = strings.ReplaceAll(server.ReplaceAllString(text, "server 127.0.0.1:$2;"), "/tmp/", dir+"/")
		text = strings.ReplaceAll(text, "/dev/std", dir+"/std")
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), nginx, "-t", "-c", file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// nginx sends to every replica, on the ports that the configuration opens, and never again.
func TestNginxKnowsEveryReplica(t *testing.T) {
	t.Parallel()
	text := read(t, "helm/compose/nginx.conf")
	to := map[string][]string{}
	for _, m := range server.FindAllStringSubmatch(text, -1) {
		to[m[2]] = append(to[m[2]], m[1])
	}
	var config struct {
		Listen         string `json:"listen"`
		OperatorListen string `json:"operator_listen"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "helm/compose/latchkey.yaml")), &config); err != nil {
		t.Fatal(err)
	}
	names := replicas(project(t))
	for _, listen := range []string{config.Listen, config.OperatorListen} {
		port := strings.TrimPrefix(listen, "0.0.0.0:")
		if !slices.Equal(to[port], names) {
			t.Errorf("port %s goes to %v, the replicas are %v", port, to[port], names)
		}
	}
	for _, want := range []string{"least_conn;", "proxy_next_upstream off;"} {
		if !strings.Contains(text, want) {
			t.Errorf("nginx.conf lacks %q", want)
		}
	}
}

func TestPrometheusScrapesEveryReplica(t *testing.T) {
	t.Parallel()
	p := project(t)
	var config struct {
		Global        map[string]string `json:"global"`
		RuleFiles     []string          `json:"rule_files"`
		ScrapeConfigs []struct {
			JobName       string `json:"job_name"`
			StaticConfigs []struct {
				Targets []string `json:"targets"`
			} `json:"static_configs"`
		} `json:"scrape_configs"`
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, "helm/compose/prometheus.yml")), &config); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, r := range replicas(p) {
		want = append(want, r+":8081")
	}
	if got := config.ScrapeConfigs[0].StaticConfigs[0].Targets; !slices.Equal(got, want) {
		t.Errorf("it scrapes %v, want %v", got, want)
	}
	if !mounts(p.Services["prometheus"], "helm/latchkey/rules", filepath.Dir(config.RuleFiles[0])) {
		t.Error("the rules are not where prometheus.yml reads them")
	}
	var provisioned struct {
		Providers []struct {
			Options struct{ Path string }
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "helm/compose/grafana/dashboards.yaml")), &provisioned); err != nil {
		t.Fatal(err)
	}
	if !mounts(p.Services["grafana"], "helm/latchkey/dashboards", provisioned.Providers[0].Options.Path) {
		t.Error("the dashboards are not where Grafana reads them")
	}
}

func mounts(s types.ServiceConfig, source, target string) bool {
	return slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool {
		return strings.HasSuffix(v.Source, source) && v.Target == target
	})
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
