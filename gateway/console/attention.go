package console

import (
	"errors"
	"slices"
	"strconv"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// item is a receipt as a list shows it.
type item struct {
	Key, Short    string
	Tool, Class   string
	Status, Word  string // of the status: for the eye, and for machines
	Run, Step     string
	Occurrence    int
	Args          []piece
	Story         story
	Doubt, Parked string
	Created       when
	Since         when // of the status it has: how long it has been so
	Next          when
	Checks        int
	Found         []piece // what the last check found
	Attempts      int
	ETag          string
	Gone          bool // shown only because it was shown before
	Where         string
	Act           string // what the button on its row says
}

func (v *visit) item(r *intent.Receipt) item {
	it := item{
		Key: r.Key.String(), Short: r.Key.Short(), Tool: r.Tool, Class: r.Class.String(), Status: statusWords(r.Status), Word: r.Status.String(),
		Run: r.RunID, Step: r.StepID, Occurrence: r.Occurrence, Args: brief(r.Args), Story: v.story(r), Doubt: doubtWords[r.Doubt],
		Created: v.when(r.CreatedAt), Since: v.when(r.CreatedAt), Next: v.when(r.NextCheck), Checks: r.Checks, Attempts: r.Attempts,
		ETag: r.ETag(), Where: v.place(r),
	}
	if r.Parked != 0 {
		it.Parked = "parked"
	}
	switch {
	case !v.mayDecide():
		it.Act = "Look"
	case r.Doubt != 0:
		it.Act = "See to it"
	case r.Status == intent.AwaitingApproval:
		it.Act = "Review"
	default:
		it.Act = "Decide"
	}
	switch r.Status {
	case intent.Unknown:
		it.Since = v.when(r.UnknownSince)
		if r.Checks > 0 {
			it.Found = found(r.Evidence)
		}
	case intent.Started:
		it.Since = v.when(r.StartedAt)
	case intent.Completed, intent.Rejected:
		it.Since = v.when(r.SettledAt)
	}
	return it
}

func (v *visit) items(rows []intent.Receipt) []item {
	list := make([]item, len(rows))
	for i := range rows {
		list[i] = v.item(&rows[i])
	}
	return list
}

// group is one heading of the attention page.
type group struct {
	ID, Title, Means string
	Items            []item
}

// openBreaker is a downstream that takes no calls.
type openBreaker struct{ Name, State, Tools string }

// maxKept bounds the rows that stay in sight after they need nobody any more.
const maxKept = 100

// attention lists what a person may have to see to: first what only a person can end, in the
// order in which harm grows; last what ends by itself. Within a group the oldest is first.
func (c *Console) attention(v *visit) error {
	rows, next, err := c.Engine.List(v.ctx(), intentstore.Query{Tenant: v.who.Tenant, Attention: true, Limit: intentstore.MaxLimit})
	if err != nil {
		return err
	}
	groups := []group{
		{ID: "doubts", Title: "In doubt", Means: "These may have acted twice, or otherwise than agents were told."},
		{ID: "parked", Title: "Waiting for you", Means: "Nobody knows whether these happened, and nothing more is tried by itself."},
		{ID: "awaiting", Title: "Awaiting approval", Means: "Nothing has been sent."},
		{ID: "unknown", Title: "Being looked into", Means: "Nobody knows yet whether these happened. The gateway goes on asking."},
		{ID: "gone", Title: "Seen to", Means: "These needed somebody a moment ago."},
	}
	shown := map[string]bool{}
	for i := range rows {
		g := &groups[3]
		switch r := &rows[i]; {
		case r.Doubt != 0:
			g = &groups[0]
		case r.Status == intent.AwaitingApproval:
			g = &groups[2]
		case r.Parked != 0:
			g = &groups[1]
		}
		it := v.item(&rows[i])
		shown[it.Key] = true
		g.Items = append(g.Items, it)
	}
	for i := range groups {
		slices.SortStableFunc(groups[i].Items, func(a, b item) int { return a.Since.At.Compare(b.Since.At) })
	}
	if groups[4].Items, err = v.kept(shown); err != nil {
		return err
	}
	groups = slices.DeleteFunc(groups, func(g group) bool { return len(g.Items) == 0 })
	return v.show(200, "attention", "Attention", struct {
		Groups   []group
		Breakers []openBreaker
		More     bool
		Calm     bool
	}{groups, v.breakers(), next != "", len(groups) == 0})
}

// kept returns what the reader has in front of them and no longer needs attention. Settled
// rows are told as such in their place instead of vanishing under the reader's eyes.
func (v *visit) kept(shown map[string]bool) ([]item, error) {
	var list []item
	for i, text := range v.r.URL.Query()["keep"] {
		key, err := intent.ParseKey(text)
		if err != nil || i >= maxKept || shown[key.String()] {
			continue
		}
		r, err := v.c.Engine.Receipt(v.ctx(), v.who.Tenant, key)
		if errors.Is(err, intent.ErrNone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		it := v.item(&r)
		it.Gone = !r.Attention()
		list = append(list, it)
	}
	return list, nil
}

// breakers lists the downstreams whose breaker is not closed.
func (v *visit) breakers() []openBreaker {
	var list []openBreaker
	for _, d := range v.c.Catalogue.Downstreams() {
		state := v.c.Breakers.BreakerState(d.Name)
		if state == "closed" || state == "" {
			continue
		}
		n := 0
		for _, t := range v.c.Catalogue.Tools() {
			if t.Downstream == d.Name {
				n++
			}
		}
		list = append(list, openBreaker{d.Name, state, strconv.Itoa(n)})
	}
	return list
}
