package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/gateway/auth"
	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/intent"
)

type authKey = auth.Key

func TestDecisionsAreCarriedOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		choice string
		of     func(night) intent.Receipt
		status intent.Status
		retry  intent.Retry
		action intent.Action
		result string
	}{
		{choice: chooseHappened, of: func(n night) intent.Receipt { return n.parked }, status: intent.Completed, action: intent.ActionResolve},
		{choice: chooseHappened, of: func(n night) intent.Receipt { return n.parked }, status: intent.Completed, action: intent.ActionResolve, result: `{"charge":12345678901234567890}`},
		{choice: chooseAbsent, of: func(n night) intent.Receipt { return n.parked }, status: intent.Rejected, retry: intent.RetrySameKey, action: intent.ActionResolve},
		{choice: chooseCorrected, of: func(n night) intent.Receipt { return n.looked }, status: intent.Rejected, retry: intent.RetryCorrected, action: intent.ActionResolve},
		{choice: chooseWait, of: func(n night) intent.Receipt { return n.parked }, status: intent.Unknown, action: intent.ActionWait},
		{choice: chooseAgain, of: func(n night) intent.Receipt { return n.parked }, status: intent.Started, action: intent.ActionReexecute},
		{choice: chooseApprove, of: func(n night) intent.Receipt { return n.wire }, status: intent.Completed, action: intent.ActionApprove},
		{choice: chooseDecline, of: func(n night) intent.Receipt { return n.wire }, status: intent.Rejected, retry: intent.RetryCorrected, action: intent.ActionDecline},
	} {
		t.Run(c.choice, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := c.of(w.night(t))
			v := w.signIn(t, operatorKey)
			page := v.page("/receipts/" + r.Key.String())
			if !strings.Contains(page, `value="`+c.choice+`"`) || !strings.Contains(page, `name="tag" value="`+tagOf(&r)+`"`) {
				t.Fatal("the page does not offer the choice for the version that it shows")
			}
			form := w.form(r, c.choice, "seen in the dashboard")
			form.Set("result", c.result)
			answer := v.post(decidePath(r), form)
			if to := answer.Header().Get("Location"); answer.Code != http.StatusSeeOther || to != Prefix+"/receipts/"+r.Key.String()+"?done="+c.choice {
				t.Fatalf("%d to %s: %s", answer.Code, to, answer.Body)
			}
			after := w.rows[r.Key]
			if after.Status != c.status || c.retry != 0 && after.Retry != c.retry || c.result != "" && string(after.Outcome.Body) != c.result {
				t.Errorf("it is %s, %s", after.Status, after.Retry)
			}
			line := w.audit[r.Key][len(w.audit[r.Key])-1]
			if line.Action != c.action || line.Actor != "olga" || line.Reason != "seen in the dashboard" {
				t.Errorf("the audit says %+v", line)
			}
			order := w.orders[0]
			if order.Tenant != "acme" || order.If == nil || *order.If != (once.Tag{Fence: r.Fence, Version: r.Version}) {
				t.Errorf("the order is %+v", order)
			}
			if page := v.page("/receipts/" + r.Key.String() + "?done=" + c.choice); !strings.Contains(page, doneWords[c.choice]) {
				t.Error("the page does not say what was done")
			}
		})
	}
}

// The advice shown beside a choice is letter for letter what an agent gets once it is made.
func TestChoicesShowTheAdviceOfAgents(t *testing.T) {
	t.Parallel()
	for _, choice := range []string{chooseAbsent, chooseCorrected, chooseWait, chooseDecline} {
		w := newWorld(t)
		n := w.night(t)
		r := n.parked
		if choice == chooseDecline {
			r = n.wire
		}
		v := w.signIn(t, operatorKey)
		var shown string
		for _, c := range (&visit{c: w.console, now: time.Now()}).decision(&r, form{}).Choices {
			if c.Value == choice {
				shown = c.Advice
			}
		}
		if answer := v.post(decidePath(r), w.form(r, choice, "because")); answer.Code != http.StatusSeeOther {
			t.Fatal(answer.Code)
		}
		after := w.rows[r.Key]
		if shown != after.Advice() || shown == "" {
			t.Errorf("%s shows %q, and the agent is told %q", choice, shown, after.Advice())
		}
	}
}

func TestViewersSeeAndCannotAct(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.night(t)
	v := w.signIn(t, viewerKey)
	for _, path := range n.paths() {
		for _, act := range []string{`/decide"`, `/look"`, `/settled"`, `name="reason"`, `name="item"`} {
			if strings.Contains(v.get(path).Body.String(), act) {
				t.Errorf("%s offers a viewer %s", path, act)
			}
		}
	}
	for path, form := range map[string]url.Values{
		decidePath(n.parked): w.form(n.parked, "happened", "because"), decidePath(n.wire): w.form(n.wire, "approve", "because"),
		"/receipts/" + n.looked.Key.String() + "/look": w.form(n.looked, "", ""), "/receipts/" + n.doubt.Key.String() + "/settled": w.form(n.doubt, "", "because"),
		"/bulk": {"choice": {"happened"}, "reason": {"because"}, "item": {n.parked.Key.String() + "@" + tagOf(&n.parked)}},
	} {
		if answer := v.post(path, form); answer.Code != http.StatusForbidden || !strings.Contains(answer.Body.String(), "Nothing was done") {
			t.Errorf("%s: %d", path, answer.Code)
		}
	}
	if len(w.orders) > 0 {
		t.Errorf("%d orders were carried out", len(w.orders))
	}
}

func TestStaleFormsDoNothingAndSayWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.night(t)
	v := w.signIn(t, operatorKey)
	seen := n.looked
	settled, err := seen.Apply(seen.CompleteMove("lookup", jsonAnswer(`{"id":"em_9"}`), time.Now()))
	settled = must(t, settled, err)
	w.put(settled)
	w.mu.Lock()
	w.note(&settled, intent.ActionLookup, intent.ActorGateway, "happened", seen.Standing(), []byte(`{}`), time.Now())
	w.mu.Unlock()
	answer := v.post(decidePath(seen), w.form(seen, chooseAbsent, "nothing in the dashboard"))
	page := answer.Body.String()
	if answer.Code != http.StatusPreconditionFailed {
		t.Fatalf("%d", answer.Code)
	}
	for _, want := range []string{"It has changed. Nothing was done.", `st-unknown`, `st-completed`, "<code>" + tagOf(&seen) + "</code>", "<code>" + tagOf(&settled) + "</code>", "it happened", "nothing in the dashboard", settled.Standing()} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	if after := w.rows[seen.Key]; after.Status != intent.Completed || string(after.Outcome.Body) != `{"id":"em_9"}` {
		t.Errorf("it is %s", after.Status)
	}
	// The version is right, the status does not allow it.
	if answer := v.post(decidePath(settled), w.form(settled, chooseAbsent, "because")); answer.Code != http.StatusConflict {
		t.Errorf("a completed one: %d", answer.Code)
	}
}

func TestFormsThatLackSomethingComeBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.night(t)
	v := w.signIn(t, operatorKey)
	for name, c := range map[string]struct {
		change func(url.Values)
		want   string
	}{
		"no reason":       {func(f url.Values) { f.Set("reason", " ") }, "Say how you know"},
		"long reason":     {func(f url.Values) { f.Set("reason", strings.Repeat("x", 1001)) }, "up to 1000"},
		"no choice":       {func(f url.Values) { f.Del("choice") }, "Choose what is true"},
		"no such choice":  {func(f url.Values) { f.Set("choice", "delete") }, "not one of the choices"},
		"no version":      {func(f url.Values) { f.Del("tag") }, "which version"},
		"bad version":     {func(f url.Values) { f.Set("tag", "1") }, "which version"},
		"bad result":      {func(f url.Values) { f.Set("result", "{") }, "not JSON"},
		"bad fingerprint": {func(f url.Values) { f.Set("fingerprint", "sha256:1") }, "which arguments"},
	} {
		form := w.form(n.parked, chooseHappened, "seen <there>")
		c.change(form)
		answer := v.post(decidePath(n.parked), form)
		page := answer.Body.String()
		if answer.Code != http.StatusBadRequest || !strings.Contains(page, c.want) {
			t.Errorf("%s: %d", name, answer.Code)
		}
		if name == "bad result" && (!strings.Contains(page, "seen &lt;there&gt;") || !strings.Contains(page, `value="happened" required checked`)) {
			t.Error("what was filled in is lost")
		}
	}
	form := w.form(n.wire, chooseApprove, "because")
	form.Del("fingerprint")
	if answer := v.post(decidePath(n.wire), form); answer.Code != http.StatusBadRequest {
		t.Errorf("approving arguments that nobody was shown: %d", answer.Code)
	}
	if w.rows[n.parked.Key].Version != n.parked.Version || w.rows[n.wire.Key].Version != n.wire.Version {
		t.Error("something was decided")
	}
}

func TestTwoPeopleApprove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.people = 2
	r := w.put(awaiting(begun("w", "wire_transfer", `{"iban":"DE1"}`, time.Minute), time.Hour), intent.Pending)
	first, second := w.signIn(t, operatorKey), w.signIn(t, secondKey)
	form := w.form(r, chooseApprove, "agreed")
	form.Set("back", "approvals")
	if answer := first.post(decidePath(r), form); answer.Header().Get("Location") != Prefix+"/approvals?done=approve" {
		t.Fatal(answer.Code, answer.Body)
	}
	r = w.rows[r.Key]
	if r.Status != intent.AwaitingApproval {
		t.Fatalf("after one approval it is %s", r.Status)
	}
	for _, path := range []string{"/approvals", "/receipts/" + r.Key.String()} {
		if page := first.page(path); !strings.Contains(page, "<b>olga</b> approved. One more person must.") || !strings.Contains(page, "You have approved it already") {
			t.Errorf("%s does not tell the first of them to wait", path)
		}
	}
	if answer := second.post(decidePath(r), w.form(r, chooseApprove, "agreed too")); answer.Code != http.StatusSeeOther || w.rows[r.Key].Status != intent.Completed {
		t.Errorf("after the second: %d, %s", answer.Code, w.rows[r.Key].Status)
	}
}

func TestLookAndAcknowledge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.night(t)
	v := w.signIn(t, operatorKey)
	if answer := v.post("/receipts/"+n.looked.Key.String()+"/look", w.form(n.looked, "", "")); answer.Code != http.StatusSeeOther || w.rows[n.looked.Key].Checks != n.looked.Checks+1 {
		t.Errorf("looking: %d after %d checks", answer.Code, w.rows[n.looked.Key].Checks)
	}
	if answer := v.post("/receipts/"+n.doubt.Key.String()+"/settled", w.form(n.doubt, "", "")); answer.Code != http.StatusBadRequest {
		t.Errorf("seen to without a word: %d", answer.Code)
	}
	if answer := v.post("/receipts/"+n.doubt.Key.String()+"/settled", w.form(n.doubt, "", "one was recalled")); answer.Code != http.StatusSeeOther || w.rows[n.doubt.Key].Doubt != 0 {
		t.Errorf("seen to: %d, %s", answer.Code, w.rows[n.doubt.Key].Doubt)
	}
}

func TestIrreversibleIsNotExecutedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := unknown(t, begun("w", "wire_transfer", `{}`, time.Minute), time.Second, intent.Plan{Parked: intent.ParkedByPolicy})
	d := (&visit{c: w.console, now: time.Now()}).decision(&r, form{})
	i := slices.IndexFunc(d.Choices, func(c choice) bool { return c.Value == chooseAgain })
	if i < 0 || d.Choices[i].Closed == "" {
		t.Error("executing an irreversible action again is open")
	}
}

func TestBulk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signIn(t, operatorKey)
	park := intent.Plan{Parked: intent.ParkedByPolicy}
	a := w.put(unknown(t, begun("a", "charge_card", `{"n":1}`, 3*time.Minute), time.Second, park))
	b := w.put(unknown(t, begun("b", "charge_card", `{"n":2}`, 2*time.Minute), time.Second, park))
	wire := w.put(unknown(t, begun("c", "wire_transfer", `{"n":3}`, time.Minute), time.Second, park))
	page := v.page("/bulk?choice=did_not_happen&q=")
	for _, want := range []string{"Plan: 2 of 3 would be changed", "irreversible: decide it by itself", a.Key.String() + "@" + tagOf(&a), b.Key.String() + "@" + tagOf(&b)} {
		if !strings.Contains(page, want) {
			t.Errorf("the plan does not show %q", want)
		}
	}
	if strings.Contains(page, wire.Key.String()+"@") || len(w.orders) > 0 {
		t.Error("the plan takes an irreversible one, or did something")
	}
	if page := v.page("/bulk?choice=look&q="); strings.Count(page, "the tool has no lookup") != 2 {
		t.Error("the plan looks up what has no lookup")
	}
	for _, bad := range []string{"/bulk?choice=execute_again&q=", "/bulk?choice=happened&q=status:completed", "/bulk?choice=happened&q=since:soon"} {
		if answer := v.get(bad); answer.Code != http.StatusBadRequest || strings.Contains(answer.Body.String(), `name="item"`) {
			t.Errorf("%s: %d", bad, answer.Code)
		}
	}

	// b moves on before the plan is run; the irreversible one is put in by hand.
	moved, err := b.Apply(b.CompleteMove("lookup", nil, time.Now()))
	w.put(must(t, moved, err))
	answer := v.post("/bulk", url.Values{"choice": {chooseAbsent}, "reason": {"the provider was down"},
		"item": {a.Key.String() + "@" + tagOf(&a), b.Key.String() + "@" + tagOf(&b), wire.Key.String() + "@" + tagOf(&wire), "garbage", key("none").String() + "@1.1"}})
	page = answer.Body.String()
	for _, want := range []string{"1 of 5", "5 of 5", "it has changed since the plan was made", "irreversible: decide it by itself", "was not whole", "There is no such receipt", "Finished. 1 of 5 changed.", "</html>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the run does not say %q", want)
		}
	}
	if !answer.Flushed {
		t.Error("the run shows no progress")
	}
	if w.rows[a.Key].Status != intent.Rejected || w.rows[b.Key].Status != intent.Completed || w.rows[wire.Key].Status != intent.Unknown {
		t.Errorf("they are %s, %s, %s", w.rows[a.Key].Status, w.rows[b.Key].Status, w.rows[wire.Key].Status)
	}
	for name, form := range map[string]url.Values{
		"no reason": {"choice": {chooseAbsent}, "item": {"x@1.1"}}, "no items": {"choice": {chooseAbsent}, "reason": {"r"}}, "a choice for one": {"choice": {chooseAgain}, "reason": {"r"}, "item": {"x@1.1"}},
		"too many": {"choice": {chooseAbsent}, "reason": {"r"}, "item": make([]string, maxBulk+1)},
	} {
		if answer := v.post("/bulk", form); answer.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", name, answer.Code)
		}
	}
}
