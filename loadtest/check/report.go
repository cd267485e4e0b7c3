package check

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/history"
)

// Report is what a run comes to.
type Report struct {
	Title     string            `json:"title"`
	Command   string            `json:"command"` // repeats the run
	Machine   map[string]string `json:"machine"`
	Seed      uint64            `json:"seed"`
	Took      time.Duration     `json:"took"`
	Numbers   Numbers           `json:"numbers"`
	Direct    *Numbers          `json:"direct,omitempty"` // the same fleet without the gateway
	Rules     []Result          `json:"rules"`
	Sometimes []Sometimes       `json:"sometimes"`
	Faults    []history.Fault   `json:"faults"`
	Limits    []string          `json:"limits"` // what the run cannot show
}

// Numbers sum a run up.
type Numbers struct {
	Intents  int `json:"intents"`
	Calls    int `json:"calls"`
	Answered int `json:"answered"`
	Effects  int `json:"effects"`
	// Duplicates are effects beyond the first of an intent, and Doubled the intents that
	// had any. Tools whose repetition is harmless are left out.
	Duplicates int            `json:"duplicates"`
	Doubled    int            `json:"doubled"`
	ByTool     map[string]int `json:"duplicates_by_tool"`
	Said       map[string]int `json:"said"`
	// Wrong are last words that are not true.
	Wrong    int            `json:"wrong_words"`
	Statuses map[string]int `json:"statuses"` // of receipts
	HTTP     map[int]int    `json:"http"`
	P50      time.Duration  `json:"p50"`
	P99      time.Duration  `json:"p99"`
}

// PerThousand is how many duplicates a thousand intents had.
func (n Numbers) PerThousand() float64 {
	return 1000 * float64(n.Duplicates) / float64(max(n.Intents, 1))
}

// Sum sums a run up.
func Sum(run *history.Run) Numbers {
	f := sift(run)
	n := Numbers{Intents: run.Intents, Calls: len(run.Attempts), Effects: len(run.Effects),
		ByTool: map[string]int{}, Said: map[string]int{}, Statuses: map[string]int{}, HTTP: map[int]int{}}
	for of, effects := range f.effects {
		if extra := len(effects) - 1; extra > 0 && !history.ToolNamed(of.service).Repeats {
			n.Duplicates += extra
			n.Doubled++
			n.ByTool[of.service] += extra
		}
	}
	var took []time.Duration
	for _, a := range run.Attempts {
		n.HTTP[a.HTTP]++
		if a.HTTP != 0 {
			n.Answered++
			took = append(took, a.Got.Sub(a.Sent))
		}
	}
	if slices.Sort(took); len(took) > 0 {
		n.P50, n.P99 = took[len(took)/2], took[len(took)*99/100]
	}
	for _, w := range run.Words {
		n.Said[string(w.Said)]++
		_, happened := f.first(id{w.Tool, w.Ref})
		if history.ToolNamed(w.Tool).Class != "read_only" && (w.Said == history.Done && !happened || w.Said == history.NotDone && happened) {
			n.Wrong++
		}
	}
	for _, r := range run.Receipts {
		n.Statuses[r.Status]++
	}
	return n
}

// Green says whether every rule held.
func (r *Report) Green() bool { return !Broken(r.Rules) }

// JSON is the report for programs.
func (r *Report) JSON() ([]byte, error) { return json.MarshalIndent(r, "", "  ") }

// Markdown is the report for people.
func (r *Report) Markdown() string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	verdict := "every rule held"
	switch {
	case r.Green():
	case len(r.Rules) < len(Rules):
		verdict = "nothing kept agents from acting twice"
	default:
		verdict = "**broken promises, see below**"
	}
	p("# %s\n\nSeed %d, %s: %s. Again: `%s`\n", r.Title, r.Seed, r.Took.Round(time.Second), verdict, r.Command)
	for _, k := range slices.Sorted(maps.Keys(r.Machine)) {
		p("- %s: %s", k, r.Machine[k])
	}
	columns := []Numbers{r.Numbers}
	if r.Direct == nil {
		p("\n| | |\n|---|--:|")
	} else {
		columns = append(columns, *r.Direct)
		p("\n| | with the gateway | without, same fleet and target |\n|---|--:|--:|")
	}
	for _, row := range []struct {
		name string
		of   func(Numbers) string
	}{
		{"intents", func(n Numbers) string { return fmt.Sprint(n.Intents) }},
		{"calls", func(n Numbers) string { return fmt.Sprint(n.Calls) }},
		{"calls answered", func(n Numbers) string { return fmt.Sprint(n.Answered) }},
		{"effects", func(n Numbers) string { return fmt.Sprint(n.Effects) }},
		{"**duplicate effects**", func(n Numbers) string { return fmt.Sprintf("**%d**", n.Duplicates) }},
		{"**per 1000 intents**", func(n Numbers) string { return fmt.Sprintf("**%.1f**", n.PerThousand()) }},
		{"intents with a duplicate", func(n Numbers) string { return fmt.Sprint(n.Doubled) }},
		{"last words that were not true", func(n Numbers) string { return fmt.Sprint(n.Wrong) }},
		{"p50 / p99 of an answer", func(n Numbers) string {
			return fmt.Sprintf("%s / %s", n.P50.Round(100*time.Microsecond), n.P99.Round(time.Millisecond))
		}},
	} {
		cells := []string{row.name}
		for _, n := range columns {
			cells = append(cells, row.of(n))
		}
		p("| %s |", strings.Join(cells, " | "))
	}
	p("\nAgents said in the end: %s. Receipts: %s. HTTP: %s (0: no answer).\n", counts(r.Numbers.Said), counts(r.Numbers.Statuses), counts(r.Numbers.HTTP))
	p("## What must hold\n\n| rule | | broken |\n|---|---|--:|")
	for _, rule := range r.Rules {
		p("| %s | %s | %d |", rule.Name, rule.Says, rule.Broken)
	}
	for _, rule := range r.Rules {
		for _, finding := range rule.Findings {
			p("- %s: %s", rule.Name, finding)
		}
	}
	r.cameUp(p)
	if len(r.Faults) > 0 {
		kinds := map[string]int{}
		for _, f := range r.Faults {
			kinds[f.Kind]++
		}
		p("## What was done to it\n\n%d faults: %s.\n", len(r.Faults), counts(kinds))
	}
	if len(r.Limits) > 0 {
		p("## What this run cannot show\n")
		for _, l := range r.Limits {
			p("- %s", l)
		}
	}
	return b.String()
}

func (r *Report) cameUp(p func(string, ...any)) {
	if len(r.Sometimes) == 0 {
		return
	}
	p("\n## What came up\n\nA run proves nothing about what did not come up in it.\n\n| | | times |\n|---|---|--:|")
	for _, s := range r.Sometimes {
		missing := ""
		if s.Wanted && s.Count == 0 {
			missing = " **(never)**"
		}
		p("| %s | %s | %d%s |", s.Name, s.Says, s.Count, missing)
	}
	p("\nNot visible from outside, and forced one by one by the gateway's own tests: %s.\n", strings.Join(Unseen, "; "))
}

// Missing are the situations that were wanted and never came up.
func (r *Report) Missing() []string {
	var names []string
	for _, s := range r.Sometimes {
		if s.Wanted && s.Count == 0 {
			names = append(names, s.Name)
		}
	}
	return names
}

func counts[K cmp.Ordered](m map[K]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%v %d", k, m[k]))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
