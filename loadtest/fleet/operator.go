package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/history"
)

// operate lets one person of each tenant decide on what awaits approval, until stop is
// called. Nine in ten are approved, and of these one in five twice at the same time.
func (f *Fleet) operate(ctx context.Context) (stop func()) {
	if f.Direct != "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var people sync.WaitGroup
	for tenant := range f.Tenants {
		people.Go(func() {
			for ctx.Err() == nil {
				f.decideAll(ctx, tenant)
				pause(ctx, 300*time.Millisecond)
			}
		})
	}
	return func() { cancel(); people.Wait() }
}

func (f *Fleet) decideAll(ctx context.Context, tenant int) {
	list, _, err := f.page(ctx, tenant, url.Values{"status": {"awaiting_approval"}, "limit": {"100"}})
	if err != nil {
		return // asked again soon
	}
	for _, r := range list {
		h := fnv.New32a()
		h.Write([]byte(r.Key))
		times, verb := 1, "approve"
		switch n := h.Sum32() % 50; {
		case n < 5:
			verb = "decline"
		case n < 15:
			times = 2
		}
		var clicks sync.WaitGroup
		for range times {
			clicks.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, 4*f.Patience)
				defer cancel()
				// Whatever became of it, the list tells; a lost answer is clicked again.
				_, _ = f.client.decide(ctx, "http://"+f.Doors[0]+"/v1/receipts/"+r.Key+"/"+verb, f.Tenants[tenant].OperatorKey, "",
					map[string]string{"reason": "looked at by the simulated operator"})
			})
		}
		clicks.Wait()
	}
}

// Settle waits until nothing goes on any more: nothing is started or awaits approval, and
// what is unknown waits for a person. It gives up after limit; the checker then sees it.
func (f *Fleet) Settle(ctx context.Context, limit time.Duration) error {
	stop := f.operate(ctx)
	defer stop()
	var last error
	for until := time.Now().Add(limit); time.Now().Before(until) && ctx.Err() == nil; pause(ctx, time.Second) {
		open := 0
		last = nil
		for _, status := range []string{"started", "unknown", "awaiting_approval"} {
			list, err := f.list(ctx, url.Values{"status": {status}})
			if err != nil {
				last = err
				break
			}
			for _, r := range list {
				if status != "unknown" || r.Parked == "" {
					open++
				}
			}
		}
		if last == nil && open == 0 {
			return nil
		}
	}
	return last
}

// Resolve lets operators settle every second unknown that waits for a person, by what the
// target's ledger says: they have looked into the provider's console. The others stay.
func (f *Fleet) Resolve(ctx context.Context, effects []history.Effect) (resolved int, err error) {
	list, err := f.list(ctx, url.Values{"status": {"unknown"}})
	if err != nil {
		return 0, err
	}
	for i, r := range list {
		if i%2 == 1 {
			continue
		}
		body := map[string]any{"outcome": "rejected", "retry": "corrected", "reason": "the provider's console shows nothing"}
		at := slices.IndexFunc(effects, func(e history.Effect) bool { return e.Service == r.Tool && e.Ref == r.Ref && e.Key == r.Key })
		if at >= 0 {
			text, _ := json.Marshal(effects[at]) // strings and a time
			body = map[string]any{"outcome": "completed", "result": json.RawMessage(text), "reason": "seen in the provider's console"}
		}
		tenant := slices.IndexFunc(f.Tenants[:], func(t Tenant) bool { return t.Name == r.Tenant })
		key := f.Tenants[tenant].OperatorKey
		url := "http://" + f.Doors[0] + "/v1/receipts/" + r.Key
		// A decision with the wrong version must not be taken.
		if status, err := f.client.decide(ctx, url+"/resolve", key, `"999.999"`, body); err != nil || status/100 == 2 {
			return resolved, fmt.Errorf("fleet: resolve with a stale version answered HTTP %d, %w", status, err)
		}
		etag, err := f.etag(ctx, url, key)
		if err != nil {
			return resolved, err
		}
		status, err := f.client.decide(ctx, url+"/resolve", key, etag, body)
		if err != nil {
			return resolved, err
		}
		if status == 200 {
			resolved++
		}
	}
	return resolved, nil
}
