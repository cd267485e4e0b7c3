// Package intentstoretest holds the one suite that every intent store must pass, and the
// real PostgreSQL servers that tests run on.
package intentstoretest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// Full is everything an implementation provides.
type Full interface {
	intentstore.Store
	intentstore.Keeper
	intentstore.Journal
	intentstore.Desk
}

// Exercise runs the suite. open returns an empty store; the test that opened it closes it.
// Most tests share one store and keep apart by tenant and key, as tenants do.
func Exercise(t *testing.T, open func(t *testing.T) Full) {
	t.Helper()
	shared := open(t)
	t.Run("shared", func(t *testing.T) { // returns when all of its parallel tests have
		for _, group := range [][]test{beginTests, againTests, settleTests, archiveTests, fidelityTests, listTests, journalTests, racingTests,
			deskTests, watchTests, deskRacingTests} {
			for _, test := range group {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					test.run(newBench(t, shared))
				})
			}
		}
	})
	if err := shared.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	for _, test := range slices.Concat(keeperTests, wholeDeskTests) { // these look at the whole store
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			defer s.Close()
			test.run(newBench(t, s))
		})
	}
}

type test struct {
	name string
	run  func(*bench)
}

// bench is one test's corner of a store: a tenant of its own, and keys made from it.
type bench struct {
	*testing.T
	s      Full
	ctx    context.Context
	tenant string
	count  atomic.Int64
}

var epoch = time.Date(2026, 11, 30, 12, 0, 0, 123456000, time.UTC)

func newBench(t *testing.T, s Full) *bench {
	return &bench{T: t, s: s, ctx: t.Context(), tenant: t.Name()}
}

// digest is a value that no other test and no other number gives.
func (b *bench) digest(what string, n int64) [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", b.tenant, what, n))
}

func (b *bench) claim() (id intent.ClaimID) {
	d := b.digest("claim", b.count.Add(1))
	copy(id[:], d[:])
	return id
}

// started is a fresh write-ahead of a key of its own.
func (b *bench) started() intent.Receipt {
	n := b.count.Add(1)
	r := intent.Receipt{
		Key: b.digest("key", n), Guard: b.digest("guard", n), Fingerprint: b.digest("fingerprint", n), ClaimID: b.claim(),
		Tenant: b.tenant, Tool: "send_invoice_email", Class: intent.Effectful, Durability: intent.Durable,
		RunID: fmt.Sprintf("run-%d", n), StepID: "7", Args: []byte(`{"invoice_id":"inv-1"}`),
		Status: intent.Started, Retry: intent.RetrySameKey, Fence: 1, Version: 1, Executions: 1,
		CreatedAt: epoch.Add(time.Duration(n) * time.Second), StartedAt: epoch.Add(time.Duration(n) * time.Second), SettleBy: epoch.Add(time.Hour),
		Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Replica: "replica-1", Region: "eu-west-1",
	}
	return r
}

// awaiting is a fresh write-ahead that waits for a person.
func (b *bench) awaiting() intent.Receipt {
	r := b.started()
	r.Status, r.Retry, r.Fence, r.Executions = intent.AwaitingApproval, intent.RetryNever, 1, 0
	r.StartedAt, r.SettleBy, r.Traceparent = time.Time{}, time.Time{}, ""
	return r
}

// begin must be Mine.
func (b *bench) begin(r intent.Receipt) intent.Receipt {
	b.Helper()
	got, err := b.s.Begin(b.ctx, r)
	if err != nil || !got.Mine {
		b.Fatalf("Begin: mine %v, error %v; want mine", got.Mine, err)
	}
	return got.Row
}

// refused must not be Mine, and must name the row of the key that stands in the way.
func (b *bench) refused(r intent.Receipt, standing intent.Key) intent.Receipt {
	b.Helper()
	got, err := b.s.Begin(b.ctx, r)
	if err != nil || got.Mine || got.Row.Key != standing {
		b.Fatalf("Begin: mine %v, row %s, error %v; want not mine, row %s", got.Mine, got.Row.Key.Short(), err, standing.Short())
	}
	return got.Row
}

// settle must be applied.
func (b *bench) settle(m intent.Settlement) intent.Receipt {
	b.Helper()
	r, err := b.s.Settle(b.ctx, m)
	if err != nil {
		b.Fatalf("Settle(%s): %v", m.Verb, err)
	}
	return r
}

func (b *bench) get(k intent.Key) intent.Receipt {
	b.Helper()
	r, err := b.s.Get(b.ctx, k)
	if err != nil {
		b.Fatalf("Get(%s): %v", k.Short(), err)
	}
	return r
}

// completed is a row that was begun and completed.
func (b *bench) completed() intent.Receipt {
	b.Helper()
	r := b.begin(b.started())
	return b.settle(r.CompleteMove("downstream", outcome(`{"id":"em_1"}`), r.StartedAt.Add(time.Second)))
}

// rejected is a row that was begun and rejected.
func (b *bench) rejected(retry intent.Retry) intent.Receipt {
	b.Helper()
	r := b.begin(b.started())
	return b.settle(r.RejectMove("downstream", retry, 0, "not_accepted", nil, false, r.StartedAt.Add(time.Second)))
}

func outcome(body string) *intent.Outcome {
	return &intent.Outcome{HTTPStatus: 200, Headers: map[string]string{"content-type": "application/json"}, Body: []byte(body)}
}

// same compares two receipts field by field; nil and empty bytes are the same bytes.
func (b *bench) same(what string, got, want intent.Receipt) {
	b.Helper()
	want.Durable = true // of a receipt read from a store, always
	g, w := reflect.ValueOf(plain(got)), reflect.ValueOf(plain(want))
	for i := range g.NumField() {
		if !reflect.DeepEqual(g.Field(i).Interface(), w.Field(i).Interface()) {
			b.Errorf("%s: %s is %+v, want %+v", what, g.Type().Field(i).Name, g.Field(i), w.Field(i))
		}
	}
	if !intentstore.SameOutcome(got.Outcome, want.Outcome) {
		b.Errorf("%s: Outcome is %+v, want %+v", what, got.Outcome, want.Outcome)
	}
	if b.Failed() {
		b.FailNow()
	}
}

func plain(r intent.Receipt) intent.Receipt {
	r.Args, r.Evidence = bytes.Clone(r.Args), bytes.Clone(r.Evidence)
	if len(r.Args) == 0 {
		r.Args = nil
	}
	if len(r.Evidence) == 0 {
		r.Evidence = nil
	}
	if len(r.Sealed) == 0 {
		r.Sealed = nil
	}
	if len(r.ApprovedBy) == 0 {
		r.ApprovedBy = nil
	}
	for _, t := range []*time.Time{&r.CreatedAt, &r.StartedAt, &r.SettleBy, &r.UnknownSince, &r.SettledAt, &r.NextCheck, &r.NotifyAt} {
		*t = intent.Micros(*t)
	}
	r.Outcome = nil // compared apart
	return r
}
