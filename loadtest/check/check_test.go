package check

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/history"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

const (
	said  = "a@example.com | hello"
	other = "a@example.com | good day"
)

// honest is a run in which a mail was sent, repeated, reworded and replayed, a ticket ended
// unknown, a charge was rejected, and a wire transfer was approved.
func honest() *history.Run {
	mail := history.Attempt{Intent: 1, Tenant: "acme", Tool: "mail", Ref: "r1", Wording: said, Key: "k1", HTTP: 200, Status: "completed",
		Retry: "never", Result: "d1", Effect: "mail-1", Durable: true, Why: history.First, Sent: at(1), Got: at(2)}
	again := mail
	again.Why, again.Replayed, again.Sent, again.Got = history.SDKRetry, true, at(3), at(3.1)
	final := again
	final.Why, final.Sent, final.Got = history.Final, at(90), at(90.1)
	reworded := history.Attempt{Intent: 1, Tenant: "acme", Tool: "mail", Ref: "r1", Wording: other, Key: "k1", HTTP: 422,
		Code: "idempotency_conflict", Retry: "never", Why: history.HostRetry, Sent: at(4), Got: at(4.1)}
	lost := history.Attempt{Intent: 2, Tenant: "globex", Tool: "ticket", Ref: "r2", Wording: said, Why: history.First, Sent: at(1), Err: "EOF"}
	unknown := history.Attempt{Intent: 2, Tenant: "globex", Tool: "ticket", Ref: "r2", Wording: said, Key: "k2", HTTP: 202, Status: "unknown",
		Retry: "never", Why: history.SDKRetry, Sent: at(2), Got: at(2.5)}
	refused := history.Attempt{Intent: 3, Tenant: "acme", Tool: "charge", Ref: "r3", Wording: said, Key: "k3", HTTP: 424, Status: "rejected",
		Retry: "corrected", Why: history.First, Sent: at(5), Got: at(6)}
	wire := history.Attempt{Intent: 4, Tenant: "acme", Tool: "wire", Ref: "r4", Wording: said, Key: "k4", HTTP: 202, Status: "awaiting_approval",
		Retry: "never", Why: history.First, Sent: at(1), Got: at(2)}
	return &history.Run{
		Intents:  4,
		Attempts: []history.Attempt{mail, again, final, reworded, lost, unknown, refused, wire},
		Words: []history.Word{
			{Tool: "mail", Ref: "r1", Said: history.Done, At: at(5)},
			{Tool: "ticket", Ref: "r2", Said: history.Waiting, At: at(6)},
			{Tool: "charge", Ref: "r3", Said: history.NotDone, At: at(7)},
			{Tool: "wire", Ref: "r4", Said: history.Waiting, At: at(3)},
		},
		Probes: []history.Probe{{Key: "k1", Owner: "acme", By: "globex", HTTP: 404}},
		Effects: []history.Effect{
			{ID: "mail-1", Service: "mail", Ref: "r1", Key: "k1", Wording: said, At: at(1.5)},
			{ID: "ticket-2", Service: "ticket", Ref: "r2", Key: "k2", Wording: said, At: at(1.2), Mode: "hang_after"},
			{ID: "wire-3", Service: "wire", Ref: "r4", Key: "k4", Wording: said, At: at(9)},
		},
		Receipts: []history.Receipt{
			{Key: "k1", Tool: "mail", Class: "effectful", Tenant: "acme", Ref: "r1", Wording: said, Status: "completed", SettledBy: "downstream", Result: "d1", Effect: "mail-1", Executions: 1},
			{Key: "k2", Tool: "ticket", Class: "effectful", Tenant: "globex", Ref: "r2", Wording: said, Status: "unknown", Parked: "policy", Executions: 1},
			{Key: "k3", Tool: "charge", Class: "effectful", Tenant: "acme", Ref: "r3", Wording: said, Status: "rejected", SettledBy: "downstream", Executions: 1},
			{Key: "k4", Tool: "wire", Class: "irreversible", Tenant: "acme", Ref: "r4", Wording: said, Status: "completed", SettledBy: "downstream", Result: "d4", Effect: "wire-3",
				Executions: 1, Actions: map[string]int{"approve": 1}},
		},
	}
}

func broken(run *history.Run) []string {
	var names []string
	for _, r := range Check(run) {
		if r.Broken > 0 {
			names = append(names, r.Name)
		}
	}
	return names
}

func TestAnHonestRunIsGreen(t *testing.T) {
	t.Parallel()
	if names := broken(honest()); len(names) > 0 {
		t.Errorf("%v are broken: %+v", names, Check(honest()))
	}
}

// lies are forged runs, each with the rules that it breaks.
var lies = []struct {
	lie   string
	rules string
	forge func(*history.Run)
}{
	{"the mail went out twice", "one_effect one_key", func(r *history.Run) {
		twice := r.Effects[0]
		twice.ID, twice.At = "mail-9", at(8)
		r.Effects = append(r.Effects, twice)
	}},
	{"twice under two keys", "one_effect", func(r *history.Run) {
		twice := r.Effects[0]
		twice.ID, twice.Key, twice.At = "mail-9", "k9", at(8)
		r.Effects = append(r.Effects, twice)
	}},
	{"a replay differs", "one_result", func(r *history.Run) { r.Attempts[1].Result = "d9" }},
	{"reported under two keys", "kept one_result", func(r *history.Run) { r.Attempts[1].Key = "k9" }},
	{"the receipt is gone", "kept", func(r *history.Run) { r.Receipts = r.Receipts[1:] }},
	{"the result changed after it was reported", "kept", func(r *history.Run) { r.Receipts[0].Result = "d9" }},
	{"a completed receipt went back to unknown", "kept", func(r *history.Run) { r.Receipts[0].Status = "unknown" }},
	{"asked again long after, it acts as if new", "kept", func(r *history.Run) { r.Attempts[2].Replayed = false }},
	{"asked again long after, it is refused", "kept", func(r *history.Run) {
		a := &r.Attempts[2]
		a.HTTP, a.Status, a.Retry, a.Replayed = 202, "unknown", "never", false
	}},
	{"completed without an effect", "evidence last_word", func(r *history.Run) { r.Effects = r.Effects[1:] }},
	{"completed with another's effect", "evidence", func(r *history.Run) { r.Receipts[0].Effect = "ticket-2" }},
	{"told before it happened", "evidence", func(r *history.Run) { r.Effects[0].At = at(2.5) }},
	{"a caller got another's result", "evidence", func(r *history.Run) { r.Attempts[1].Effect = "ticket-2" }},
	{"other arguments were sent than are shown", "evidence", func(r *history.Run) { r.Receipts[0].Wording = other }},
	{"an unknown was reported as rejected in the end", "no_denial", func(r *history.Run) { r.Receipts[1].Status = "rejected" }},
	{"an unknown was answered as rejected", "no_denial", func(r *history.Run) {
		a := &r.Attempts[5]
		a.HTTP, a.Status, a.Retry = 503, "rejected", "same_key"
	}},
	{"still started", "ended", func(r *history.Run) { r.Receipts[1].Status = "started" }},
	{"200 for an unknown", "said_as_is", func(r *history.Run) { r.Attempts[5].HTTP = 200 }},
	{"an invitation to repeat an unknown", "said_as_is", func(r *history.Run) { r.Attempts[5].Retry = "same_key" }},
	{"a conflict that invites a retry", "said_as_is", func(r *history.Run) { r.Attempts[3].Retry = "same_key" }},
	{"an internal error", "said_as_is", func(r *history.Run) {
		r.Attempts[3] = history.Attempt{Tool: "mail", Ref: "r1", Wording: other, HTTP: 500, Code: "internal", Sent: at(4), Got: at(4.1)}
	}},
	{"a mismatch ran", "evidence mismatch_ran_not", func(r *history.Run) { r.Effects[0].Wording = other }},
	{"a mismatch for the same words", "mismatch_due", func(r *history.Run) { r.Attempts[3].Wording = said }},
	{"a conflict because of somebody else's step", "mismatch_due", func(r *history.Run) {
		a := &r.Attempts[3]
		a.HTTP, a.Code, a.Earlier = 409, "step_conflict", "k2"
	}},
	{"a mismatch that shows the stored result", "mismatch_silent", func(r *history.Run) { r.Attempts[3].Leaked = true }},
	{"another tenant reads a receipt", "tenants", func(r *history.Run) { r.Probes[0].HTTP = 200 }},
	{"a 404 that shows what it hides", "tenants", func(r *history.Run) { r.Probes[0].Leaked = true }},
	{"a caller is answered with another tenant's receipt", "tenants", func(r *history.Run) { r.Attempts[5].Key = "k3" }},
	{"one key, two tenants", "tenants", func(r *history.Run) {
		twin := r.Receipts[0]
		twin.Tenant = "globex"
		r.Receipts = append([]history.Receipt{twin}, r.Receipts...)
	}},
	{"success claimed too early", "last_word", func(r *history.Run) { r.Words[3].Said = history.Done }},
	{"success claimed for nothing", "last_word", func(r *history.Run) { r.Words[2].Said = history.Done }},
	{"failure claimed though it happened", "last_word", func(r *history.Run) { r.Words[1].Said = history.NotDone }},
	{"a transfer that nobody approved", "approved", func(r *history.Run) { r.Receipts[3].Actions = map[string]int{"lookup": 1} }},
}

// Every kind of lie turns exactly the rules red that it breaks.
func TestEveryLieIsFound(t *testing.T) {
	t.Parallel()
	for _, c := range lies {
		t.Run(c.lie, func(t *testing.T) {
			t.Parallel()
			run := honest()
			c.forge(run)
			got := broken(run)
			slices.Sort(got)
			if strings.Join(got, " ") != c.rules {
				t.Errorf("broken %v, want %s", got, c.rules)
			}
		})
	}
}

// No rule is left without a lie that it finds.
func TestEveryRuleCanTurnRed(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for _, lie := range lies {
		for rule := range strings.FieldsSeq(lie.rules) {
			found[rule] = true
		}
	}
	names := map[string]bool{}
	for _, r := range Rules {
		if names[r.Name] || r.Says == "" || !found[r.Name] {
			t.Errorf("%s is there twice, says nothing, or finds no lie", r.Name)
		}
		names[r.Name] = true
	}
	if len(Check(honest())) != len(Rules) {
		t.Error("a rule was not applied")
	}
}

// Without a gateway there are only effects to judge.
func TestDirectRunsAreJudgedByTheLedgerAlone(t *testing.T) {
	t.Parallel()
	run := honest()
	run.Direct, run.Receipts = true, nil
	if results := Check(run); len(results) != 1 || results[0].Broken != 0 {
		t.Errorf("%+v", results)
	}
}

func TestIdempotentToolsMayRepeat(t *testing.T) {
	t.Parallel()
	run := honest()
	for i := range 3 {
		run.Effects = append(run.Effects, history.Effect{ID: fmt.Sprintf("status-%d", 10+i), Service: "status", Ref: "r7", Key: "k7", At: at(1)})
	}
	if names := broken(run); len(names) > 0 {
		t.Errorf("%v are broken", names)
	}
	if n := Sum(run); n.Duplicates != 0 {
		t.Errorf("%d duplicates", n.Duplicates)
	}
}

func TestSumCountsDuplicatesAndWrongWords(t *testing.T) {
	t.Parallel()
	run := honest()
	for range 3 {
		run.Effects = append(run.Effects, history.Effect{Service: "mail", Ref: "r1", At: at(8)})
	}
	run.Words[1].Said = history.NotDone
	n := Sum(run)
	if n.Duplicates != 3 || n.Doubled != 1 || n.ByTool["mail"] != 3 || n.PerThousand() != 750 || n.Wrong != 1 || n.Calls != 8 || n.Answered != 7 {
		t.Errorf("%+v", n)
	}
}

func TestTheReportShowsWhatBrokeAndWhatNeverCameUp(t *testing.T) {
	t.Parallel()
	run := honest()
	run.Receipts[1].Status = "started"
	run.Faults = []history.Fault{{Kind: "kill", Victim: "gateway-1", At: at(1)}}
	r := Report{Title: "Chaos", Command: "go run ./loadtest chaos --seed 1", Seed: 1, Numbers: Sum(run), Rules: Check(run), Sometimes: Count(run, "a settlement came too late"), Faults: run.Faults}
	if r.Green() {
		t.Error("a broken run is green")
	}
	text := r.Markdown()
	for _, want := range []string{"broken promises", "ticket r2: key k2 is still started", "| fenced_settle |", "(replicas' logs) | 1 |", "**(never)**", "1 faults: kill 1"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the report:\n%s", want, text)
		}
	}
	if _, err := r.JSON(); err != nil {
		t.Error(err)
	}
}
