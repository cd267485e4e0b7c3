// Package check judges a run by what was seen from outside. It knows the contract and
// nothing of how the gateway works; the ledger of the target is its ground truth.
//
// Each rule is one function from a run to findings, and each has a test with a forged run
// that must turn it red. A finding is a broken promise, or a defect of the checker: no rule
// tolerates "a few".
package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/history"
)

// Rule is one thing that must hold of every run.
type Rule struct {
	Name string
	Says string // the promise in a sentence
	find func(*facts) []string
}

// Result is what became of a rule.
type Result struct {
	Name     string   `json:"name"`
	Says     string   `json:"says"`
	Broken   int      `json:"broken"`
	Findings []string `json:"findings,omitempty"` // the first of them
}

// maxFindings of one rule are written out; the others are counted.
const maxFindings = 20

// Rules are all of them, in the order of the report.
var Rules = []Rule{
	{"one_effect", "an intent has at most one effect on the ledger", oneEffect},
	{"one_key", "a forwarded key has at most one effect on the ledger", oneKey},
	{"one_result", "every caller of a key gets the same result, at any time", oneResult},
	{"kept", "a result that was reported is still there after the run", kept},
	{"evidence", "what counts as completed is on the ledger, and was there before anybody was told", evidence},
	{"no_denial", "what counts as rejected is not on the ledger", noDenial},
	{"ended", "nothing is left started", ended},
	{"said_as_is", "HTTP status, receipt status and retry say the same", saidAsIs},
	{"mismatch_ran_not", "a call that was refused as a mismatch or step conflict did not act", mismatchRanNot},
	{"mismatch_due", "a call is refused as a mismatch or step conflict only where the same intent was worded otherwise", mismatchDue},
	{"mismatch_silent", "such a refusal shows nothing of what is stored", mismatchSilent},
	{"tenants", "nobody sees anything of another tenant's receipt", tenants},
	{"last_word", "agents claim success only for what happened, and failure only for what did not", lastWord},
	{"approved", "nothing irreversible happened without an approval", approved},
}

// Check applies all rules.
func Check(run *history.Run) []Result {
	f := sift(run)
	var results []Result
	for _, rule := range Rules {
		if run.Direct && rule.Name != "one_effect" {
			continue // the others speak of receipts
		}
		findings := rule.find(f)
		results = append(results, Result{rule.Name, rule.Says, len(findings), findings[:min(len(findings), maxFindings)]})
	}
	return results
}

// Broken says whether any rule is.
func Broken(results []Result) bool {
	return slices.ContainsFunc(results, func(r Result) bool { return r.Broken > 0 })
}

// id names an intent on the ledger.
type id struct{ service, ref string }

// facts are a run, sorted for the rules.
type facts struct {
	*history.Run
	effects  map[id][]history.Effect
	byEffect map[string]history.Effect
	attempts map[id][]history.Attempt
	receipts map[string]history.Receipt // by key
}

func sift(run *history.Run) *facts {
	f := &facts{Run: run, effects: map[id][]history.Effect{}, byEffect: map[string]history.Effect{},
		attempts: map[id][]history.Attempt{}, receipts: map[string]history.Receipt{}}
	for _, e := range run.Effects {
		f.effects[id{e.Service, e.Ref}] = append(f.effects[id{e.Service, e.Ref}], e)
		f.byEffect[e.ID] = e
	}
	for _, a := range run.Attempts {
		f.attempts[id{a.Tool, a.Ref}] = append(f.attempts[id{a.Tool, a.Ref}], a)
	}
	for _, r := range run.Receipts {
		f.receipts[r.Key] = r
	}
	return f
}

// first is the earliest effect of an intent.
func (f *facts) first(of id) (time.Time, bool) {
	var at time.Time
	for _, e := range f.effects[of] {
		if at.IsZero() || e.At.Before(at) {
			at = e.At
		}
	}
	return at, !at.IsZero()
}

type findings []string

func (l *findings) add(format string, args ...any) { *l = append(*l, fmt.Sprintf(format, args...)) }
