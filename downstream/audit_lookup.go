package downstream

import (
	"context"
	"maps"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/latchkey-gateway/latchkey/intent"
)

// lookup: would a lookup find what happened, and nothing else?
func (a *audit) lookup() {
	t := a.t
	if t.Lookup == nil || t.Class == intent.ReadOnly {
		return
	}
	l := t.Lookup
	if t.OnUnknown != LookupUnknown {
		a.warn("lookup", "is never asked by itself, because on_unknown is %s", t.OnUnknown)
	}
	proof := a.warn
	if l.AbsenceIsProof {
		proof = a.unsafe // then a wrong "absent" makes a second effect
	}
	told := t.ForwardHeader != "" || t.request.uses(placeKey)
	switch {
	case t.asks.uses(placeKey) && !told:
		proof("lookup.request", "asks for {key}, but the downstream is never told the key: put it into the request or into forward_key.header")
	case !t.asks.uses(placeKey) && !t.asks.uses(placeArg):
		proof("lookup.request", "asks the same for every call: use {key} or an argument")
	}
	if l.SettleAfter < t.Timeout {
		proof("lookup.settle_after", "%v, counted from when the outcome became unknown, is shorter than the timeout of %v: a request whose connection broke early may still be worked on when the lookup finds nothing", l.SettleAfter, t.Timeout)
	}
	if l.GiveUpAfter < l.SettleAfter {
		proof("lookup.give_up_after", "%v is over before absence counts (settle_after %v): what did not happen is never found out", l.GiveUpAfter, l.SettleAfter)
	}
	a.rules(proof)
	if l.ReexecuteWhenAbsent && t.Class == intent.Irreversible {
		a.warn("lookup.reexecute_when_absent", "nobody can undo a second execution, and no person is asked before it")
	}
}

// rules: what do the rules say of a status whose answer is not known any further?
func (a *audit) rules(proof func(field, format string, v ...any)) {
	t := a.t
	completed, absent := t.rules.completed.byStatus(), t.rules.absent.byStatus()
	switch {
	case completed.always():
		a.unsafe("lookup.completed_when", "is true whatever the answer: every unknown outcome would be reported as done")
	case completed.never():
		a.warn("lookup.completed_when", "is never true for an answer that counts (2xx and most 4xx): it finds nothing that happened")
	case completed.says[200] == yes && !t.asks.needs(placeKey) && !t.asks.needs(placeArg):
		a.warn("lookup.completed_when", "takes status 200 alone as proof, but the path does not name the action, and a search answers 200 also when it finds nothing: look at response.body")
	}
	switch {
	case t.rules.absent == nil:
		return
	case absent.always():
		proof("lookup.absent_when", "is true whatever the answer")
	case absent.never():
		proof("lookup.absent_when", "is never true for an answer that counts (2xx and most 4xx): what did not happen waits for a person")
	case t.Lookup.AbsenceIsProof && absent.says[404] == yes:
		a.warn("lookup.absent_when", "takes status 404 alone as proof: a wrong path, a missing right or a proxy in between answers 404 too; a search that answers 200 with an empty list proves more")
	}
	if completed.always() || absent.always() {
		return
	}
	for _, status := range slices.Sorted(maps.Keys(completed.says)) {
		if completed.says[status] == yes && absent.says[status] == yes {
			proof("lookup.absent_when", "is true together with completed_when for every answer with status %d: they contradict each other, and nothing is proved", status)
			return
		}
	}
}

// say is what a rule says of a status before the rest of the answer is known.
type say uint8

const (
	depends say = iota // on the rest, or it cannot be told
	yes
	no
)

// sayings is what a rule says of each status for which rules are evaluated.
type sayings struct {
	says map[int]say
}

func (s sayings) all(what say) bool {
	for _, says := range s.says {
		if says != what {
			return false
		}
	}
	return len(s.says) > 0
}

func (s sayings) always() bool { return s.all(yes) }
func (s sayings) never() bool  { return s.all(no) }

// partial compiles the rule for answers that are known in part.
func (r *rule) partial() (cel.Program, error) {
	compiling.Lock()
	defer compiling.Unlock()
	env, err := language()
	if err != nil {
		return nil, err
	}
	return env.Program(r.ast, cel.EvalOptions(cel.OptPartialEval), cel.CostLimit(ruleCost), cel.InterruptCheckFrequency(ruleChecks))
}

// byStatus evaluates a rule for every status that counts while everything else is unknown.
func (r *rule) byStatus() sayings {
	out := sayings{says: make(map[int]say)}
	if r == nil {
		return out
	}
	program, err := r.partial()
	if err != nil {
		return out
	}
	unknown := []*cel.AttributePatternType{
		cel.AttributePattern("response").QualString("body"), cel.AttributePattern("response").QualString("headers"),
		cel.AttributePattern("args"), cel.AttributePattern("key"), cel.AttributePattern("run_id"), cel.AttributePattern("step_id"),
	}
	ctx, cancel := context.WithTimeout(context.Background(), ruleTime)
	defer cancel()
	for status := 200; status < 500; status++ {
		if tellsNothing(status) {
			continue
		}
		vars, err := cel.PartialVars(map[string]any{"response": &answered{Status: int64(status), Body: types.NullValue}}, unknown...)
		if err != nil {
			return out
		}
		v, _, err := program.ContextEval(ctx, vars)
		out.says[status] = depends
		if b, ok := v.(types.Bool); ok && err == nil {
			out.says[status] = no
			if b {
				out.says[status] = yes
			}
		}
	}
	return out
}
