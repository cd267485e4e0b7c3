package downstream

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
)

// Proof is what a lookup proved.
type Proof uint8

const (
	// Nothing was proved, for whatever reason.
	Nothing Proof = iota
	// Happened: completed_when was true, and absent_when was not.
	Happened
	// Absent: absent_when was true, and completed_when was not. Whether it came too early and
	// whether it counts at all is for the caller to say (DESIGN §5).
	Absent
)

// String returns the word used in evidence.
func (p Proof) String() string {
	switch p {
	case Happened:
		return "happened"
	case Absent:
		return "absent"
	}
	return "nothing"
}

// Finding is what a lookup found out.
type Finding struct {
	Proof    Proof
	Outcome  *intent.Outcome // of what happened, for callers; nil where the answer does not hold it
	Evidence []byte          // JSON for the receipt, without redacted arguments
	Why      string          // one of the words below: why nothing was proved; "" when something was
}

// Words of Finding.Why.
const (
	whyNoPermit      = notSentPermit   // as many lookups as may run at once are running: nothing was asked
	whyBreaker       = notSentBreaker  // the downstream does not answer at the moment: nothing was asked
	whyRequest       = notSentRequest  // the arguments do not make the lookup's request: nothing was asked
	whyNotSent       = "not_sent"      // no connection
	whyTimeout       = "timeout"       // no answer in time
	whyNoAnswer      = "no_answer"     // the connection broke before the answer was whole
	whyTooLong       = "too_long"      // the answer is longer than a lookup reads
	whyStatus        = "http_status"   // a status that tells nothing, or an error that no rule knows
	whyNotJSON       = "not_json"      // an answer that is not JSON where one is expected
	whyMalformed     = "malformed"     // an answer that says it is JSON and is not
	whyRule          = "rule_error"    // a rule could not be evaluated
	whyContradiction = "contradiction" // both rules are true
	whyNoRule        = "no_rule_matched"
)

const (
	// lookupTimeout bounds a lookup, where the tool's own timeout is longer.
	lookupTimeout = 10 * time.Second
	// lookupCap is how many bytes of an answer are read: a question about one action that
	// gets more is the wrong question.
	lookupCap = 1 << 20
)

// Lookup asks the downstream whether the action happened. call.Tool MUST have a lookup, and
// call.MayBegin is not asked: a lookup only asks, so it may be repeated at will, and is sent
// up to three times by itself when there is no answer. It takes the shorter of the tool's
// timeout and 10 s, with at most a few seconds more for the rules.
//
// An answer that is doubtful in any way proves nothing. Rules are not evaluated at all on a
// status that speaks of the downstream, the asker or the moment (5xx, 3xx, 401, 403, 407, 408,
// 425, 429), on a body that is cut short, too long or no JSON; the one exception is plain text
// outside 2xx ("404 page not found"), where a rule sees body null.
func (c *Client) Lookup(ctx context.Context, call Call) Finding {
	call.MayBegin = nil
	w := witness{call: &call, at: time.Now()}
	l := c.lanes[call.Tool.target]
	m := c.messages.Get().(*message)
	defer c.release(m)
	if err := m.composeLookup(&call); err != nil || l == nil {
		return w.finds(verdictOf(whyRequest, ""))
	}
	done, refused := l.gate.ask()
	if refused != "" {
		return w.finds(verdictOf(refused, ""))
	}
	o := c.repeat(ctx, &call, m, deadlineOf(ctx, min(call.Tool.Timeout, lookupTimeout)), lookupCap, unanswered)
	done()
	w.saw = o
	return w.finds(judge(ctx, &call, o, c.limit))
}

// judged is what an answer proves.
type judged struct {
	proof   Proof
	outcome *intent.Outcome
	rule    string // that was true
	why     string
	detail  string // of a rule's error; may hold parts of the answer
}

func verdictOf(why, detail string) judged { return judged{why: why, detail: detail} }

// judge evaluates the rules, if the answer is one that can prove anything. limit bounds the
// outcome.
func judge(ctx context.Context, call *Call, o Observed, limit int64) judged {
	switch {
	case o.TimedOut:
		return verdictOf(whyTimeout, "")
	case !o.Sent:
		return verdictOf(whyNotSent, o.NotSentWhy)
	case o.Err != nil:
		return verdictOf(whyNoAnswer, "")
	case tellsNothing(o.HTTPStatus):
		return verdictOf(whyStatus, "")
	case o.Truncated:
		return verdictOf(whyTooLong, "")
	}
	body, why := readable(o)
	if why != "" {
		return verdictOf(why, "")
	}
	e := newExact()
	answer := &answered{Status: int64(o.HTTPStatus), Headers: lowerCase(o.Header), Body: e.show(body)}
	key := ""
	if call.Key != (intent.Key{}) {
		key = call.Key.String()
	}
	vars := map[string]any{"response": answer, "args": e.show(call.Args), "key": key, "run_id": call.RunID, "step_id": call.StepID}

	r := call.Tool.rules
	completed, err := r.completed.holds(ctx, vars)
	if err != nil {
		return verdictOf(whyRule, err.Error())
	}
	absent, err := r.absent.holds(ctx, vars)
	switch {
	case err != nil:
		return verdictOf(whyRule, err.Error())
	case completed && absent:
		return verdictOf(whyContradiction, "")
	case absent:
		return judged{proof: Absent, rule: r.absent.field}
	case !completed && o.HTTPStatus >= 400:
		return verdictOf(whyStatus, "")
	case !completed:
		return verdictOf(whyNoRule, "")
	}
	outcome, err := call.Tool.found(ctx, o, vars, e, limit)
	if err != nil {
		// It happened, but settling it now would lose the result for ever. A config with a
		// better rule still finds it.
		return verdictOf(whyRule, err.Error())
	}
	return judged{proof: Happened, rule: r.completed.field, outcome: outcome}
}

// tellsNothing: the status speaks of the downstream, the asker or the moment, so that not
// even a rule as careless as "status is not 200" may take it for an answer.
func tellsNothing(status int) bool {
	return status < 200 || status >= 300 && status < 400 || ofTheMoment(status)
}

// readable returns the body as JSON, null where there is none, or why it proves nothing.
func readable(o Observed) (body intent.Value, why string) {
	media, _, _ := strings.Cut(strings.ToLower(o.Header.Get("Content-Type")), ";")
	media = strings.TrimSpace(media)
	switch named := media == "application/json" || strings.HasSuffix(media, "+json"); {
	case len(o.Body) == 0:
		return intent.Value{}, ""
	case named || media == "":
		v, err := intent.Parse(o.Body)
		if err != nil && named {
			return v, whyMalformed
		} else if err != nil {
			return v, whyNotJSON
		}
		return v, ""
	case media == "text/plain" && o.HTTPStatus >= 300:
		return intent.Value{}, ""
	}
	return intent.Value{}, whyNotJSON
}

func lowerCase(h http.Header) map[string]string {
	out := make(map[string]string, len(h))
	for name, values := range h {
		out[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	return out
}

// found is the outcome of what happened: what the result rule picks from the answer, the whole
// answer without one. An error status can prove that it happened, but is no result of it.
func (t *Tool) found(ctx context.Context, o Observed, vars map[string]any, e *exact, limit int64) (*intent.Outcome, error) {
	if t.rules.result == nil {
		if o.HTTPStatus >= 300 {
			return nil, nil
		}
		return t.outcome(o.within(limit)), nil
	}
	v, err := t.rules.result.evaluate(ctx, vars)
	if err != nil {
		return nil, err
	}
	body, err := e.append(nil, v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.rules.result.field, err)
	}
	kept := Observed{HTTPStatus: http.StatusOK, Body: body, Header: http.Header{"Content-Type": {"application/json"}}}
	return t.outcome(kept.within(limit)), nil
}
