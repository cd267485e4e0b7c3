package console

import (
	"fmt"
	"strings"

	"github.com/latchkey-gateway/latchkey/intent"
)

// What is said about a receipt, in the words that somebody needs who was woken by it: what is
// true, what goes on by itself, and what is asked of them.

// story is a receipt in two sentences.
type story struct {
	Head string // what is true
	Next string // what happens next, or what to do
	At   when   // a moment that follows Next, counted down where it is shown
	Rest string // what follows the moment
	Mine bool   // a person has to do something
}

// statusWords are how a status reads in a sentence or on a label.
func statusWords(s intent.Status) string { return strings.ReplaceAll(s.String(), "_", " ") }

var parkedWords = map[intent.Parking]string{
	intent.ParkedByPolicy: "the tool's policy leaves that to a person",
	intent.ParkedGaveUp:   "the lookups went on for as long as the tool allows and proved nothing",
	intent.ParkedTries:    "it was sent again as often as it may be, and no answer told",
	intent.ParkedWindow:   "the downstream may have forgotten the key, so sending it again could act twice",
	intent.ParkedChanged:  "the tool's request was changed in the config, so sending it again would not be the same request",
	intent.ParkedNoTool:   "the tool, or its policy, is not in the config any more",
	intent.ParkedNoArgs:   "its arguments were redacted and not kept, so nothing can be asked or sent again",
}

func (v *visit) story(r *intent.Receipt) story {
	s := v.standing(r)
	switch r.Doubt {
	case intent.DoubtLateAnswer:
		s.Head = "It may have happened twice. An earlier execution answered “done” after a later one had begun."
		s.Next = "Look at " + v.place(r) + " whether there are two. Undo one there if so, then record that you have seen to it."
		s.Mine, s.At, s.Rest = true, when{}, ""
	case intent.DoubtContradicted:
		s.Head = "The downstream's late answer says the opposite of “" + statusWords(r.Status) + "”, which agents were told."
		s.Next = "Look at " + v.place(r) + " what is true, put right what depends on it, then record that you have seen to it."
		s.Mine, s.At, s.Rest = true, when{}, ""
	}
	return s
}

func (v *visit) standing(r *intent.Receipt) story {
	switch r.Status {
	case intent.AwaitingApproval:
		s := story{Head: "Nothing has been sent. A person must approve these exact arguments first.", Mine: true}
		switch t, ok := v.c.Catalogue.Tool(r.Tool); {
		case len(r.ApprovedBy) > 0:
			s.Head = "Nothing has been sent. " + strings.Join(r.ApprovedBy, ", ") + " approved; another person must approve too."
		case ok && t.Approval != nil && t.Approval.People > 1:
			s.Head = "Nothing has been sent. Two people must approve these exact arguments first."
		}
		if !r.NextCheck.IsZero() {
			s.Next, s.At, s.Rest = "Without a decision it is rejected", v.when(r.NextCheck), "."
		}
		return s
	case intent.Started:
		s := story{Head: "It is running. Its result is not known yet.", Next: "If no answer comes by " + v.when(r.SettleBy).Clock() + " UTC, it becomes unknown and is looked into."}
		if v.now.After(r.SettleBy) && !r.SettleBy.IsZero() {
			s.Next = "Its lease has run out. It becomes unknown as soon as a replica looks."
		}
		return s
	case intent.Unknown:
		return v.unknown(r)
	case intent.Completed:
		s := story{Head: "It happened" + by(r) + "."}
		if r.Expired {
			s.Next = "The result is no longer retained. The key stays, so that a late repeat does not act again."
		} else if r.Attempts > 1 {
			s.Next = "Every repeat of the call gets this same result."
		}
		return s
	case intent.Rejected:
		return v.rejected(r)
	}
	return story{}
}

// by says on whose word it was settled.
func by(r *intent.Receipt) string {
	switch r.SettledBy {
	case "downstream":
		return ", as the downstream answered"
	case "lookup":
		return ", as a lookup found"
	case "operator":
		return ", on a person's word"
	}
	return ""
}

func (v *visit) unknown(r *intent.Receipt) story {
	s := story{Head: "It may or may not have happened. Nobody knows yet."}
	asked := ""
	if r.Checks > 0 {
		asked = fmt.Sprintf(" after %s that proved nothing", plural(r.Checks, "check"))
	}
	switch {
	case r.Parked != 0:
		s.Mine = true
		why := parkedWords[r.Parked]
		s.Head = "It may or may not have happened" + asked + ", and nothing more is tried: " + why + "."
		s.Next = "Find out at " + v.place(r) + " whether it happened, then record it."
	case !r.NextCheck.IsZero():
		s.Head = "It may or may not have happened" + asked + "."
		what := "asks " + v.place(r)
		if t, ok := v.c.Catalogue.Tool(r.Tool); ok && t.OnUnknown == "retry" {
			what = "sends it again under the same key to " + v.place(r)
		}
		s.Next, s.At, s.Rest = "The gateway "+what, v.when(r.NextCheck), ". You need not do anything."
	}
	return s
}

func (v *visit) rejected(r *intent.Receipt) story {
	switch r.Reason {
	case intent.ReasonDeclined:
		return story{Head: "A person declined it. Nothing was sent."}
	case intent.ReasonExpired:
		return story{Head: "Nobody approved it in time. Nothing was sent."}
	}
	s := story{Head: "It did not happen" + by(r) + ".", Next: "Only a corrected call can act."}
	if r.Retry == intent.RetrySameKey {
		s.Next = "The same call may be sent again."
	}
	return s
}

// place is where to look: the downstream by its name in the config.
func (v *visit) place(r *intent.Receipt) string {
	if t, ok := v.c.Catalogue.Tool(r.Tool); ok {
		return t.Downstream
	}
	return "the downstream"
}

var doubtWords = map[intent.Doubt]string{
	intent.DoubtLateAnswer:   "possible double",
	intent.DoubtContradicted: "contradicted",
}

var decisionWords = map[intent.Decision]string{
	intent.Executed: "led to the execution", intent.Collapsed: "joined the call in flight and got its result",
	intent.Replayed: "got the result that was there", intent.Mismatch: "same key, other arguments: nothing ran",
	intent.StepConflict: "same step, other action: nothing ran", intent.Refused: "not sent, or not accepted for now",
	intent.Pending: "left without a result yet",
}

var actionWords = map[intent.Action]string{
	intent.ActionLookup: "lookup", intent.ActionRetry: "sent again under the same key", intent.ActionReexecute: "executed again",
	intent.ActionPark: "left to a person", intent.ActionApprove: "approved", intent.ActionDecline: "declined",
	intent.ActionExpire: "approval ran out", intent.ActionResolve: "resolved", intent.ActionWait: "told to keep waiting",
	intent.ActionLateAnswer: "late answer", intent.ActionAcknowledge: "doubt seen to",
}

var whyWords = map[string]string{
	"happened": "it happened", "absent": "nothing there", "not_sent": "no connection", "timeout": "no answer in time", "no_answer": "the connection broke",
	"too_long": "the answer was too long to read", "http_status": "a status that tells nothing", "not_json": "the answer was not JSON", "malformed": "the answer was broken JSON",
	"rule_error": "a rule failed on the answer", "contradiction": "both rules were true", "no_rule_matched": "no rule fitted the answer",
	"breaker_open": "not asked, the breaker is open", "no_permit": "not asked, too many lookups at once", "request": "the arguments do not make the request",
}

// foundWords says what a lookup found. Its words are bounded; a person's reason passes.
func foundWords(s string) string {
	if w, ok := whyWords[s]; ok {
		return w
	}
	return s
}

// found is a lookup's evidence in one line; evidence of another form is shown as it is.
func found(evidence []byte) []piece {
	e, err := intent.Parse(evidence)
	why := e.Member("why").Text()
	if why == "" {
		why = e.Member("proof").Text()
	}
	if err != nil || whyWords[why] == "" {
		return brief(evidence)
	}
	line := whyWords[why]
	if status := e.Member("http_status").Text(); status != "" && status != "0" {
		line = "answered " + status + ": " + line
	}
	if excerpt := e.Member("body").Member("excerpt").Text(); excerpt != "" {
		line += " — " + excerpt
	}
	p := &printer{left: 300, flat: true}
	p.plain("", line)
	return p.pieces
}
