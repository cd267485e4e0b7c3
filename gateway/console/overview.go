package console

import (
	"net/http"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// reach is how far back the plots go, and in which steps.
type reach struct {
	Name, Text string
	Span, Step time.Duration
	Current    bool
}

var reaches = []reach{
	{"1h", "1 hour", time.Hour, time.Minute, false},
	{"24h", "1 day", 24 * time.Hour, 30 * time.Minute, false},
	{"7d", "7 days", 7 * 24 * time.Hour, 3 * time.Hour, false},
	{"30d", "30 days", 30 * 24 * time.Hour, 12 * time.Hour, false},
}

// layer is one kind of thing that a plot counts.
type layer struct {
	Name, Class string
	of          func(intentstore.Count) bool
}

func attempt(word intent.Decision) func(intentstore.Count) bool {
	return func(n intentstore.Count) bool { return n.Kind == "attempt" && n.Word == word.String() }
}

func audited(actions ...intent.Action) func(intentstore.Count) bool {
	return func(n intentstore.Count) bool {
		for _, a := range actions {
			if n.Kind == "audit" && n.Word == a.String() {
				return true
			}
		}
		return false
	}
}

// plots are the questions that the overview answers.
var plots = []struct {
	title, means string
	layers       []layer
}{
	{"Duplicates prevented", "Calls that would have acted a second time, and got the first one's result.", []layer{
		{"joined in flight", "p1", attempt(intent.Collapsed)}, {"replayed", "p2", attempt(intent.Replayed)}}},
	{"Outcomes lost", "Executions whose answer did not tell, and what settled or gave them up.", []layer{
		{"became unknown", "p3", func(n intentstore.Count) bool { return n.Word == intent.Unknown.String() }},
		{"left to a person", "p4", audited(intent.ActionPark)}}},
	{"Mismatches blocked", "Calls that reused a key or a step for something else. Nothing ran.", []layer{
		{"other arguments", "p4", attempt(intent.Mismatch)}, {"other action in a step", "p3", attempt(intent.StepConflict)}}},
	{"Decided by people", "What the gateway could not settle, or was not allowed to.", []layer{
		{"approved or declined", "p1", audited(intent.ActionApprove, intent.ActionDecline)},
		{"resolved", "p3", audited(intent.ActionResolve, intent.ActionWait)},
		{"doubts seen to", "p4", audited(intent.ActionAcknowledge)}}},
}

// overview shows how things go: what is open now, and the plots.
func (c *Console) overview(v *visit) error {
	list, chosen := make([]reach, len(reaches)), 1
	copy(list, reaches)
	for i := range list {
		if list[i].Name == v.r.FormValue("reach") {
			chosen = i
		}
	}
	list[chosen].Current = true
	r := list[chosen]
	until := v.now.Truncate(r.Step).Add(r.Step)
	since := until.Add(-r.Span)
	stats, err := c.Engine.Stats(v.ctx(), intentstore.StatsQuery{Tenant: v.who.Tenant, Since: since, Until: until, Step: r.Step})
	if err != nil {
		return err
	}
	open := countOpen(stats.Open)
	data := struct {
		Reaches  []reach
		Open     openCounts
		Oldest   when
		Executed int64
		Plots    []*plot
		Breakers []openBreaker
	}{Reaches: list, Open: open, Oldest: v.when(open.Oldest), Breakers: v.breakers()}
	for _, n := range stats.Counts {
		if attempt(intent.Executed)(n) {
			data.Executed += n.N
		}
	}
	for _, p := range plots {
		data.Plots = append(data.Plots, newPlot(p.title, p.means, p.layers, stats.Counts, since, r.Step, int(r.Span/r.Step)))
	}
	return v.show(http.StatusOK, "overview", "Overview", data)
}
