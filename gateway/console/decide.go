package console

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/intent"
)

// The choices of a person, as the form posts them.
const (
	chooseApprove   = "approve"
	chooseDecline   = "decline"
	chooseHappened  = "happened"
	chooseAbsent    = "did_not_happen"
	chooseCorrected = "did_not_happen_corrected"
	chooseWait      = "wait"
	chooseAgain     = "execute_again"
)

// approveWait is how long a page waits for the end of an execution that it began. The
// execution goes on without it.
const approveWait = 5 * time.Second

// choice is one thing that a person may decide.
type choice struct {
	Value, Title, Means string
	Advice              string // exactly what agents are told from then on
	Closed              string // why it may not be chosen; "" if it may
	Chosen, Grave       bool
}

// decision is the form by which a person decides about one receipt.
type decision struct {
	Choices  []choice
	Ask      string // for the reason
	Form     form
	Lookup   bool   // a lookup can be made now
	Doubt    string // there is a doubt to see to
	Waits    []wait
	Approved []string
	Mine     bool // the reader has approved it already
}

type wait struct{ Value, Text string }

var waits = []wait{{"1m", "1 minute"}, {"15m", "15 minutes"}, {"1h", "1 hour"}, {"6h", "6 hours"}, {"24h", "1 day"}}

// form is what was posted, or what is to be filled in.
type form struct {
	Choice, Reason, Result, Wait, Problem string
	Tag, Seen                             string
	fingerprint                           intent.Fingerprint
	hasFingerprint                        bool
	tag                                   *once.Tag
}

// decision returns the form for a receipt; nil when nothing is to be decided.
func (v *visit) decision(r *intent.Receipt, f form) *decision {
	d := &decision{Form: f, Doubt: doubtWords[r.Doubt], Approved: r.ApprovedBy, Ask: "How do you know?", Waits: waits}
	switch {
	case r.Expired:
		return nil
	case r.Status == intent.AwaitingApproval:
		d.Ask, d.Mine = "Why?", slices.Contains(r.ApprovedBy, v.who.ID)
		d.Choices = v.approvalChoices(r, d.Mine)
	case r.Status == intent.Unknown:
		d.Choices = v.unknownChoices(r)
		t, ok := v.c.Catalogue.Tool(r.Tool)
		d.Lookup = ok && t.Lookup != nil
	case r.Doubt == 0:
		return nil
	}
	for i := range d.Choices {
		d.Choices[i].Chosen = d.Choices[i].Value == f.Choice
	}
	return d
}

func (v *visit) approvalChoices(r *intent.Receipt, mine bool) []choice {
	yes := choice{Value: chooseApprove, Title: "Approve", Means: "Exactly these arguments are sent, once. Nobody can take it back from here.",
		Advice: advised(r.Approve("", intent.Opening{At: v.now})), Grave: true}
	if r.Class != intent.Irreversible {
		yes.Means = "Exactly these arguments are sent, once."
	}
	if t, ok := v.c.Catalogue.Tool(r.Tool); ok && t.Approval != nil && t.Approval.People > len(r.ApprovedBy)+1 {
		yes.Means, yes.Advice = "Yours is the first of two approvals: nothing is sent before another person approves too.", advised(*r, nil)
	}
	if mine {
		yes.Closed = "You have approved it already. Another person must approve it too."
	}
	return []choice{yes, {Value: chooseDecline, Title: "Decline", Means: "Nothing is sent, and these arguments are refused from now on.",
		Advice: advised(r.Decline("operator", intent.ReasonDeclined, nil, v.now))}}
}

func (v *visit) unknownChoices(r *intent.Receipt) []choice {
	list := []choice{
		{Value: chooseHappened, Title: "It happened", Means: "It is completed for good: every repeat of the call gets this answer, and nothing is sent again.",
			Advice: advised(r.Apply(r.CompleteMove("operator", nil, v.now)))},
		{Value: chooseAbsent, Title: "It did not happen, the same call may be sent again", Means: "If it did happen after all, the next call acts a second time. Be sure.", Grave: true,
			Advice: advised(r.Apply(r.RejectMove("operator", intent.RetrySameKey, 0, "", nil, false, v.now)))},
		{Value: chooseCorrected, Title: "It did not happen, and the same call is refused", Means: "Only a call with other arguments can act.",
			Advice: advised(r.Apply(r.RejectMove("operator", intent.RetryCorrected, 0, "", nil, false, v.now)))},
		{Value: chooseWait, Title: "Keep waiting", Means: "It stays unknown. Where the tool has a lookup, the next one is made after the time you choose, also if it was parked.",
			Advice: advised(*r, nil)},
	}
	again := choice{Value: chooseAgain, Title: "Execute it again now", Means: "You say that a second execution is safe. It is sent at once with the same arguments.", Grave: true,
		Advice: advised(r.Reexecute(intent.Opening{At: v.now}))}
	switch t, ok := v.c.Catalogue.Tool(r.Tool); {
	case !ok:
		again.Closed = "The tool is not in the config any more."
	case t.Class == intent.Irreversible || r.Class == intent.Irreversible:
		again.Closed = "Nobody can undo this tool's action, so it is not executed again from here. If it did not happen, say so: the next call is approved anew."
	}
	return append(list, again)
}

// advised is what agents are told once a move is made.
func advised(after intent.Receipt, err error) string {
	if err != nil {
		return "" // a choice that the status does not allow is not shown
	}
	if advice := after.Advice(); advice != "" {
		return advice
	}
	return "The result that you give, with status " + after.Status.String() + " and retry " + after.RetryWord().String() + "; nothing besides."
}

const (
	noVersion     = "The form does not say which version was shown. Load the receipt again."
	noFingerprint = "The form does not say which arguments were shown. Load the receipt again."
)

// posted reads a decision's form; f.Problem says what is wrong with it, for the person.
func (v *visit) posted() (f form) {
	r := v.r
	f = form{Choice: r.PostFormValue("choice"), Reason: strings.TrimSpace(r.PostFormValue("reason")), Result: strings.TrimSpace(r.PostFormValue("result")),
		Wait: r.PostFormValue("wait"), Tag: r.PostFormValue("tag"), Seen: r.PostFormValue("seen")}
	f.tag = parseTag(f.Tag)
	if s := r.PostFormValue("fingerprint"); s != "" {
		digest, err := intent.ParseKey(strings.TrimPrefix(s, "sha256:"))
		if err != nil {
			f.Problem = noFingerprint
			return f
		}
		f.fingerprint, f.hasFingerprint = intent.Fingerprint(digest), true
	}
	switch {
	case f.tag == nil:
		f.Problem = noVersion
	case f.Choice == "":
		f.Problem = "Choose what is true first."
	case f.Reason == "":
		f.Problem = "Say how you know: the reason is kept with the receipt."
	case len(f.Reason) > 1000:
		f.Problem = "The reason may be up to 1000 bytes long."
	case f.Choice == chooseHappened && f.Result != "":
		if _, err := intent.Parse([]byte(f.Result)); err != nil {
			f.Problem = "The result is not JSON that can be kept exactly: " + err.Error() + "."
		}
	}
	return f
}

// parseTag reads "<fence>.<version>", what a page showed; nil for anything else.
func parseTag(s string) *once.Tag {
	fence, version, _ := strings.Cut(s, ".")
	f, errF := strconv.ParseUint(fence, 10, 64)
	n, errN := strconv.ParseUint(version, 10, 64)
	if errF != nil || errN != nil {
		return nil
	}
	return &once.Tag{Fence: f, Version: n}
}

// decide carries out what was chosen. A form that lacks something is shown again; a receipt
// that has moved on is shown as it is now, and nothing was done.
func (c *Console) decide(v *visit) error {
	key, err := intent.ParseKey(strings.ToLower(v.r.PathValue("key")))
	if err != nil {
		return err
	}
	f := v.posted()
	if f.Problem != "" {
		return v.showReceipt(http.StatusBadRequest, key, f)
	}
	err = v.carryOut(key, f)
	e, refused := errors.AsType[*intent.Error](err)
	switch {
	case refused && (e.Category == intent.StateConflict || e.Category == intent.PreconditionFailed):
		return v.showChanged(key, f, e)
	case refused && e.Category == intent.BadRequest:
		f.Problem = e.Public
		return v.showReceipt(http.StatusBadRequest, key, f)
	case err != nil:
		return err
	}
	back := Prefix + "/receipts/" + key.String()
	if v.r.PostFormValue("back") == "approvals" {
		back = Prefix + "/approvals"
	}
	http.Redirect(v.w, v.r, back+"?done="+f.Choice, http.StatusSeeOther)
	return nil
}

func (v *visit) carryOut(key intent.Key, f form) error {
	e, order := v.c.Engine, v.order(key, f.Reason, f.tag)
	var err error
	switch f.Choice {
	case chooseApprove:
		if !f.hasFingerprint {
			return intent.Errorf(intent.BadRequest, nil, noFingerprint)
		}
		_, err = e.Approve(v.ctx(), order, f.fingerprint, approveWait)
	case chooseDecline:
		_, err = e.Decline(v.ctx(), order)
	case chooseHappened:
		how := once.Resolution{Status: intent.Completed}
		if f.Result != "" {
			how.Result = []byte(f.Result)
		}
		_, err = e.Resolve(v.ctx(), order, how)
	case chooseAbsent:
		_, err = e.Resolve(v.ctx(), order, once.Resolution{Status: intent.Rejected, Retry: intent.RetrySameKey})
	case chooseCorrected:
		_, err = e.Resolve(v.ctx(), order, once.Resolution{Status: intent.Rejected, Retry: intent.RetryCorrected})
	case chooseWait:
		_, err = e.KeepWaiting(v.ctx(), order, waitFor(f.Wait))
	case chooseAgain:
		_, err = e.Reexecute(v.ctx(), order, approveWait)
	default:
		return intent.Errorf(intent.BadRequest, nil, "That is not one of the choices.")
	}
	return err
}

func waitFor(s string) time.Duration {
	if !slices.ContainsFunc(waits, func(w wait) bool { return w.Value == s }) {
		return time.Hour
	}
	d, _ := time.ParseDuration(s)
	return d
}

func (v *visit) order(key intent.Key, reason string, tag *once.Tag) once.Order {
	return once.Order{Tenant: v.who.Tenant, Key: key, By: v.who.ID, Reason: reason, If: tag, Span: v.span()}
}

var doneWords = map[string]string{
	chooseApprove: "Your approval is recorded.", chooseDecline: "You declined it. Nothing was sent.",
	chooseHappened: "Recorded: it happened.", chooseAbsent: "Recorded: it did not happen, and the same call may be sent again.",
	chooseCorrected: "Recorded: it did not happen, and the same call is refused.", chooseWait: "Recorded: keep waiting.",
	chooseAgain: "It was sent again.", "look": "The downstream was asked just now. What it said is in the history below.", "settled": "Recorded: you have seen to the doubt.",
}

// look makes the lookup now.
func (c *Console) look(v *visit) error {
	return v.simply("look", func(o once.Order) (intent.Receipt, error) {
		o.Reason = "asked from the console"
		return c.Engine.Reconcile(v.ctx(), o)
	})
}

// acknowledge says that a doubt was seen to.
func (c *Console) acknowledge(v *visit) error {
	return v.simply("settled", func(o once.Order) (intent.Receipt, error) { return c.Engine.Acknowledge(v.ctx(), o) })
}

func (v *visit) simply(done string, act func(once.Order) (intent.Receipt, error)) error {
	key, err := intent.ParseKey(strings.ToLower(v.r.PathValue("key")))
	if err != nil {
		return err
	}
	f := form{Choice: done, Reason: strings.TrimSpace(v.r.PostFormValue("reason")), Tag: v.r.PostFormValue("tag"), Seen: v.r.PostFormValue("seen")}
	if f.tag = parseTag(f.Tag); f.tag == nil {
		return intent.Errorf(intent.BadRequest, nil, noVersion)
	}
	if done == "settled" && f.Reason == "" {
		f.Problem = "Say what you found and did: the reason is kept with the receipt."
		return v.showReceipt(http.StatusBadRequest, key, f)
	}
	_, err = act(v.order(key, f.Reason, f.tag))
	if e, refused := errors.AsType[*intent.Error](err); refused && (e.Category == intent.StateConflict || e.Category == intent.PreconditionFailed) {
		return v.showChanged(key, f, e)
	}
	if err != nil {
		return err
	}
	http.Redirect(v.w, v.r, Prefix+"/receipts/"+key.String()+"?done="+done, http.StatusSeeOther)
	return nil
}

// showChanged tells a person that the receipt is not what they saw, and what came between.
func (v *visit) showChanged(key intent.Key, f form, e *intent.Error) error {
	r, err := v.c.Engine.Receipt(v.ctx(), v.who.Tenant, key)
	if err != nil {
		return err
	}
	audit, err := v.c.Engine.Audit(v.ctx(), v.who.Tenant, key, 20)
	if err != nil {
		return err
	}
	var since []entry
	for i := range audit { // all after the version that was seen; a lookup leaves it as it is
		if audit[i].Before != "" && laterThan(audit[i].After, f.tag) {
			since = append(since, v.entry(&r, &audit[i]))
		}
	}
	seen, _ := intent.ParseStatus(f.Seen)
	return v.show(statuses[e.Category], "changed", "It has changed", struct {
		item
		Why, Chose, Reason string
		Saw, SawTag        string
		SawWord, Tag       string
		Since              []entry
		Advice             string
	}{v.item(&r), e.Public, choiceWords[f.Choice], f.Reason, statusWords(seen), f.Tag, seen.String(), strings.Trim(r.ETag(), `"`), since, v.told(&r)})
}

var choiceWords = map[string]string{chooseApprove: "approve", chooseDecline: "decline", chooseHappened: "it happened", chooseAbsent: "it did not happen",
	chooseCorrected: "it did not happen, and the same call is refused", chooseWait: "keep waiting", chooseAgain: "execute it again", "look": "look it up now", "settled": "the doubt is seen to"}

// laterThan says whether a standing ("unknown 1.4") is of a later version than the tag.
func laterThan(standing string, tag *once.Tag) bool {
	_, version, _ := strings.Cut(standing, " ")
	t := parseTag(version)
	return t != nil && (t.Fence > tag.Fence || t.Fence == tag.Fence && t.Version > tag.Version)
}
