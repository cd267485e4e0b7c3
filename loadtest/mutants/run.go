package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Runner runs suites in one checkout, which it only reads.
type Runner struct {
	Root    string        // of the repository
	Dir     string        // for overlays: empty, and the caller's to remove
	Env     []string      // besides the process' own
	Timeout time.Duration // of one suite, without compiling it
}

// compiling bounds what building a suite may take, on a machine that has other things to do.
const compiling = 10 * time.Minute

// Run lays the mutant over the tree and runs its suite.
func (r *Runner) Run(ctx context.Context, m Mutant) Result {
	began := time.Now()
	result := Result{Mutant: m}
	overlay, err := r.overlay(m)
	if err != nil {
		result.Verdict, result.Detail = Failed, err.Error()
		if _, stale := errors.AsType[*StaleError](err); stale {
			result.Verdict = Stale
		}
		return result
	}
	result.Verdict, result.By, result.Detail = r.test(ctx, m.Kills, "-failfast", "-overlay="+overlay)
	result.Took = time.Since(began)
	return result
}

// Sound runs the suites of the mutants on the tree as it is and returns what is not green.
// A mutant that is killed where its suite is red anyway proves nothing.
func (r *Runner) Sound(ctx context.Context, of []Mutant) error {
	patterns := make(map[string][]string)
	var packages []string
	for _, m := range of {
		s := m.Kills
		if len(patterns[s.Package]) == 0 {
			packages = append(packages, s.Package)
		}
		if !slices.Contains(patterns[s.Package], s.Run) {
			patterns[s.Package] = append(patterns[s.Package], s.Run)
		}
	}
	var red error
	for _, p := range packages {
		for _, run := range together(patterns[p]) {
			if v, by, detail := r.test(ctx, Suite{p, run}); v != Survived {
				red = errors.Join(red, fmt.Errorf("%s -run '%s' without a mutant: %s %s\n%s", p, run, v, by, detail))
			}
		}
	}
	return red
}

// together joins the patterns that name whole tests into one. The others, which go test splits
// at their slashes before it looks for alternatives, stay by themselves.
func together(patterns []string) []string {
	var whole, apart []string
	for _, p := range patterns {
		if strings.Contains(p, "/") {
			apart = append(apart, p)
		} else {
			whole = append(whole, p)
		}
	}
	if len(whole) > 0 {
		apart = append(apart, strings.Join(whole, "|"))
	}
	return apart
}

// overlay writes the mutated file and the go command's map to it.
func (r *Runner) overlay(m Mutant) (string, error) {
	text, err := m.Mutated(r.Root)
	if err != nil {
		return "", err
	}
	to := filepath.Join(r.Dir, m.Name+filepath.Ext(m.File))
	if err := os.WriteFile(to, text, 0o644); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]map[string]string{
		"Replace": {filepath.Join(r.Root, filepath.FromSlash(m.File)): to},
	})
	if err != nil {
		return "", err
	}
	path := filepath.Join(r.Dir, m.Name+".json")
	return path, os.WriteFile(path, list, 0o644)
}

// test runs a suite. -count=1: a cached answer would be as good, but would not say how long
// it takes.
func (r *Runner) test(ctx context.Context, s Suite, flags ...string) (v Verdict, by, detail string) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout+compiling)
	defer cancel()
	args := append([]string{"test", "-json", "-vet=off", "-count=1", "-timeout=" + r.Timeout.String(), "-run=" + s.Run}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, s.Package)...)
	cmd.Dir = r.Root
	cmd.Env = append(os.Environ(), r.Env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // the go command ends its tests
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if ctx.Err() != nil {
		return Failed, "", ctx.Err().Error()
	}
	v, by, detail = judge(&out)
	if err == nil != (v == Survived || v == Idle) { // the exit code and the events disagree
		return Failed, "", fmt.Sprintf("%v; %s", err, detail)
	}
	return v, by, detail
}
