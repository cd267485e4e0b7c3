package console

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// maxBulk bounds one bulk run. More is a second plan: a person looks again in between.
const maxBulk = intentstore.MaxLimit

// bulkWords are the decisions that may be made for many at once, and how a plan says them.
// Executing again is not among them, and neither is anything about an irreversible tool.
var bulkWords = []struct{ Value, Text, Will string }{
	{chooseHappened, "They happened", "completed"},
	{chooseAbsent, "They did not happen, the same calls may be sent again", "rejected, the same call may be sent again"},
	{chooseCorrected, "They did not happen, and the same calls are refused", "rejected, the same call is refused"},
	{chooseWait, "Keep waiting", "stays unknown, the next lookup in an hour"},
	{"look", "Look them up now", "looked up"},
}

// step is one line of a plan.
type step struct {
	item
	Tag  string
	Will string
	Skip string // why nothing is done about it; "" if something is
}

type bulkData struct {
	Line, Choice, Reason string
	Problems             []string
	Choices              []struct{ Value, Text, Will string }
	Steps                []step
	Does, Skips          int
	Asked, More          bool
	Said                 string // the choice, in words
}

// bulkPlan lists what a bulk decision would do. It changes nothing.
func (c *Console) bulkPlan(v *visit) error {
	data := bulkData{Line: strings.TrimSpace(v.r.FormValue("q")), Choice: v.r.FormValue("choice"), Choices: bulkWords, Asked: v.r.URL.Query().Has("q")}
	will := ""
	for _, w := range bulkWords {
		if w.Value == data.Choice {
			will, data.Said = w.Will, w.Text
		}
	}
	if !data.Asked {
		return v.show(http.StatusOK, "bulk", "Decide many", data)
	}
	q, problems := parseSearch(data.Line, v.now)
	if data.Problems = problems; will == "" {
		data.Problems = append(data.Problems, "choose what is to be decided")
	}
	if q.Status != 0 && q.Status != intent.Unknown {
		data.Problems = append(data.Problems, "status: only unknown outcomes are decided in bulk")
	}
	if len(data.Problems) > 0 {
		return v.show(http.StatusBadRequest, "bulk", "Decide many", data)
	}
	q.Tenant, q.Status, q.Limit = v.who.Tenant, intent.Unknown, maxBulk
	rows, next, err := c.Engine.List(v.ctx(), q)
	if err != nil {
		return err
	}
	data.More = next != ""
	for i := range rows {
		s := step{item: v.item(&rows[i]), Tag: tagOf(&rows[i]), Will: will, Skip: v.skip(&rows[i], data.Choice)}
		if s.Skip == "" {
			data.Does++
		} else {
			data.Skips++
		}
		data.Steps = append(data.Steps, s)
	}
	return v.show(http.StatusOK, "bulk", "Decide many", data)
}

func tagOf(r *intent.Receipt) string { return strings.Trim(r.ETag(), `"`) }

// skip says why a receipt is left out of a bulk decision; "" if it is not.
func (v *visit) skip(r *intent.Receipt, choice string) string {
	t, known := v.c.Catalogue.Tool(r.Tool)
	switch {
	case r.Class == intent.Irreversible || known && t.Class == intent.Irreversible:
		return "irreversible: decide it by itself"
	case r.Doubt != 0:
		return "in doubt (" + doubtWords[r.Doubt] + "): look at it by itself"
	case r.Status != intent.Unknown:
		return "it is " + statusWords(r.Status)
	case choice == "look" && (!known || t.Lookup == nil):
		return "the tool has no lookup"
	}
	return ""
}

// outcome is what became of one line of a plan.
type outcome struct {
	N, Of      int
	Key, Short string
	Tool, Word string
	Text       string
	Done       bool
}

// bulkRun carries a plan out, exactly for the versions that the person saw, and writes the
// page as it goes: that shows progress without script and on whichever replica it runs.
// Closing or leaving the page ends it before the next item; what was done stays done, and
// the same plan sent again finishes it, because a decision made twice is one.
func (c *Console) bulkRun(v *visit) error {
	choice, reason := v.r.PostFormValue("choice"), strings.TrimSpace(v.r.PostFormValue("reason"))
	items := v.r.PostForm["item"]
	said := ""
	for _, w := range bulkWords {
		if w.Value == choice {
			said = w.Text
		}
	}
	switch {
	case said == "":
		return intent.Errorf(intent.BadRequest, nil, "That is not one of the choices. Nothing was done.")
	case reason == "" || len(reason) > 1000:
		return intent.Errorf(intent.BadRequest, nil, "Say how you know, in up to 1000 bytes: the reason is kept with every receipt. Nothing was done; go back, your plan is still there.")
	case len(items) == 0 || len(items) > maxBulk:
		return intent.Errorf(intent.BadRequest, nil, fmt.Sprintf("A plan holds 1 to %d receipts. Nothing was done.", maxBulk))
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.Header().Set("X-Accel-Buffering", "no")
	stream := http.NewResponseController(v.w)
	defer stream.SetWriteDeadline(time.Time{}) // the connection may serve another request
	page := v.page("bulkrun", "Deciding many", nil)
	write := func(part string, data any) error {
		page.Data = data
		stream.SetWriteDeadline(time.Now().Add(writeWithin))
		if err := c.pages["bulkrun"].ExecuteTemplate(v.w, part, page); err != nil {
			return err
		}
		return stream.Flush()
	}
	type head struct {
		Of           int
		Said, Reason string
	}
	if write("head", head{len(items), said, reason}) != nil {
		return nil
	}
	pause := time.NewTicker(max(c.pace, 1))
	defer pause.Stop()
	done := 0
	for i, text := range items {
		select {
		case <-v.ctx().Done():
			return nil // the page was left: nobody to tell
		case <-c.closing:
			write("end", outcome{N: done, Of: len(items), Text: "The gateway is being stopped. What is not listed here was not touched."})
			return nil
		case <-pause.C:
		}
		o := v.bulkStep(text, choice, reason)
		o.N, o.Of = i+1, len(items)
		if o.Done {
			done++
		}
		if write("line", o) != nil {
			return nil
		}
	}
	write("end", outcome{N: done, Of: len(items)})
	return nil
}

// bulkStep decides one receipt of a plan. It looks again at what the plan promised.
func (v *visit) bulkStep(text, choice, reason string) outcome {
	hex, version, _ := strings.Cut(text, "@")
	key, err := intent.ParseKey(hex)
	tag := parseTag(version)
	if err != nil || tag == nil {
		return outcome{Text: "skipped: this line of the form was not whole"}
	}
	o := outcome{Key: key.String(), Short: key.Short()}
	r, err := v.c.Engine.Receipt(v.ctx(), v.who.Tenant, key)
	if err != nil {
		o.Text = "skipped: " + asError(err).Public
		return o
	}
	o.Tool = r.Tool
	if *tag != (once.Tag{Fence: r.Fence, Version: r.Version}) {
		o.Text, o.Word = "skipped: it has changed since the plan was made; it is "+statusWords(r.Status)+" now", r.Status.String()
		return o
	}
	if why := v.skip(&r, choice); why != "" {
		o.Text = "skipped: " + why
		return o
	}
	if choice == "look" {
		r, err = v.c.Engine.Reconcile(v.ctx(), v.order(key, reason, tag))
	} else {
		err = v.carryOut(key, form{Choice: choice, Reason: reason, tag: tag, Wait: "1h"})
		if err == nil {
			r, err = v.c.Engine.Receipt(v.ctx(), v.who.Tenant, key)
		}
	}
	switch e, refused := errors.AsType[*intent.Error](err); {
	case refused:
		o.Text = "skipped: " + e.Public
	case err != nil:
		o.Text = "not certain: " + asError(err).Public
	default:
		o.Done, o.Word, o.Text = true, r.Status.String(), statusWords(r.Status)
	}
	return o
}
