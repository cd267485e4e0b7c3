package mutants

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is a whole check.
type Report struct {
	Results []Result
	Facts   [][2]string // name and value: commit, versions, machine
	Took    time.Duration
}

// Killed is how many mutants were killed.
func (r *Report) Killed() int {
	n := 0
	for _, result := range r.Results {
		if result.Verdict == Killed {
			n++
		}
	}
	return n
}

// Line writes one result as it comes.
func (r Result) Line(w io.Writer) {
	fmt.Fprintf(w, "%-9s %-34s %5.1f s  %s\n", r.Verdict, r.Name, r.Took.Seconds(), r.By)
	if r.Verdict != Killed && r.Detail != "" {
		fmt.Fprintf(w, "          %s\n", strings.ReplaceAll(r.Detail, "\n", "\n          "))
	}
}

// Table writes the results as columns.
func (r *Report) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "MUTANT\tGUARD\tFILE\tKILLED BY\tSECONDS")
	for _, x := range r.Results {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.1f\n", x.Name, x.Guard, x.File, x.by(), x.Took.Seconds())
	}
	fmt.Fprintf(t, "%d of %d killed in %.0f s\n", r.Killed(), len(r.Results), r.Took.Seconds())
	return t.Flush()
}

func (r *Result) by() string {
	if r.Verdict == Killed {
		return strings.TrimPrefix(r.Kills.Package, "./") + " " + r.By
	}
	return r.Verdict.String()
}

// Markdown writes the report for the repository.
func (r *Report) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Mutants: %d of %d killed\n\n", r.Killed(), len(r.Results))
	b.WriteString("Each mutant is the code with one guard of the promise broken. It is killed when a test that\n" +
		"compiles fails because of it; the same tests were green on the code as it is, in the same run.\n" +
		"`make mutants` repeats this.\n\n")
	for _, fact := range r.Facts {
		fmt.Fprintf(&b, "- %s: %s\n", fact[0], fact[1])
	}
	fmt.Fprintf(&b, "- took: %.0f s, one mutant at a time, compiling included\n\n", r.Took.Seconds())
	b.WriteString("| mutant | the guard that is broken | file | killed by | seconds |\n|---|---|---|---|---|\n")
	for _, x := range r.Results {
		fmt.Fprintf(&b, "| %s | %s | `%s` | `%s` | %.1f |\n", x.Name, x.Guard, x.File, strings.ReplaceAll(x.by(), "|", `\|`), x.Took.Seconds())
	}
	b.WriteString("\nWhat this does not show: that every guard is on the list, or that a guard cannot be broken in\n" +
		"another way than the one tried. The list is `loadtest/mutants`; a guard that is added belongs on it.\n")
	_, err := io.WriteString(w, b.String())
	return err
}
