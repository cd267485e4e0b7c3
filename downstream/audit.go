package downstream

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
)

// Remark is one thing that an audit has to say about a tool.
type Remark struct {
	Tool     string   `json:"tool"`
	Severity Severity `json:"severity"`
	Field    string   `json:"field"` // within the tool, such as lookup.settle_after
	Msg      string   `json:"msg"`
}

// Severity of a remark.
type Severity string

const (
	// Unsafe: the promise cannot be kept for this tool; `latchkey check` exits 1.
	Unsafe Severity = "error"
	// Warning: it can be kept, on a condition that somebody should know.
	Warning Severity = "warning"
	// Note: nothing is wrong; this is the risk that remains. Only Risks gives it.
	Note Severity = "note"
)

// AuditRow is one line of the table that `latchkey check` prints.
type AuditRow struct {
	Tool       string `json:"tool"`
	Class      string `json:"class"`
	Identity   string `json:"identity"`
	Forwarding string `json:"forwarding"`
	Unknown    string `json:"on_unknown"`
	Retry      string `json:"retry"` // in plain words: what a second call would do
}

// Audit says of every tool, in the order of Tools, what a second call of it would do, and
// what stands in the way of the promise. It judges the config alone: whether a downstream
// does dedupe on the key is its owner's word.
func (c *Catalogue) Audit() ([]AuditRow, []Remark) {
	var rows []AuditRow
	var all []Remark
	for _, t := range c.sorted {
		rows = append(rows, t.row())
		a := audit{t: t}
		a.resolution()
		a.lookup()
		a.method()
		a.arguments()
		a.promise()
		slices.SortStableFunc(a.found, func(x, y Remark) int { return strings.Compare(x.Field, y.Field) })
		all = append(all, a.found...)
	}
	return rows, all
}

type audit struct {
	t     *Tool
	found []Remark
}

func (a *audit) unsafe(field, format string, v ...any) {
	a.found = append(a.found, Remark{a.t.Name, Unsafe, field, fmt.Sprintf(format, v...)})
}

func (a *audit) warn(field, format string, v ...any) {
	a.found = append(a.found, Remark{a.t.Name, Warning, field, fmt.Sprintf(format, v...)})
}

// acts: a second execution is a second effect.
func (t *Tool) acts() bool { return t.Class >= intent.Effectful }

// resolution: would anybody ever resolve an unknown outcome, and safely?
func (a *audit) resolution() {
	t := a.t
	if t.Dedupes && t.ForwardHeader == "" {
		a.unsafe("forward_key.header", "dedupes is on, but without a header the downstream never sees the key")
	}
	switch t.OnUnknown {
	case LookupUnknown:
		if t.Lookup == nil {
			a.unsafe("on_unknown", "lookup is chosen, but there is none: an unknown outcome would stay unknown for ever; add a lookup, or choose park")
		}
	case RetryUnknown:
		switch {
		case !t.acts():
		case !t.Dedupes:
			a.unsafe("on_unknown", "retry would act a second time: the downstream does not dedupe on a forwarded key (forward_key.dedupes)")
		case t.DedupesFor == 0:
			a.unsafe("forward_key.for", "retry needs to know for how long the downstream remembers a key; a retry after that would act a second time")
		case t.DedupesFor < t.Timeout:
			a.unsafe("forward_key.for", "the downstream forgets a key after %v, before the timeout of %v tells that a retry is needed", t.DedupesFor, t.Timeout)
		case t.DedupesFor <= 2*t.Timeout+time.Second:
			a.warn("forward_key.for", "%v leaves no room for a retry: it may be needed only after the timeout of %v, and must be answered, within the same again, while the key is known; a person would decide instead", t.DedupesFor, t.Timeout)
		}
	}
}

func (a *audit) method() {
	t := a.t
	reads := t.Method == http.MethodGet || t.Method == http.MethodHead
	switch {
	case t.acts() && reads:
		a.unsafe("request.method", "proxies, caches and crawlers may repeat a %s at will (RFC 9110 §9.2.1); latchkey sends it once and cannot answer for them", t.Method)
	case t.Class == intent.ReadOnly && !reads:
		a.warn("request.method", "a read_only call is sent up to %d times, so this %s must change nothing", readTries, t.Method)
	}
	for _, status := range slices.Sorted(maps.Keys(t.Statuses)) {
		word := t.Statuses[status]
		if (word == statusNotAccepted || word == statusNotAcceptedForNow) && meaning("", status) == statusUnknown && t.Class != intent.ReadOnly {
			a.warn(fmt.Sprintf("statuses.%d", status), "a call answered with %d may be sent again: if the provider ever sends it after it has acted, the second call acts twice", status)
		}
	}
}

// arguments compares the pointers with each other and with the schema.
func (a *audit) arguments() {
	t := a.t
	for _, v := range t.Rules.Volatile {
		for _, id := range t.Rules.Identity {
			if n := min(len(v), len(id)); slices.Equal(v[:n], id[:n]) {
				a.unsafe("volatile", "%s overlaps identity %s: an argument cannot both name the intention and be left out of it", v, id)
			}
		}
	}
	if t.Class == intent.ReadOnly {
		return
	}
	if t.Schema == nil {
		if len(t.Rules.Identity) > 0 {
			a.warn("input_schema", "without one, nothing makes sure that the identity arguments are there")
		}
		return
	}
	schema, err := intent.Parse(t.Schema)
	if err != nil {
		return // NewCatalogue has said so
	}
	known := func(field string, list []intent.Pointer, consequence string) {
		for _, p := range list {
			if found, _ := declared(schema, p); !found {
				a.warn(field, "%s is not among the properties of input_schema%s", p, consequence)
			}
		}
	}
	known("identity", t.Rules.Identity, ": calls would differ in nothing if it is never given")
	known("volatile", t.Rules.Volatile, "")
	known("redact", t.Rules.Redact, ": if it is misspelt, the argument is stored in clear")
	for _, text := range slices.Sorted(maps.Keys(t.Rules.Normalise)) {
		p, _ := intent.ParsePointer(text)
		known("normalise", []intent.Pointer{p}, "")
	}
	for _, p := range t.Rules.Identity {
		if found, required := declared(schema, p); found && !required {
			a.warn("identity", "%s is not required by input_schema: a call without it is another intention than one with it", p)
		}
	}
}

// declared looks a pointer up in the schema's properties. Where the schema is put together
// by references or conditions, it gives the benefit of the doubt.
func declared(schema intent.Value, p intent.Pointer) (found, required bool) {
	required = true
	for _, name := range p {
		for _, composed := range []string{"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas"} {
			if schema.Member(composed).Exists() {
				return true, true
			}
		}
		properties := schema.Member("properties")
		if !properties.Member(name).Exists() {
			return false, false
		}
		required = required && slices.ContainsFunc(schema.Member("required").Items(), func(v intent.Value) bool { return v.Text() == name })
		schema = properties.Member(name)
	}
	return true, required
}

// promise: settings that weaken it knowingly, or do nothing.
func (a *audit) promise() {
	t := a.t
	if t.acts() && t.Durability == intent.Hot {
		a.warn("durability", "hot is kept in Redis only: when Redis loses its memory, a second call acts again")
	}
	if t.acts() && !t.Rules.StepGuard {
		a.warn("step_guard", "off: a retry whose identity arguments were reworded acts a second time")
	}
	if t.Class != intent.ReadOnly {
		return
	}
	idle := map[string]bool{"identity": len(t.spec.Identity) > 0, "volatile": len(t.spec.Volatile) > 0, "on_unknown": t.spec.OnUnknown != "",
		"lookup": t.Lookup != nil, "durability": t.spec.Durability != "", "step_guard": t.spec.StepGuard != ""}
	for _, field := range slices.Sorted(maps.Keys(idle)) {
		if idle[field] {
			a.warn(field, "does nothing for a read_only tool")
		}
	}
}

func (t *Tool) row() AuditRow {
	row := AuditRow{Tool: t.Name, Class: t.Class.String(), Identity: "-", Forwarding: "-", Unknown: "-",
		Retry: "is forwarded again: harmless"}
	if t.Class == intent.ReadOnly {
		return row
	}
	row.Identity = "all arguments"
	if len(t.Rules.Identity) > 0 {
		row.Identity = join(t.Rules.Identity)
	} else if len(t.Rules.Volatile) > 0 {
		row.Identity += " but " + join(t.Rules.Volatile)
	}
	switch {
	case t.ForwardHeader == "":
	case t.Dedupes && t.DedupesFor > 0:
		row.Forwarding = fmt.Sprintf("%s, deduped for %v", t.ForwardHeader, t.DedupesFor)
	case t.Dedupes:
		row.Forwarding = t.ForwardHeader + ", deduped"
	default:
		row.Forwarding = t.ForwardHeader + ", not deduped"
	}
	row.Unknown = string(t.OnUnknown)
	row.Retry = "gets the first one's receipt"
	if t.Approval != nil {
		row.Retry += ", approved once"
		if t.Approval.People == 2 {
			row.Retry += " by two people"
		}
	}
	row.Retry += "; an unknown outcome " + t.recovery()
	return row
}

// recovery says in plain words what resolves an unknown outcome.
func (t *Tool) recovery() string {
	switch l := t.Lookup; {
	case t.OnUnknown == LookupUnknown && l == nil:
		return "stays unknown for ever"
	case t.OnUnknown == LookupUnknown:
		text := "is looked up"
		switch {
		case l.ReexecuteWhenAbsent:
			text += fmt.Sprintf(", is executed again if it is absent %v later", l.SettleAfter)
		case l.AbsenceIsProof:
			text += fmt.Sprintf(", counts as not done if it is absent %v later", l.SettleAfter)
		}
		return text + fmt.Sprintf(", and waits for a person after %v", l.GiveUpAfter)
	case t.OnUnknown == RetryUnknown && t.Dedupes && t.ForwardHeader != "" && t.DedupesFor > 0:
		return fmt.Sprintf("is executed again within %v of the first call, and the downstream dedupes it", t.DedupesFor)
	case t.OnUnknown == RetryUnknown && !t.acts():
		return "is executed again: the same state, maybe a second audit entry"
	case t.OnUnknown == RetryUnknown:
		return "is executed again: a second effect"
	}
	return "waits for a person"
}

func join(list []intent.Pointer) string {
	var b []string
	for _, p := range list {
		b = append(b, p.String())
	}
	return strings.Join(b, ", ")
}
