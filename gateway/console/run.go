package console

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

const (
	maxRun     = 1000 // receipts of a run on one page
	maxCounted = 100  // of them whose calls are counted by decision
)

// runItem is a receipt of a run, with its duplicates folded into one line.
type runItem struct {
	item
	Calls string // "4 calls: 1 executed, 3 replayed"
}

// run shows all receipts of a run in the order in which they were made.
func (c *Console) run(v *visit) error {
	id := v.r.FormValue("id")
	if why := intent.CheckID(id); why != "" {
		return intent.Errorf(intent.BadRequest, nil, "A run's id "+why+".")
	}
	var rows []intent.Receipt
	q := intentstore.Query{Tenant: v.who.Tenant, RunID: id, Limit: intentstore.MaxLimit}
	for {
		page, next, err := c.Engine.List(v.ctx(), q)
		if err != nil {
			return err
		}
		rows = append(rows, page...)
		if q.Cursor = next; next == "" || len(rows) >= maxRun {
			break
		}
	}
	slices.Reverse(rows)
	slices.SortStableFunc(rows, func(a, b intent.Receipt) int { return a.CreatedAt.Compare(b.CreatedAt) })
	items := make([]runItem, len(rows))
	duplicates, open := 0, 0
	for i := range rows {
		items[i] = runItem{item: v.item(&rows[i])}
		if i < maxCounted {
			attempts, total, _, err := c.Engine.Attempts(v.ctx(), rows[i].Key, maxArrivals)
			if err != nil {
				return err
			}
			items[i].Attempts = max(total, rows[i].Attempts)
			items[i].Calls = countDecisions(attempts, total)
		}
		duplicates += max(0, items[i].Attempts-1)
		if !rows[i].Status.Settled() {
			open++
		}
	}
	return v.show(http.StatusOK, "run", "Run "+id, struct {
		ID               string
		Items            []runItem
		Duplicates, Open int
		More             bool
		Search           string
	}{id, items, duplicates, open, q.Cursor != "", Prefix + "/search?q=" + escapeQuery(quoteField("run", id))})
}

// countDecisions folds calls into "4 calls: 1 executed, 3 replayed".
func countDecisions(attempts []intent.Attempt, total int) string {
	var order []intent.Decision
	counts := map[intent.Decision]int{}
	for i := range attempts {
		d := attempts[i].Decision
		if counts[d]++; counts[d] == 1 {
			order = append(order, d)
		}
	}
	parts := make([]string, len(order))
	for i, d := range order {
		parts[i] = fmt.Sprintf("%d %s", counts[d], strings.ReplaceAll(d.String(), "_", " "))
	}
	if len(parts) == 0 {
		return ""
	}
	return plural(total, "call") + ": " + strings.Join(parts, ", ")
}
