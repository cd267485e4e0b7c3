package downstream

import (
	"fmt"
	"slices"
	"strings"

	"github.com/latchkey-gateway/latchkey/intent"
)

// Risks says of every tool, in the order of Tools, what could still make a second effect, or
// reveal something, although everything is set right: on whose word its safety rests.
func (c *Catalogue) Risks() []Remark {
	var all []Remark
	for _, t := range c.sorted {
		if t.Class == intent.ReadOnly {
			continue
		}
		list := slices.Concat(t.absenceRisk(), t.retryRisk(), t.redactionRisk())
		slices.SortStableFunc(list, func(x, y Remark) int { return strings.Compare(x.Field, y.Field) })
		all = append(all, list...)
	}
	return all
}

func (t *Tool) note(field, format string, v ...any) []Remark {
	return []Remark{{t.Name, Note, field, fmt.Sprintf(format, v...)}}
}

func (t *Tool) absenceRisk() []Remark {
	l := t.Lookup
	switch {
	case l == nil || t.OnUnknown != LookupUnknown:
		return nil
	case t.rules.absent == nil:
		return t.note("lookup.absent_when", "without it, nothing ever proves that it did not happen: what did not happen waits for a person from %v on", l.GiveUpAfter)
	case !l.AbsenceIsProof:
		return t.note("lookup.absence_is_proof", "off: that a lookup finds nothing proves nothing, so what did not happen waits for a person from %v on", l.GiveUpAfter)
	}
	next := "the caller is then told that the same call is safe"
	field := "lookup.absence_is_proof"
	if l.ReexecuteWhenAbsent {
		next, field = "latchkey then acts again by itself, a few times at most", "lookup.reexecute_when_absent"
	}
	second := "the second call acts twice"
	if t.Dedupes && t.ForwardHeader != "" {
		second = "the second call acts twice, unless the downstream still dedupes it"
	}
	return t.note(field, "what a lookup does not find %v after its outcome became unknown counts as not done, and %s. This rests on the provider's word: if it shows an action later than that (a slow queue, a lagging replica or search index), or a copy of the request is still on its way, %s",
		l.SettleAfter, next, second)
}

func (t *Tool) retryRisk() []Remark {
	if t.OnUnknown != RetryUnknown {
		return nil
	}
	if !t.acts() {
		return t.note("on_unknown", "what is lost is sent again, a few times at most: the class says that this leaves the same state, also when something else changed it in between")
	}
	return t.note("on_unknown", "what is lost is sent again, with the same key and the same bytes, a few times at most and only within %v of the first call. This rests on the provider's word that it acts once per key for so long: if it forgets sooner, a retry acts twice",
		t.DedupesFor)
}

func (t *Tool) redactionRisk() []Remark {
	var list []Remark
	if by := t.ArgsNeededBy(); by != "" {
		list = t.note("redact", "%s needs %s again, so these arguments are kept, encrypted with store.seal_key, until the outcome is settled: whoever has the key and the store can read them until then", by, join(t.Rules.Redact))
	}
	if t.Approval != nil && len(t.Rules.Redact) > 0 {
		list = append(list, t.note("approval", "the person who approves sees %s as [redacted] only: the approval is bound to the values, and the person cannot judge them", join(t.Rules.Redact))...)
	}
	return list
}
