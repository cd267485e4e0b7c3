package console

import (
	"fmt"
	"net/url"
	"time"

	"github.com/latchkey-gateway/latchkey/gateway/auth"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// page is what the layout needs, and what the page itself shows.
type page struct {
	Title, Here string // Here is the template's name, and the place in the navigation
	Who         auth.Principal
	SignedIn    bool
	MayDecide   bool
	Role        string
	Live        bool
	Notices     []string
	Open        openCounts
	Query       string // what stands in the search box
	Now         when
	Data        any
}

// live are the pages that the script keeps up to date.
var live = map[string]bool{"attention": true, "approvals": true, "receipt": true, "search": true, "run": true, "tools": true, "overview": true}

func (v *visit) page(name, title string, data any) page {
	p := page{Title: title, Here: name, Who: v.who, SignedIn: v.who.ID != "", MayDecide: v.mayDecide(), Now: v.when(v.now), Data: data}
	if !p.SignedIn {
		return p
	}
	p.Role, p.Live = "viewer", live[name]
	if p.MayDecide {
		p.Role = "operator"
	}
	if name == "search" {
		p.Query = v.r.FormValue("q")
	}
	if v.c.Notices != nil {
		p.Notices = v.c.Notices()
	}
	if v.c.Engine.Degraded() {
		p.Notices = append(p.Notices, "Redis cannot be asked. Durable tools go on with the store alone, slower and as safe; hot tools answer “not sent”.")
	}
	p.Open = v.open()
	return p
}

func (v *visit) mayDecide() bool { return v.who.Can(auth.Operator) }

// openCounts are the numbers beside the navigation.
type openCounts struct {
	Unknown, Parked, Awaiting, Doubt int64
	Oldest                           time.Time // of the unknown ones
}

// Attention is how many receipts stand on the page of that name.
func (o openCounts) Attention() int64 { return o.Unknown + o.Awaiting + o.Doubt }

// open counts what waits. Where the store does not answer, the page goes without.
func (v *visit) open() openCounts {
	var o openCounts
	stats, err := v.c.Engine.Stats(v.ctx(), intentstore.StatsQuery{Tenant: v.who.Tenant, Since: v.now.Add(-time.Minute), Until: v.now, Step: time.Minute})
	if err != nil {
		v.c.Log.Warn("the console has no counts", "error", err)
		return o
	}
	return countOpen(stats.Open)
}

func countOpen(list []intentstore.Open) (o openCounts) {
	for _, x := range list {
		switch x.What {
		case "unknown":
			o.Unknown += x.N
			if x.N > 0 && (o.Oldest.IsZero() || x.Oldest.Before(o.Oldest)) {
				o.Oldest = x.Oldest
			}
		case "parked":
			o.Parked += x.N
		case "awaiting_approval":
			o.Awaiting += x.N
		case "doubt":
			o.Doubt += x.N
		}
	}
	return o
}

func escapeQuery(s string) string { return url.QueryEscape(s) }

// when is a moment as it is shown: in UTC, and how far away it is.
type when struct{ At, now time.Time }

func (v *visit) when(t time.Time) when { return when{t, v.now} }

// Is says whether there is a moment to show.
func (w when) Is() bool { return !w.At.IsZero() }

// ISO is for machines, to the millisecond.
func (w when) ISO() string { return w.At.UTC().Format("2006-01-02T15:04:05.000Z") }

// Clock is for people: the time of day, with the date where it is another day.
func (w when) Clock() string {
	at, now := w.At.UTC(), w.now.UTC()
	switch {
	case at.Format(time.DateOnly) == now.Format(time.DateOnly):
		return at.Format("15:04:05")
	case at.Year() == now.Year():
		return at.Format("Jan 2 15:04:05")
	}
	return at.Format("2006-01-02 15:04:05")
}

// Millis is Clock with milliseconds, for what happens close together.
func (w when) Millis() string { return w.Clock() + w.At.UTC().Format(".000") }

// Rel is how far away: "3 min ago", "in 40 s". The script repeats it every second.
func (w when) Rel() string {
	if d := w.At.Sub(w.now); d > 0 {
		return "in " + span(d)
	}
	return span(w.now.Sub(w.At)) + " ago"
}

// Soon is how long until then; "now" once it is past.
func (w when) Soon() string {
	if w.At.After(w.now) {
		return w.Rel()
	}
	return "now"
}

// Age is how long since, or until.
func (w when) Age() string { return span(w.At.Sub(w.now).Abs()) }

// span writes a duration with at most two units: "850 ms", "3 min 5 s", "2 d 4 h".
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "−" + span(-d)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second && d%time.Second >= 100*time.Millisecond:
		return fmt.Sprintf("%.1f s", d.Truncate(100*time.Millisecond).Seconds())
	}
	units := []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}}
	for i, u := range units {
		n := d / u.of
		if n == 0 {
			continue
		}
		s := fmt.Sprintf("%d %s", n, u.name)
		if i+1 < len(units) {
			if rest := d % u.of / units[i+1].of; rest > 0 {
				s += fmt.Sprintf(" %d %s", rest, units[i+1].name)
			}
		}
		return s
	}
	return "0 s"
}

// plural is "1 lookup", "2 lookups".
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
