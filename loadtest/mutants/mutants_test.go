package mutants

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The repository, from this package's folder.
const root = "../.."

// Every mutant still fits the code, changes it, and names tests that there are. That it is
// killed takes minutes, and is `make mutants`.
func TestEveryMutantFits(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	name := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	for _, m := range All() {
		t.Run(m.Name, func(t *testing.T) {
			if !name.MatchString(m.Name) || seen[m.Name] {
				t.Error("the name is not one of its own, in lower case and dashes")
			}
			seen[m.Name] = true
			if m.Guard == "" || strings.ContainsAny(m.Guard, "|\n") || m.Old == m.New {
				t.Error("it says nothing of its guard, or changes nothing")
			}
			if _, err := m.Mutated(root); err != nil {
				t.Error(err)
			}
			tests := sources(t, m.Kills.Package)
			first, _, _ := strings.Cut(m.Kills.Run, "/")
			for one := range strings.SplitSeq(first, "|") {
				if !strings.Contains(tests, "func "+one) {
					t.Errorf("%s has no test %s", m.Kills.Package, one)
				}
			}
		})
	}
	if len(seen) < 20 {
		t.Errorf("only %d mutants", len(seen))
	}
}

// sources is all test code of a package in one piece.
func sources(t *testing.T, pkg string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// module is a small module with one guard, in Go and in an embedded file, and its tests.
func module(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module example.com/m\n\ngo 1.26\n",
		"rule.txt":  "at most 1\n",
		"guard.go":  "package m\n\nimport _ \"embed\"\n\n//go:embed rule.txt\nvar rule string\n\nfunc allowed(n int) bool { return n <= 1 }\n",
		"m_test.go": "package m\n\nimport (\"testing\"; \"os\")\n\nfunc TestGuard(t *testing.T) { t.Run(\"two\", func(t *testing.T) { if allowed(2) { t.Error(\"two\") } }) }\n\nfunc TestRule(t *testing.T) { if rule != \"at most 1\\n\" { t.Error(rule) } }\n\nfunc TestNothing(t *testing.T) {}\n\nfunc TestSkipped(t *testing.T) { t.Skip() }\n\nfunc TestEnds(t *testing.T) { if allowed(2) { os.Exit(1) } }\n\nfunc TestWaits(t *testing.T) { for allowed(2) { } }\n\nfunc TestRed(t *testing.T) { t.Error(\"red\") }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Each way that a mutant can end has its word, and one alone of them is a kill.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	runner := Runner{Root: module(t), Dir: t.TempDir(), Env: []string{"GOFLAGS=-mod=mod", "GOWORK=off"}, Timeout: time.Minute}
	loose := Mutant{File: "guard.go", Old: "n <= 1", New: "n <= 2"}
	for _, c := range []struct {
		name, run string
		mutant    Mutant
		want      Verdict
		by        string
	}{
		{"killed", "TestGuard", loose, Killed, "TestGuard/two"},
		{"killed in an embedded file", "TestRule", Mutant{File: "rule.txt", Old: "1", New: "2"}, Killed, "TestRule"},
		{"survived", "TestNothing", loose, Survived, ""},
		{"no test of that name", "TestGone", loose, Idle, ""},
		{"all tests skipped", "TestSkipped", loose, Idle, ""},
		{"does not compile", "TestGuard", Mutant{File: "guard.go", Old: "n <= 1", New: "n <= nobody"}, Broken, ""},
		{"the process ended", "TestEnds", loose, Crashed, ""},
		{"text gone", "TestGuard", Mutant{File: "guard.go", Old: "n < 1", New: "true"}, Stale, ""},
		{"text twice", "TestGuard", Mutant{File: "guard.go", Old: "rule", New: "law"}, Stale, ""},
		{"no such file", "TestGuard", Mutant{File: "gone.go", Old: "a", New: "b"}, Failed, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := c.mutant
			m.Name, m.Kills = strings.ReplaceAll(c.name, " ", "-"), Suite{".", c.run}
			if got := runner.Run(t.Context(), m); got.Verdict != c.want || got.By != c.by {
				t.Errorf("%s by %q, want %s by %q\n%s", got.Verdict, got.By, c.want, c.by, got.Detail)
			}
		})
	}
	t.Run("timed out", func(t *testing.T) {
		runner := runner
		runner.Timeout = time.Second
		m := loose
		m.Name, m.Kills = "waits", Suite{".", "TestWaits"}
		if got := runner.Run(t.Context(), m); got.Verdict != TimedOut {
			t.Errorf("%s\n%s", got.Verdict, got.Detail)
		}
	})
	t.Run("red without a mutant", func(t *testing.T) {
		sound := []Mutant{{Kills: Suite{".", "TestGuard"}}, {Kills: Suite{".", "TestGuard/two"}}, {Kills: Suite{".", "TestRule"}}}
		if err := runner.Sound(t.Context(), sound); err != nil {
			t.Error(err)
		}
		if err := runner.Sound(t.Context(), append(sound, Mutant{Kills: Suite{".", "TestRed"}})); err == nil || !strings.Contains(err.Error(), "TestRed") {
			t.Errorf("%v", err)
		}
	})
	if text, err := os.ReadFile(filepath.Join(runner.Root, "guard.go")); err != nil || !strings.Contains(string(text), "n <= 1") {
		t.Errorf("the tree was changed: %s, %v", text, err)
	}
}

func TestStaleErrorNamesThePlace(t *testing.T) {
	t.Parallel()
	_, err := Mutant{Name: "x", File: "go.mod", Old: "no such text"}.Mutated(root)
	stale, ok := errors.AsType[*StaleError](err)
	if !ok || stale.Found != 0 || !strings.Contains(err.Error(), "go.mod") {
		t.Errorf("%v", err)
	}
}

func TestReports(t *testing.T) {
	t.Parallel()
	r := Report{Took: 3 * time.Second, Facts: [][2]string{{"commit", "abc"}}, Results: []Result{
		{Mutant: Mutant{Name: "one", Guard: "a guard", File: "f.go", Kills: Suite{"./f", "TestF"}}, Verdict: Killed, By: "TestF/a|b", Took: time.Second},
		{Mutant: Mutant{Name: "two", Guard: "another", File: "g.sql"}, Verdict: Survived},
	}}
	var table, page strings.Builder
	if err := errors.Join(r.Table(&table), r.Markdown(&page)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 of 2 killed", "f TestF/a|b", "SURVIVED"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, table.String())
		}
	}
	for _, want := range []string{"1 of 2 killed", "- commit: abc", "| one | a guard | `f.go` | `f TestF/a\\|b` | 1.0 |", "| two | another | `g.sql` | `SURVIVED` |"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %q in\n%s", want, page.String())
		}
	}
}
