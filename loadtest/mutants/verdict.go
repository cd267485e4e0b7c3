package mutants

import (
	"bufio"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"
)

// Verdict is what became of a mutant.
type Verdict uint8

// Only Killed is good.
const (
	_        Verdict = iota
	Killed           // its tests compiled, and one of them failed
	Survived         // its tests passed: one is missing
	Stale            // its text is not in the file exactly once
	Broken           // it does not compile
	TimedOut         // its tests did not end in time
	Crashed          // the process ended, and no test failed
	Idle             // no test ran
	Failed           // the go command itself failed
)

var verdictWords = []string{"", "killed", "SURVIVED", "stale", "does not compile", "timed out", "crashed", "no test ran", "failed"}

// String returns the verdict's word.
func (v Verdict) String() string { return verdictWords[v] }

// Result is a mutant and what became of it.
type Result struct {
	Mutant
	Verdict Verdict
	By      string // the first test that failed
	Took    time.Duration
	Detail  string // the last lines of the output, where it was not killed
}

// event is one line of go test -json (see go doc test2json).
type event struct {
	Action, Test, Output string
}

// judge reads the output of go test -json on one package and says what it means. by is the
// first test that failed, the innermost one where a subtest did.
func judge(stream io.Reader) (v Verdict, by, detail string) {
	var failed []string
	var lines []string
	passed, broken, timedOut, bad := 0, false, false, false
	scanner := bufio.NewScanner(stream)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		var e event
		if json.Unmarshal(scanner.Bytes(), &e) != nil {
			lines = append(lines, scanner.Text()) // the go command speaks for itself
			continue
		}
		switch e.Action {
		case "build-fail":
			broken = true
		case "build-output", "output":
			timedOut = timedOut || strings.HasPrefix(e.Output, "panic: test timed out after ")
			lines = append(lines, strings.TrimRight(e.Output, "\n"))
		case "pass":
			if e.Test != "" {
				passed++
			}
		case "fail":
			bad = true
			if e.Test != "" {
				failed = append(failed, e.Test)
			}
		}
	}
	detail = strings.Join(lines[max(0, len(lines)-25):], "\n")
	switch {
	case broken:
		return Broken, "", detail
	case timedOut:
		return TimedOut, "", detail
	case len(failed) > 0:
		return Killed, innermost(failed), detail
	case bad:
		return Crashed, "", detail
	case scanner.Err() != nil || passed == 0 && len(lines) == 0:
		return Failed, "", detail
	case passed == 0:
		return Idle, "", detail
	}
	return Survived, "", detail
}

// innermost is the first test of the list that has no failed test below it.
func innermost(failed []string) string {
	for _, name := range failed {
		if !slices.ContainsFunc(failed, func(other string) bool { return strings.HasPrefix(other, name+"/") }) {
			return name
		}
	}
	return failed[0]
}
