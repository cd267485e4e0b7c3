package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing wrong with a config, or worth a warning.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`  // 0: the file as a whole
	Field   string `json:"field"` // "tools.send_invoice_email.timeout"; "": the file as a whole
	Message string `json:"message"`
}

// Error returns "latchkey.yaml:12: tools.x.tmeout: unknown field".
func (p Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	b.WriteString(": ")
	if p.Field != "" {
		b.WriteString(p.Field + ": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Problems is the error of Load and Parse: everything wrong, sorted by line.
type Problems []Problem

// Error returns one problem a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Warning is a choice that works but is probably not meant.
type Warning Problem

// String returns the same form as Problem.Error.
func (w Warning) String() string { return Problem(w).Error() }

func byLine(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Message, b.Message))
}

func sorted(ps []Problem) []Problem {
	slices.SortStableFunc(ps, byLine)
	return slices.Compact(ps)
}

// suggest returns the candidate that word is most likely a slip of, or "".
func suggest(word string, candidates []string) string {
	best, limit := "", len(word)/3+1
	for _, c := range candidates {
		if d := distance(strings.ToLower(word), c); d <= limit && d < len(c) {
			best, limit = c, d-1
		}
	}
	return best
}

// distance is Levenshtein's.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
