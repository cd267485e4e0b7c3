package console

import (
	"net/http"
	"slices"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// request is one thing that awaits approval.
type request struct {
	item
	Tag, Fingerprint string
	Exact            []piece
	Compared         *compared
	Decide           *decision
}

// approvals is the inbox: what expires first is first.
func (c *Console) approvals(v *visit) error {
	rows, next, err := c.Engine.List(v.ctx(), intentstore.Query{Tenant: v.who.Tenant, Status: intent.AwaitingApproval, Limit: 50})
	if err != nil {
		return err
	}
	slices.SortStableFunc(rows, func(a, b intent.Receipt) int { return a.NextCheck.Compare(b.NextCheck) })
	earlier := map[string][]intent.Receipt{} // the last calls that were carried out, by tool
	list := make([]request, len(rows))
	for i := range rows {
		r := &rows[i]
		if _, asked := earlier[r.Tool]; !asked {
			earlier[r.Tool], _, err = c.Engine.List(v.ctx(), intentstore.Query{Tenant: v.who.Tenant, Tool: r.Tool, Status: intent.Completed, Limit: 20})
			if err != nil {
				return err
			}
		}
		list[i] = request{item: v.item(r), Tag: tagOf(r), Fingerprint: r.Fingerprint.String(), Exact: exact(r.Args),
			Compared: v.closest(r, earlier[r.Tool]), Decide: v.decision(r, form{})}
	}
	return v.show(http.StatusOK, "approvals", "Approvals", struct {
		List []request
		More bool
		Done string
	}{list, next != "", doneWords[v.r.FormValue("done")]})
}
