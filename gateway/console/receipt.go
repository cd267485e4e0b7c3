package console

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// How much of a receipt's history one page lists, the newest.
const (
	maxArrivals = 500
	maxEntries  = 200
)

// arrival is one row of the attempts.
type arrival struct {
	At                   when
	Decision, Means      string
	Replica, Region, Who string
	Trace                string
	Link                 string
}

// execution is one row of the executions.
type execution struct {
	Fence         uint64
	Status, Word  string
	Started       when
	Ended         when
	Took          string
	HTTP          int
	Reason        string
	Replica       string
	Region, Trace string
	Link          string
}

// entry is one row of the audit.
type entry struct {
	At            when
	Who, What     string
	Reason        []piece
	Before, After string
	Evidence      []piece
	Trace, Link   string
	action        intent.Action
}

// compared is an earlier call of the same tool that was carried out, and how this one differs.
type compared struct {
	Key, Short string
	At         when
	Same       int
	List       []difference
}

// receiptPage is what receipt.html shows.
type receiptPage struct {
	item
	Tag, Fingerprint   string
	Retry, Reason      string
	SettledBy          string
	Executions, Total  int
	Fence, Version     uint64
	Durable            bool
	Exact              []piece
	HTTP               int
	Headers            []string
	Body               []piece
	HasBody, Truncated bool
	Evidence           []piece
	Advice             string
	Trace, Link        string
	Wide, Narrow       *drawing
	Arrivals           []arrival
	Runs               []execution
	Entries            []entry
	Compared           *compared
	Decide             *decision
	Done               string
	Replica, Region    string
	Attention          bool
}

func (c *Console) receipt(v *visit) error {
	key, err := intent.ParseKey(strings.ToLower(v.r.PathValue("key")))
	if err != nil {
		return err
	}
	return v.showReceipt(200, key, form{})
}

// showReceipt renders a receipt. A form that was not accepted is shown again as it was filled in.
func (v *visit) showReceipt(status int, key intent.Key, f form) error {
	c := v.c
	r, err := c.Engine.Receipt(v.ctx(), v.who.Tenant, key)
	if err != nil {
		return err
	}
	attempts, total, runs, err := c.Engine.Attempts(v.ctx(), key, maxArrivals)
	if err != nil {
		return err
	}
	audit, err := c.Engine.Audit(v.ctx(), v.who.Tenant, key, maxEntries)
	if err != nil {
		return err
	}
	r.Attempts = max(r.Attempts, total)
	p := receiptPage{
		item: v.item(&r), Tag: strings.Trim(r.ETag(), `"`), Fingerprint: r.Fingerprint.String(), Retry: r.RetryWord().String(), Reason: r.Reason,
		SettledBy: r.SettledBy, Executions: r.Executions, Total: total, Fence: r.Fence, Version: r.Version, Durable: r.Durable,
		Exact: exact(r.Args), Evidence: exact(r.Evidence), Advice: v.told(&r), Trace: r.TraceID(), Replica: r.Replica, Region: r.Region,
		Attention: r.Attention(), Done: doneWords[v.r.FormValue("done")],
	}
	p.Link = c.trace(p.Trace)
	if o := r.Outcome; o != nil {
		p.HTTP, p.Body, p.HasBody, p.Truncated = o.HTTPStatus, body(o), true, o.Truncated
		for _, name := range sortedNames(o.Headers) {
			p.Headers = append(p.Headers, name+": "+o.Headers[name])
		}
	}
	for i := range attempts {
		a := &attempts[i]
		p.Arrivals = append(p.Arrivals, arrival{v.when(a.At), a.Decision.String(), decisionWords[a.Decision], a.Replica, a.Region, a.Credential, a.TraceID, c.trace(a.TraceID)})
	}
	for i := range runs {
		p.Runs = append(p.Runs, v.execution(&runs[i]))
	}
	for i := range audit {
		p.Entries = append(p.Entries, v.entry(&r, &audit[i]))
	}
	line := v.timeline(&r, attempts, runs, audit)
	p.Wide, p.Narrow = line.draw(1040), line.draw(344)
	if r.Status == intent.AwaitingApproval {
		if p.Compared, err = v.compare(&r); err != nil {
			return err
		}
	}
	p.Decide = v.decision(&r, f)
	v.w.Header().Set("ETag", r.ETag())
	return v.show(status, "receipt", r.Tool+" "+r.Key.Short(), p)
}

// told is what an agent that asks now is told, besides status and result.
func (v *visit) told(r *intent.Receipt) string {
	if advice := r.Advice(); advice != "" {
		return advice
	}
	return "The result itself; it needs no advice."
}

func (v *visit) execution(x *intent.Execution) execution {
	e := execution{Fence: x.Fence, Status: statusWords(x.Status), Word: x.Status.String(), Started: v.when(x.StartedAt), Ended: v.when(x.EndedAt), HTTP: x.HTTPStatus,
		Reason: x.Reason, Replica: x.Replica, Region: x.Region}
	if !x.EndedAt.IsZero() {
		e.Took = span(x.EndedAt.Sub(x.StartedAt))
	}
	if parts := strings.Split(x.Traceparent, "-"); len(parts) == 4 {
		e.Trace, e.Link = parts[1], v.c.trace(parts[1])
	}
	return e
}

func (v *visit) entry(r *intent.Receipt, x *intent.Entry) entry {
	e := entry{At: v.when(x.At), Who: x.Actor, What: actionWords[x.Action], Reason: words(x.Reason), Before: x.Before, After: x.After, Evidence: exact(x.Evidence), action: x.Action}
	switch x.Action {
	case intent.ActionLookup:
		e.Reason = words(v.weighed(r, x))
	case intent.ActionPark:
		if why, err := intent.ParseParking(x.Reason); err == nil && why != 0 {
			e.Reason = words(parkedWords[why])
		}
	}
	if e.Before == e.After {
		e.After = ""
	}
	if parts := strings.Split(x.Traceparent, "-"); len(parts) == 4 {
		e.Trace, e.Link = parts[1], v.c.trace(parts[1])
	}
	return e
}

// weighed says what a lookup found and what that was worth.
func (v *visit) weighed(r *intent.Receipt, x *intent.Entry) string {
	text := foundWords(x.Reason)
	t, ok := v.c.Catalogue.Tool(r.Tool)
	if x.Reason != "absent" || x.Before != x.After || !ok || t.Lookup == nil {
		return text
	}
	if counts := r.UnknownSince.Add(t.Lookup.SettleAfter); x.At.Before(counts) {
		return text + ", which is too early to count (before " + v.when(counts).Clock() + ")"
	}
	if !t.Lookup.AbsenceIsProof {
		return text + ", which proves nothing for this tool"
	}
	return text
}

// trace is a link to a trace viewer, "" where none is configured.
func (c *Console) trace(id string) string {
	if id == "" || c.TraceLink == "" {
		return ""
	}
	return strings.ReplaceAll(c.TraceLink, "{trace_id}", id)
}

func sortedNames(m map[string]string) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// compare finds, among the last calls of the same tool that were carried out, the one whose
// arguments are most like this one's; nil when there is none.
func (v *visit) compare(r *intent.Receipt) (*compared, error) {
	rows, _, err := v.c.Engine.List(v.ctx(), intentstore.Query{Tenant: v.who.Tenant, Tool: r.Tool, Status: intent.Completed, Until: r.CreatedAt, Limit: 20})
	if err != nil && !errors.Is(err, intent.ErrNone) {
		return nil, err
	}
	return v.closest(r, rows), nil
}

func (v *visit) closest(r *intent.Receipt, rows []intent.Receipt) *compared {
	now, err := intent.Parse(r.Args)
	if err != nil {
		return nil
	}
	var best *compared
	for i := range rows {
		was, err := intent.Parse(rows[i].Args)
		if err != nil || rows[i].Expired || rows[i].Key == r.Key {
			continue
		}
		var d differ
		d.compare(nil, was, now)
		if best == nil || cmp.Or(cmp.Compare(d.same, best.Same), cmp.Compare(len(best.List), len(d.list))) > 0 {
			best = &compared{rows[i].Key.String(), rows[i].Key.Short(), v.when(rows[i].CreatedAt), d.same, d.list}
		}
	}
	return best
}
