package stack

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// ours are the packages of the product that the binary is made of.
func ours(t *testing.T) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Module", "./cmd/latchkey")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/latchkey-gateway/latchkey"
	var paths []string
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Module     *struct{ Path string }
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return paths
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Module != nil && p.Module.Path == module {
			paths = append(paths, strings.TrimPrefix(p.ImportPath, module+"/"))
		}
	}
}

// A package that .dockerignore holds back would break the image alone.
func TestImageHasEveryPackage(t *testing.T) {
	t.Parallel()
	let := strings.Split(read(t, ".dockerignore"), "\n")
	packages := ours(t)
	if len(packages) < 8 {
		t.Fatalf("only %d packages: %v", len(packages), packages)
	}
	for _, p := range packages {
		top, _, _ := strings.Cut(p, "/")
		if !slices.Contains(let, "!"+top+"/") {
			t.Errorf(".dockerignore holds back %s", p)
		}
		if slices.Contains(let, p) {
			t.Errorf(".dockerignore names %s, which the binary needs", p)
		}
	}
}

func TestDockerfile(t *testing.T) {
	t.Parallel()
	text := read(t, "Dockerfile")
	stages := strings.Split(text, "\nFROM ")
	last := stages[len(stages)-1]
	for _, want := range []string{"scratch\n", "\nUSER 65532:65532\n", "/etc/ssl/certs/ca-certificates.crt", `ENTRYPOINT ["/latchkey"]`} {
		if !strings.Contains("\n"+last, want) {
			t.Errorf("the image lacks %q", want)
		}
	}
	if strings.Contains(last, "\nRUN ") {
		t.Error("nothing can be run on scratch")
	}
	for _, want := range []string{"CGO_ENABLED=0", "-trimpath", "-X main.version=${VERSION}"} {
		if !strings.Contains(text, want) {
			t.Errorf("the build lacks %q", want)
		}
	}
	// The chart's user is the image's.
	if !strings.Contains(read(t, "helm/latchkey/values.yaml"), "runAsUser: 65532") {
		t.Error("the chart runs as another user than the image")
	}
	version := regexp.MustCompile(`ARG GO_VERSION=(\S+)`).FindStringSubmatch(text)
	needs := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(read(t, "go.mod"))
	if version == nil || needs == nil || older(version[1], needs[1]) {
		t.Errorf("the image builds with Go %v, the module needs %v", version, needs)
	}
}

func older(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		if len(x[i]) != len(y[i]) {
			return len(x[i]) < len(y[i])
		}
		if x[i] != y[i] {
			return x[i] < y[i]
		}
	}
	return len(x) < len(y)
}

// release is the part of goreleaser's configuration that is used; decoding is strict.
type release struct {
	Version     int    `json:"version"`
	ProjectName string `json:"project_name"`
	Before      struct {
		Hooks []string `json:"hooks"`
	} `json:"before"`
	Builds []struct {
		ID           string   `json:"id"`
		Main         string   `json:"main"`
		Binary       string   `json:"binary"`
		Env          []string `json:"env"`
		Flags        []string `json:"flags"`
		LDFlags      []string `json:"ldflags"`
		ModTimestamp string   `json:"mod_timestamp"`
		GOOS         []string `json:"goos"`
		GOARCH       []string `json:"goarch"`
	} `json:"builds"`
	Archives []struct {
		ID           string   `json:"id"`
		IDs          []string `json:"ids"`
		Formats      []string `json:"formats"`
		NameTemplate string   `json:"name_template"`
		Files        []struct {
			Src  string         `json:"src"`
			Dst  string         `json:"dst"`
			Info map[string]any `json:"info"`
		} `json:"files"`
		BuildsInfo map[string]any `json:"builds_info"`
	} `json:"archives"`
	SBOMs []struct {
		ID        string `json:"id"`
		Artifacts string `json:"artifacts"`
	} `json:"sboms"`
	Checksum struct {
		NameTemplate string `json:"name_template"`
		Algorithm    string `json:"algorithm"`
	} `json:"checksum"`
	Changelog struct {
		Disable bool `json:"disable"`
	} `json:"changelog"`
	Release struct {
		Draft      bool   `json:"draft"`
		Prerelease string `json:"prerelease"`
	} `json:"release"`
}

func TestReleaseIsReproducible(t *testing.T) {
	t.Parallel()
	var r release
	if err := yaml.UnmarshalStrict([]byte(read(t, ".goreleaser.yaml")), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Builds) != 1 || len(r.Archives) != 1 || len(r.SBOMs) != 1 || r.Checksum.Algorithm != "sha256" {
		t.Fatalf("want one build, archive and SBOM, and SHA-256 sums: %+v", r)
	}
	b := r.Builds[0]
	if !slices.Contains(b.Env, "CGO_ENABLED=0") || !slices.Contains(b.Flags, "-trimpath") || !slices.Contains(b.Flags, "-buildvcs=false") ||
		b.ModTimestamp != "{{ .CommitTimestamp }}" || strings.Contains(strings.Join(b.LDFlags, " "), "Date") {
		t.Errorf("the bytes depend on more than commit and Go version: %+v", b)
	}
	if !slices.Equal(b.GOOS, []string{"linux", "darwin"}) || !slices.Equal(b.GOARCH, []string{"amd64", "arm64"}) {
		t.Errorf("built for %v on %v", b.GOOS, b.GOARCH)
	}
	for _, f := range r.Archives[0].Files {
		if _, err := os.Stat(filepath.Join(root, f.Src)); err != nil {
			t.Errorf("the archive names what is not there: %v", err)
		}
	}
}

// Two builds with the release's flags, from two folders and with caches of their own, give
// the same bytes. It compiles everything twice, ten minutes of processor time, so it is
// asked for: LATCHKEY_TEST_RELEASE=1.
func TestTwoBuildsAreTheSame(t *testing.T) {
	if os.Getenv("LATCHKEY_TEST_RELEASE") == "" {
		t.Skip("compiles everything twice: set LATCHKEY_TEST_RELEASE=1")
	}
	var r release
	if err := yaml.UnmarshalStrict([]byte(read(t, ".goreleaser.yaml")), &r); err != nil {
		t.Fatal(err)
	}
	b := r.Builds[0]
	var sums [][32]byte
	for _, below := range []string{"a", "another/folder"} {
		src := filepath.Join(t.TempDir(), below)
		if err := os.CopyFS(src, os.DirFS(root)); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "latchkey")
		ldflags := strings.ReplaceAll(b.LDFlags[0], "{{ .Tag }}", "v0.0.0")
		cmd := exec.CommandContext(t.Context(), "go", slices.Concat([]string{"build"}, b.Flags, []string{"-ldflags=" + ldflags, "-o", file, b.Main})...)
		cmd.Dir, cmd.Env = src, append(os.Environ(), "CGO_ENABLED=0", "GOCACHE="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, sha256.Sum256(data))
	}
	if sums[0] != sums[1] {
		t.Errorf("two builds differ: %x and %x", sums[0], sums[1])
	}
}
