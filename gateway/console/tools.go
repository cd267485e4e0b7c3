package console

import (
	"fmt"
	"net/http"
	"time"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// toolCard is one tool: what it is declared to be, and how it went in the last day.
type toolCard struct {
	downstream.AuditRow
	Description, Downstream  string
	Timeout, Approval        string
	Findings                 []downstream.Remark
	Breaker                  string
	InFlight                 int
	Executed, Prevented      int64
	Unknown, Open            int64
	UnknownRate              string
	Durability, Guard, Needs string
	ReadOnly                 bool
}

// tools shows the catalogue as `latchkey check` judges it, with the numbers of the last day.
func (c *Console) tools(v *visit) error {
	const day = 24 * time.Hour
	until := v.now.Truncate(time.Minute).Add(time.Minute)
	stats, err := c.Engine.Stats(v.ctx(), intentstore.StatsQuery{Tenant: v.who.Tenant, Since: until.Add(-day), Until: until, Step: day})
	if err != nil {
		return err
	}
	rows, findings := c.Catalogue.Audit()
	cards := make([]toolCard, len(rows))
	for i, row := range rows {
		cards[i].AuditRow = row
		if t, ok := c.Catalogue.Tool(row.Tool); ok {
			cards[i].declare(t)
			cards[i].Breaker, cards[i].InFlight = c.Breakers.BreakerState(t.Downstream), c.Breakers.InFlight(t.Downstream)
		}
		for _, f := range findings {
			if f.Tool == row.Tool {
				cards[i].Findings = append(cards[i].Findings, f)
			}
		}
		cards[i].count(stats)
	}
	return v.show(http.StatusOK, "tools", "Tools", cards)
}

func (card *toolCard) declare(t *downstream.Tool) {
	card.Description, card.Downstream, card.Timeout, card.ReadOnly = t.Description, t.Downstream, span(t.Timeout), t.Class == intent.ReadOnly
	if t.Approval != nil {
		card.Approval = "within " + span(t.Approval.Expires)
	}
	if card.ReadOnly {
		return
	}
	card.Durability, card.Guard = t.Durability.String(), "off"
	if t.Rules.StepGuard {
		card.Guard = "on"
	}
}

// prevented says whether a decision kept a call from acting again.
func prevented(word string) bool {
	return word == intent.Collapsed.String() || word == intent.Replayed.String()
}

func (card *toolCard) count(stats intentstore.Stats) {
	for _, n := range stats.Counts {
		switch {
		case n.Tool != card.Tool:
		case prevented(n.Word):
			card.Prevented += n.N
		case n.Kind == "attempt" && n.Word == intent.Executed.String():
			card.Executed += n.N
		case n.Word == intent.Unknown.String():
			card.Unknown += n.N
		}
	}
	for _, o := range stats.Open {
		if o.Tool == card.Tool && o.What == "unknown" {
			card.Open += o.N
		}
	}
	switch {
	case card.Executed > 0:
		card.UnknownRate = fmt.Sprintf("%.2g %%", 100*float64(card.Unknown)/float64(card.Executed))
	case card.Unknown > 0:
		card.UnknownRate = "–"
	}
}
