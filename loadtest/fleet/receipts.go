package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/history"
)

// receipt reads one, waiting some seconds for it to tell something.
func (f *Fleet) receipt(ctx context.Context, door string, tenant int, key string, wait int) (history.Receipt, bool) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(wait)*time.Second+2*f.Patience)
	defer cancel()
	var got receiptJSON
	status, _, err := f.client.get(ctx, fmt.Sprintf("http://%s/v1/receipts/%s?wait=%d", door, key, wait), f.Tenants[tenant].AgentKey, &got)
	if err != nil || status != http.StatusOK && status != http.StatusAccepted || got.Key == nil {
		return history.Receipt{}, false
	}
	return got.receipt(), true
}

// find is how an agent that knows only run and step gets at its receipt. A step can have
// several: of a rejected one and of its correction.
func (f *Fleet) find(ctx context.Context, it Intent, key string) (history.Receipt, bool) {
	query := url.Values{"run_id": {it.RunID}, "step_id": {it.StepID}, "tool": {it.Tool.Name}}
	var found []history.Receipt
	for range 5 {
		list, _, err := f.page(ctx, it.Tenant, query)
		if err == nil {
			found = list
			break
		}
		pause(ctx, f.Patience*3/10)
	}
	for _, status := range []string{"completed", "started", "unknown", "awaiting_approval", "rejected"} {
		for _, r := range found {
			if r.Status == status && r.Ref == it.Ref {
				return r, true
			}
		}
	}
	if key != "" { // a hot one is not on the list before it is archived
		return f.receipt(ctx, f.Doors[0], it.Tenant, key, 0)
	}
	return history.Receipt{}, false
}

// page reads one page of a tenant's receipts.
func (f *Fleet) page(ctx context.Context, tenant int, query url.Values) (list []history.Receipt, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var got struct {
		Receipts []receiptJSON `json:"receipts"`
		Next     string        `json:"next_cursor"`
	}
	status, body, err := f.client.get(ctx, "http://"+f.Doors[0]+"/v1/receipts?"+query.Encode(), f.Tenants[tenant].OperatorKey, &got)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("fleet: list receipts: HTTP %d: %.200s", status, body)
	}
	for i := range got.Receipts {
		if got.Receipts[i].Key != nil {
			list = append(list, got.Receipts[i].receipt())
		}
	}
	return list, got.Next, err
}

// list reads all receipts of both tenants that match.
func (f *Fleet) list(ctx context.Context, query url.Values) ([]history.Receipt, error) {
	var all []history.Receipt
	for tenant := range f.Tenants {
		query := url.Values(http.Header(query).Clone())
		query.Set("limit", "200")
		for {
			page, next, err := f.page(ctx, tenant, query)
			if err != nil {
				return nil, err
			}
			if all = append(all, page...); next == "" {
				break
			}
			query.Set("cursor", next)
		}
	}
	return all, nil
}

func (g *receiptJSON) receipt() history.Receipt {
	r := history.Receipt{
		Key: *g.Key, Tool: g.Tool, Class: g.Class, Tenant: g.Tenant, RunID: g.RunID, StepID: g.StepID,
		Ref: g.Intent.Args.Ref, Wording: history.Wording(g.Intent.Args.To, g.Intent.Args.Memo),
		Status: g.word(), Retry: g.Retry, Reason: g.Reason, SettledBy: g.SettledBy,
		Doubt: g.Recovery.Doubt, Parked: g.Recovery.Parked,
		Attempts: g.Attempts, Executions: g.Executions, Fence: g.Fence,
	}
	r.Result, r.Effect = g.result()
	for to, from := range map[*time.Time]*time.Time{&r.CreatedAt: g.CreatedAt, &r.SettledAt: g.SettledAt, &r.UnknownSince: g.Unknown} {
		if from != nil {
			*to = *from
		}
	}
	return r
}

// details adds what the audit and the attempts of a receipt tell.
func (f *Fleet) details(ctx context.Context, r *history.Receipt) error {
	tenant := slices.IndexFunc(f.Tenants[:], func(t Tenant) bool { return t.Name == r.Tenant })
	if tenant < 0 {
		return fmt.Errorf("fleet: a receipt of tenant %q", r.Tenant)
	}
	base := "http://" + f.Doors[0] + "/v1/receipts/" + r.Key
	var attempts struct {
		Attempts []struct {
			Decision string `json:"decision"`
		} `json:"attempts"`
	}
	if _, _, err := f.client.get(ctx, base+"/attempts", f.Tenants[tenant].OperatorKey, &attempts); err != nil {
		return err
	}
	r.Decisions = map[string]int{}
	for _, a := range attempts.Attempts {
		r.Decisions[a.Decision]++
	}
	var audit struct {
		Entries []struct {
			Action string `json:"action"`
		} `json:"entries"`
	}
	if _, _, err := f.client.get(ctx, base+"/audit", f.Tenants[tenant].OperatorKey, &audit); err != nil {
		return err
	}
	r.Actions = map[string]int{}
	for _, e := range audit.Entries {
		r.Actions[e.Action]++
	}
	return nil
}

// probe is another tenant's agent that has got hold of a key.
func (f *Fleet) probe(ctx context.Context, it Intent, key string) {
	other := 1 - it.Tenant
	ctx, cancel := context.WithTimeout(ctx, 3*f.Patience)
	defer cancel()
	status, body, err := f.client.get(ctx, "http://"+f.Doors[0]+"/v1/receipts/"+key, f.Tenants[other].AgentKey, nil)
	if err != nil {
		return // not answered: nothing was seen
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen.Probes = append(f.seen.Probes, history.Probe{
		Key: key, Owner: f.Tenants[it.Tenant].Name, By: f.Tenants[other].Name, At: time.Now().UTC(), HTTP: status,
		Leaked: bytes.Contains(body, []byte(it.Ref)) || bytes.Contains(body, []byte(it.Memo)),
	})
}

// Ledger reads what happened on a target.
func Ledger(ctx context.Context, addr string) ([]history.Effect, error) {
	_, body, err := newClient("").get(ctx, "http://"+addr+"/ledger", "", nil)
	var effects []history.Effect
	if err == nil {
		err = json.Unmarshal(body, &effects)
	}
	if err != nil {
		return nil, fmt.Errorf("fleet: ledger: %w", err)
	}
	return effects, nil
}
