package rules_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/latchkey-gateway/latchkey/cmd/rules"
)

// root is the repository's.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func packages(t *testing.T) []rules.Package {
	t.Helper()
	list, err := rules.List(root(t))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(list, func(p rules.Package) bool { return p.ImportPath == rules.Module+"/intent" }) {
		t.Fatalf("go list found no package intent among %d", len(list))
	}
	return list
}

func files(t *testing.T) []rules.File {
	t.Helper()
	list, err := rules.Files(os.DirFS(root(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, known := range []string{"go.mod", "intent/doc.go", ".ci/test", "cmd/rules/rules_test.go"} {
		if !slices.ContainsFunc(list, func(f rules.File) bool { return f.Path == known }) {
			t.Fatalf("%s was not read", known)
		}
	}
	return list
}

func report(t *testing.T, findings []string) {
	t.Helper()
	for _, f := range findings {
		t.Error(strings.TrimPrefix(f, root(t)+"/"))
	}
}

func TestLayers(t *testing.T) {
	t.Parallel()
	list := packages(t)
	report(t, rules.CheckLayers(rules.Layers, list))
	report(t, rules.CheckOwners(rules.Owners, list))
}

func TestDocs(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		fset, parsed, err := rules.Parse(p.Dir, p.GoFiles)
		if err != nil {
			t.Error(err)
			continue
		}
		report(t, rules.CheckDocs(strings.TrimPrefix(p.ImportPath, rules.Module+"/"), fset, parsed))
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for _, f := range files(t) {
		report(t, rules.CheckLength(f))
		report(t, rules.CheckWords(f))
		report(t, rules.CheckHeader(f))
	}
}
