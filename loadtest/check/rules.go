package check

import (
	"net/http"
	"slices"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/history"
)

// skew is how far apart the clocks of two processes on one machine may read: each takes the
// time a moment after what it stamps.
const skew = 5 * time.Millisecond

func oneEffect(f *facts) []string {
	var l findings
	for of, effects := range f.effects {
		if len(effects) > 1 && !history.ToolNamed(of.service).Repeats {
			l.add("%s %s: %d effects, %s %s (%s) and %s %s (%s)", of.service, of.ref, len(effects),
				effects[0].ID, effects[0].At.Format(time.StampMicro), effects[0].Mode, effects[1].ID, effects[1].At.Format(time.StampMicro), effects[1].Mode)
		}
	}
	return sorted(l)
}

func oneKey(f *facts) []string {
	var l findings
	count := map[id]int{}
	for _, e := range f.Effects {
		if e.Key == "" || history.ToolNamed(e.Service).Repeats {
			continue
		}
		at := id{e.Service, e.Key}
		if count[at]++; count[at] == 2 {
			l.add("%s: key %.8s acted more than once, for %s", e.Service, e.Key, e.Ref)
		}
	}
	return l
}

func oneResult(f *facts) []string {
	var l findings
	told := map[string]history.Attempt{}
	for _, a := range f.Attempts {
		if a.Status != "completed" || a.Key == "" {
			continue
		}
		if before, ok := told[a.Key]; !ok {
			told[a.Key] = a
		} else if before.Result != a.Result {
			l.add("key %.8s: told %s (effect %s) and later %s (effect %s, %s)", a.Key, before.Result, before.Effect, a.Result, a.Effect, a.Why)
		}
	}
	// Two completed keys of one intent are two reports of the same thing.
	keys := map[id]string{}
	for _, a := range told {
		of := id{a.Tool, a.Ref}
		if history.ToolNamed(a.Tool).Repeats {
			continue // other arguments may act in the same step: repetition does no harm
		}
		if keys[of] == "" {
			keys[of] = a.Key
		} else if keys[of] != a.Key {
			l.add("%s %s: completed under two keys, %.8s and %.8s", a.Tool, a.Ref, keys[of], a.Key)
		}
	}
	return sorted(l)
}

func kept(f *facts) []string {
	var l findings
	seen := map[string]bool{}
	for _, a := range f.Attempts {
		if a.Status != "completed" || a.Key == "" || seen[a.Key] {
			continue
		}
		seen[a.Key] = true
		r, ok := f.receipts[a.Key]
		switch {
		case !ok:
			l.add("%s %s: key %.8s was reported completed and has no receipt", a.Tool, a.Ref, a.Key)
		case r.Status != "completed":
			l.add("%s %s: key %.8s was reported completed and is %s", a.Tool, a.Ref, a.Key, r.Status)
		case r.Result != a.Result:
			l.add("%s %s: key %.8s was reported with result %s and has %s", a.Tool, a.Ref, a.Key, a.Result, r.Result)
		}
	}
	for _, a := range f.Attempts { // replays after the end
		if a.Why == history.Final && (a.Status != "completed" || !a.Replayed) {
			l.add("%s %s: asked again after the run: HTTP %d %s, replayed %t", a.Tool, a.Ref, a.HTTP, a.Status, a.Replayed)
		}
	}
	return l
}

func evidence(f *facts) []string {
	var l findings
	for _, r := range f.Receipts {
		if r.Status != "completed" || r.Class == "read_only" {
			continue
		}
		e, ok := f.byEffect[r.Effect]
		switch {
		case !ok:
			l.add("%s %s: key %.8s is completed by %s with effect %q, which is not on the ledger", r.Tool, r.Ref, r.Key, r.SettledBy, r.Effect)
		case e.Ref != r.Ref || e.Service != r.Tool:
			l.add("%s %s: key %.8s is completed with effect %s of %s", r.Tool, r.Ref, r.Key, e.ID, e.Ref)
		case e.Wording != r.Wording:
			l.add("%s %s: key %.8s shows the arguments %q, and %q was sent", r.Tool, r.Ref, r.Key, r.Wording, e.Wording)
		}
	}
	for _, a := range f.Attempts {
		if a.Status != "completed" || a.Key == "" {
			continue
		}
		if e, ok := f.byEffect[a.Effect]; !ok || e.Ref != a.Ref {
			l.add("%s %s: answered completed with effect %q, which is not its own", a.Tool, a.Ref, a.Effect)
		} else if e.At.After(a.Got.Add(skew)) {
			l.add("%s %s: answered completed %s before it happened", a.Tool, a.Ref, e.At.Sub(a.Got))
		}
	}
	return l
}

func noDenial(f *facts) []string {
	var l findings
	for _, r := range f.Receipts {
		if r.Status != "rejected" {
			continue
		}
		for _, e := range f.effects[id{r.Tool, r.Ref}] {
			if e.Key == r.Key {
				l.add("%s %s: key %.8s is rejected (%s, by %s), and acted at %s (%s)", r.Tool, r.Ref, r.Key, r.Reason, r.SettledBy, e.At.Format(time.StampMicro), e.Mode)
			}
		}
	}
	for _, a := range f.Attempts {
		if a.Status != "rejected" {
			continue
		}
		// What had happened before the call was sent was known to be possible.
		for _, e := range f.effects[id{a.Tool, a.Ref}] {
			if e.Key == a.Key && e.At.Before(a.Sent.Add(-skew)) {
				l.add("%s %s: answered rejected (HTTP %d) %s after it had happened (%s)", a.Tool, a.Ref, a.HTTP, a.Got.Sub(e.At), e.Mode)
			}
		}
	}
	return l
}

func ended(f *facts) []string {
	var l findings
	for _, r := range f.Receipts {
		if r.Status == "started" {
			l.add("%s %s: key %.8s is still started, since %s", r.Tool, r.Ref, r.Key, r.CreatedAt.Format(time.StampMicro))
		}
	}
	return l
}

// pairs of HTTP status, receipt status and retry that the contract allows.
var pairs = map[int]map[string][]string{
	http.StatusOK:                 {"completed": {"never", "same_key"}},
	http.StatusAccepted:           {"started": {"same_key"}, "unknown": {"never"}, "awaiting_approval": {"never"}},
	http.StatusFailedDependency:   {"rejected": {"corrected"}},
	http.StatusServiceUnavailable: {"rejected": {"same_key"}},
}

func saidAsIs(f *facts) []string {
	var l findings
	for _, a := range f.Attempts {
		switch {
		case a.HTTP == 0:
		case a.HTTP == http.StatusBadGateway || a.HTTP == http.StatusGatewayTimeout:
			// the balancer's own, or a read-only tool's
		case a.Err != "":
			if a.HTTP != http.StatusServiceUnavailable { // the balancer's page
				l.add("%s %s: HTTP %d with a body that is %s", a.Tool, a.Ref, a.HTTP, a.Err)
			}
		case a.Status != "":
			if !slices.Contains(pairs[a.HTTP][a.Status], a.Retry) {
				l.add("%s %s: HTTP %d, status %s, retry %s", a.Tool, a.Ref, a.HTTP, a.Status, a.Retry)
			}
		case a.Code == "idempotency_conflict" && a.HTTP == http.StatusUnprocessableEntity && a.Retry == "never":
		case a.Code == "step_conflict" && a.HTTP == http.StatusConflict && a.Retry == "never":
		case a.HTTP == http.StatusServiceUnavailable && a.Retry == "same_key":
		default:
			l.add("%s %s: HTTP %d, code %q, retry %q", a.Tool, a.Ref, a.HTTP, a.Code, a.Retry)
		}
	}
	return l
}

func conflicted(a history.Attempt) bool {
	return a.Code == "idempotency_conflict" || a.Code == "step_conflict"
}

func mismatchRanNot(f *facts) []string {
	var l findings
	for of, attempts := range f.attempts {
		for _, a := range attempts {
			// The same words may have been sent before or after with another answer, or none.
			alone := !slices.ContainsFunc(attempts, func(b history.Attempt) bool { return b.Wording == a.Wording && !conflicted(b) })
			if !conflicted(a) || !alone {
				continue
			}
			for _, e := range f.effects[of] {
				if e.Wording == a.Wording {
					l.add("%s %s: refused with %s and acted as %s", a.Tool, a.Ref, a.Code, e.ID)
				}
			}
		}
	}
	return sorted(l)
}

func mismatchDue(f *facts) []string {
	var l findings
	for _, attempts := range f.attempts {
		for _, a := range attempts {
			if conflicted(a) && !slices.ContainsFunc(attempts, func(b history.Attempt) bool { return b.Wording != a.Wording && b.Sent.Before(a.Got) }) {
				l.add("%s %s: refused with %s at %s, and was never worded otherwise; key %.8s, earlier %.8s of %s", a.Tool, a.Ref, a.Code,
					a.Got.Format(time.StampMicro), a.Key, a.Earlier, f.receipts[a.Earlier].Ref)
			}
			if r, ok := f.receipts[a.Earlier]; ok && r.Ref != a.Ref {
				l.add("%s %s: its step conflict names key %.8s, of %s", a.Tool, a.Ref, a.Earlier, r.Ref)
			}
		}
	}
	return sorted(l)
}

func mismatchSilent(f *facts) []string {
	var l findings
	for _, a := range f.Attempts {
		if a.Leaked {
			l.add("%s %s: %s (HTTP %d) shows stored arguments or a result", a.Tool, a.Ref, a.Code, a.HTTP)
		}
	}
	return l
}

func tenants(f *facts) []string {
	var l findings
	for _, p := range f.Probes {
		if p.Leaked || p.HTTP < 400 {
			l.add("%s got HTTP %d for receipt %.8s of %s, leaked %t", p.By, p.HTTP, p.Key, p.Owner, p.Leaked)
		}
	}
	owners := map[string]string{}
	for _, r := range f.Receipts {
		if owner, ok := owners[r.Key]; ok && owner != r.Tenant {
			l.add("key %.8s is listed for %s and for %s", r.Key, owner, r.Tenant)
		}
		owners[r.Key] = r.Tenant
	}
	for _, a := range f.Attempts {
		if r, ok := f.receipts[a.Key]; ok && r.Tenant != a.Tenant {
			l.add("%s %s: %s was answered with a receipt of %s", a.Tool, a.Ref, a.Tenant, r.Tenant)
		}
	}
	return l
}

func lastWord(f *facts) []string {
	var l findings
	for _, w := range f.Words {
		if history.ToolNamed(w.Tool).Class == "read_only" {
			continue
		}
		at, happened := f.first(id{w.Tool, w.Ref})
		switch {
		case w.Said == history.Done && (!happened || at.After(w.At.Add(skew))):
			l.add("%s %s: the agent said that it was done, and it was not", w.Tool, w.Ref)
		case w.Said == history.NotDone && happened && at.Before(w.At.Add(-skew)):
			l.add("%s %s: the agent said that it did not happen, and it did, %s before", w.Tool, w.Ref, w.At.Sub(at))
		}
	}
	return l
}

func approved(f *facts) []string {
	var l findings
	for _, r := range f.Receipts {
		if r.Class != "irreversible" || r.Executions == 0 && r.Status != "completed" {
			continue
		}
		if r.Actions != nil && r.Actions["approve"] == 0 {
			l.add("%s %s: key %.8s was executed, and nobody approved it", r.Tool, r.Ref, r.Key)
		}
	}
	return l
}

// sorted gives what came out of a map a fixed order.
func sorted(l findings) []string {
	slices.Sort(l)
	return l
}
