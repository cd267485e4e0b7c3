package main

import (
	"bytes"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestTenThousandDuplicates: one key, 10,000 callers at once over three replicas while the
// downstream takes its time: one effect, 10,000 times the same receipt.
func TestTenThousandDuplicates(t *testing.T) {
	if testing.Short() {
		t.Skip("10,000 connections")
	}
	s := newSystem(t, 3)
	const n = 10_000
	release := make(chan struct{})
	s.ledger.set(func(int, http.ResponseWriter, *http.Request) bool { <-release; return false })

	var sent, answered atomic.Int64
	var mu sync.Mutex
	distinct, decided := map[string]int{}, 0
	trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { sent.Add(1) }}
	var callers sync.WaitGroup
	for i := range n {
		callers.Go(func() {
			defer answered.Add(1)
			ctx := httptrace.WithClientTrace(t.Context(), trace)
			r, err := s.replicas[i%3].do(ctx, "key-a", "POST", "/v1/tools/patient/calls", callBody("1"))
			for range 5 {
				if err == nil && r.code != http.StatusServiceUnavailable {
					break
				}
				// A connection or a lease that an overloaded machine gave up on: the caller asks
				// again, which is what all this is for.
				r, err = s.replicas[i%3].do(ctx, "key-a", "POST", "/v1/tools/patient/calls", callBody("1"))
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("caller %d: %v", i, err)
				return
			}
			if r.header.Get("Idempotent-Replayed") == "false" {
				decided++
			}
			distinct[string(bytes.Replace(r.body, []byte(`"replayed":false`), []byte(`"replayed":true`), 1))]++
		})
	}
	for sent.Load() < n && answered.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	close(release)
	callers.Wait()
	if len(distinct) != 1 {
		t.Errorf("%d distinct receipts among %d answers", len(distinct), n)
	}
	for body, times := range distinct {
		if times != n {
			t.Errorf("%d times: %s", times, body)
		}
	}
	if decided != 1 {
		t.Errorf("%d callers were told that theirs was the execution", decided)
	}
	s.ledger.want(t, 1)
}

// TestTenantsShareNothing: the same run, step, tool and arguments of two tenants are two
// intentions, and neither sees the other's receipt.
func TestTenantsShareNothing(t *testing.T) {
	s := newSystem(t, 1)
	p := s.replicas[0]
	a := p.call("mail", "1")
	b, err := p.do(t.Context(), "key-b", "POST", "/v1/tools/mail/calls", callBody("1"))
	if err != nil {
		t.Fatal(err)
	}
	a.want(t, "acme", 200, "completed", "never")
	b.want(t, "globex", 200, "completed", "never")
	if b.receipt.Replayed || a.receipt.Key == b.receipt.Key {
		t.Error("two tenants share a receipt")
	}
	s.ledger.want(t, 2)
	for _, path := range []string{"/v1/receipts/" + a.receipt.Key, "/v1/receipts/" + a.receipt.Key + "/attempts"} {
		if r, err := p.do(t.Context(), "key-b", "GET", path, ""); err != nil || r.code != http.StatusNotFound {
			t.Errorf("globex gets %s: %d, %v", path, r.code, err)
		}
	}
}
