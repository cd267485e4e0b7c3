package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/history"
)

// Bounds of what is asked for after a run.
const (
	maxReplays = 2000
	maxDetails = 3000
)

// Collect reads how everything stands now and returns all that was seen. Before that it
// sends some acknowledged calls once more, long after the end: they must be answered as
// they were then.
func (f *Fleet) Collect(ctx context.Context, effects []history.Effect) (*history.Run, error) {
	run := &f.seen
	run.Effects = effects
	if f.Direct != "" {
		return run, nil
	}
	f.replay(ctx)
	receipts, err := f.list(ctx, url.Values{})
	if err != nil {
		return nil, err
	}
	left := maxDetails
	for i := range receipts {
		r := &receipts[i]
		unusual := r.Executions > 1 || r.Fence > 1 || r.SettledBy != "downstream" || !r.UnknownSince.IsZero() || r.Doubt != ""
		if left == 0 || !unusual && i%16 != 0 {
			continue
		}
		left--
		if err := f.details(ctx, r); err != nil {
			return nil, fmt.Errorf("fleet: details: %w", err)
		}
	}
	run.Receipts = receipts
	return run, nil
}

func (f *Fleet) replay(ctx context.Context) {
	rng := rand.New(rand.NewPCG(f.Seed, 0xf1a1))
	var acknowledged []history.Attempt
	for _, a := range f.seen.Attempts {
		if a.Status == "completed" && a.Key != "" {
			acknowledged = append(acknowledged, a)
		}
	}
	rng.Shuffle(len(acknowledged), func(i, j int) { acknowledged[i], acknowledged[j] = acknowledged[j], acknowledged[i] })
	for _, a := range acknowledged[:min(len(acknowledged), maxReplays)] {
		it := f.intent(a.Intent)
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		to, memo := history.Words(a.Wording)
		r := f.client.send(ctx, call{it: it, tenant: f.Tenants[it.Tenant], door: f.Doors[rng.IntN(len(f.Doors))], why: history.Final, to: to, memo: memo})
		cancel()
		f.record(r.Attempt)
	}
}

// etag reads the version that a decision is bound to.
func (f *Fleet) etag(ctx context.Context, url, bearer string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	resp, err := f.client.http.Do(req)
	if err != nil {
		return "", err
	}
	resp.Body.Close()
	return resp.Header.Get("ETag"), nil
}
