package console

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
)

// The timeline of a receipt: everything that happened to it on one time axis, in lanes. What
// is drawn here is also told by the tables under it, which is what a screen reader gets.

// Lanes, from top to bottom. A lane without anything in it is not drawn.
const (
	laneCalls = iota
	laneRuns
	laneChecks
	lanePeople
	lanes
)

var laneNames = [lanes]string{"Calls", "Executions", "Checks", "People"}

// timeline is what happened, before it is laid out for a width.
type timeline struct {
	moments []moment
	bars    []stretch
	lines   []limit
	now     time.Time
	ended   bool // settled: the axis ends with the last thing that happened
}

// moment is a mark in a lane.
type moment struct {
	At          time.Time
	Lane        int
	Kind, Title string
	Link        string
	future      bool
}

// stretch is an execution, from the request to its end.
type stretch struct {
	From, To time.Time // To zero: it was never heard of again
	Kind     string
	Title    string
}

// limit is a line through all lanes.
type limit struct {
	At          time.Time
	Kind, Label string
}

func (v *visit) timeline(r *intent.Receipt, attempts []intent.Attempt, runs []intent.Execution, audit []intent.Entry) *timeline {
	t := &timeline{now: v.now, ended: r.Status.Settled()}
	for i := range attempts {
		a := &attempts[i]
		title := fmt.Sprintf("%s  %s: %s", v.when(a.At).Millis(), a.Decision, decisionWords[a.Decision])
		if at := strings.TrimLeft(a.Region+" / "+a.Replica, " /"); at != "" {
			title += ", at " + at
		}
		t.moments = append(t.moments, moment{a.At, laneCalls, a.Decision.String(), title, v.c.trace(a.TraceID), false})
	}
	for i := range runs {
		t.run(v, r, &runs[i])
	}
	for i := range audit {
		e := &audit[i]
		m := moment{At: e.At, Lane: lanePeople, Kind: e.Action.String()}
		if e.Actor == intent.ActorGateway || e.Action == intent.ActionLookup {
			m.Lane = laneChecks
		}
		why := e.Reason
		if e.Action == intent.ActionLookup {
			m.Kind, why = "lookup-nothing", foundWords(e.Reason)
			if e.Before != e.After {
				m.Kind = "lookup-proof"
			}
		}
		m.Title = strings.TrimSuffix(fmt.Sprintf("%s  %s by %s: %s", v.when(e.At).Millis(), actionWords[e.Action], e.Actor, why), ": ")
		t.moments = append(t.moments, m)
	}
	t.lines = append(t.lines, limit{r.CreatedAt, "begin", "written ahead"})
	if r.Status == intent.AwaitingApproval || r.Reason == intent.ReasonDeclined || r.Reason == intent.ReasonExpired {
		t.lines[0].Label = "held for approval"
	}
	t.add(r.UnknownSince, "unknown", "unknown")
	if r.Status.Settled() {
		t.add(r.SettledAt, r.Status.String(), r.Status.String())
	} else {
		t.add(v.now, "now", "now")
	}
	if r.Status == intent.Unknown && r.NextCheck.After(v.now) {
		t.moments = append(t.moments, moment{r.NextCheck, laneChecks, "next", v.when(r.NextCheck).Millis() + "  next check", "", true})
		t.lines = append(t.lines, limit{r.NextCheck, "future", "next check"})
	}
	if r.Status == intent.AwaitingApproval && r.NextCheck.After(v.now) {
		t.lines = append(t.lines, limit{r.NextCheck, "future", "expires"})
	}
	last := t.last()
	if _, begun := r.Execution(); begun {
		deadline := time.Time{}
		if tool, ok := v.c.Catalogue.Tool(r.Tool); ok {
			deadline = r.StartedAt.Add(tool.Timeout)
		}
		for _, l := range []limit{{deadline, "deadline", "tool's deadline"}, {r.SettleBy, "lease", "lease ends"}} {
			if r.Status == intent.Started || !l.At.IsZero() && !l.At.After(last) {
				t.add(l.At, l.Kind, l.Label)
			}
		}
	}
	return t
}

func (t *timeline) add(at time.Time, kind, label string) {
	if !at.IsZero() {
		t.lines = append(t.lines, limit{at, kind, label})
	}
}

func (t *timeline) run(v *visit, r *intent.Receipt, x *intent.Execution) {
	s := stretch{From: x.StartedAt, To: x.EndedAt, Kind: x.Status.String()}
	what := "no answer yet"
	switch {
	case x.HTTPStatus != 0:
		what = fmt.Sprintf("answered %d", x.HTTPStatus)
	case x.Status == intent.Unknown:
		what = "no answer that tells"
	case x.Status.Settled():
		what = x.Status.String()
	}
	if x.Fence == r.Fence && (x.Status == intent.Unknown || !r.UnknownSince.IsZero()) {
		s.To, s.Kind = r.UnknownSince, "unknown" // what settled it later is a check's or a person's
	}
	s.Title = fmt.Sprintf("Execution %d from %s: %s", x.Fence, v.when(x.StartedAt).Millis(), what)
	if !s.To.IsZero() {
		s.Title += ", after " + span(s.To.Sub(s.From))
	}
	t.bars = append(t.bars, s)
}

func (t *timeline) last() time.Time {
	var last time.Time
	for _, at := range t.times() {
		if at.After(last) {
			last = at
		}
	}
	return last
}

func (t *timeline) times() []time.Time {
	var all []time.Time
	for _, m := range t.moments {
		all = append(all, m.At)
	}
	for _, b := range t.bars {
		all = append(all, b.From)
		if !b.To.IsZero() {
			all = append(all, b.To)
		}
	}
	for _, l := range t.lines {
		all = append(all, l.At)
	}
	slices.SortFunc(all, time.Time.Compare)
	return slices.CompactFunc(all, time.Time.Equal)
}

// axis places times. Where a straight scale would pile up what happened close together
// beside one long wait, every wait is drawn shorter, the longer the more, and order stays.
type axis struct {
	times      []time.Time
	at         []float64
	Compressed bool
}

func newAxis(times []time.Time, from, width float64) *axis {
	a := &axis{times: times, at: make([]float64, len(times))}
	if len(times) < 2 {
		for i := range a.at {
			a.at[i] = from
		}
		return a
	}
	whole := times[len(times)-1].Sub(times[0]).Seconds()
	crowded := 0
	for i := 1; i < len(times); i++ {
		if times[i].Sub(times[i-1]).Seconds()/whole*width < 4 {
			crowded++
		}
	}
	power := 1.0
	if a.Compressed = crowded*4 >= len(times)-1 && crowded > 0; a.Compressed {
		power = 0.3
	}
	sum := 0.0
	for i := 1; i < len(times); i++ {
		sum += math.Pow(times[i].Sub(times[i-1]).Seconds(), power)
		a.at[i] = sum
	}
	for i := range a.at {
		a.at[i] = from + a.at[i]/sum*width
	}
	return a
}

func (a *axis) x(t time.Time) float64 {
	i, ok := slices.BinarySearchFunc(a.times, t, time.Time.Compare)
	if !ok { // every time drawn is on the axis
		i = min(i, len(a.at)-1)
	}
	return math.Round(a.at[i]*10) / 10
}
