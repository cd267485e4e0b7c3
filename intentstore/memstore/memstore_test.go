package memstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore/intentstoretest"
	"github.com/latchkey-gateway/latchkey/intentstore/memstore"
)

func TestStore(t *testing.T) {
	t.Parallel()
	intentstoretest.Exercise(t, func(*testing.T) intentstoretest.Full { return memstore.New() })
}

// TestFaults breaks one call after the other: refused means not applied, lost means applied.
func TestFaults(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	r := intent.Receipt{
		Key: intent.Key{1}, Guard: intent.Guard{1}, ClaimID: intent.ClaimID{1}, Tenant: "acme", Class: intent.Effectful, Durability: intent.Durable,
		Status: intent.Started, Retry: intent.RetrySameKey, Fence: 1, Version: 1, CreatedAt: at, StartedAt: at, Fingerprint: intent.Fingerprint{1},
	}
	s := memstore.New()
	next := memstore.Healthy
	s.SetFault(func(v memstore.Verb, k intent.Key) memstore.Fault {
		if (v == memstore.Begin || v == memstore.Settle) && k == r.Key {
			return next
		}
		return memstore.Healthy
	})
	next = memstore.Refused
	if _, err := s.Begin(t.Context(), r); !errors.Is(err, memstore.ErrInjected) {
		t.Errorf("refused Begin: %v", err)
	}
	if _, err := s.Get(t.Context(), r.Key); !errors.Is(err, intent.ErrNone) {
		t.Errorf("a refused Begin was applied: %v", err)
	}
	next = memstore.AnswerLost
	if b, err := s.Begin(t.Context(), r); !errors.Is(err, memstore.ErrInjected) || b.Mine {
		t.Errorf("lost Begin: mine %v, %v", b.Mine, err)
	}
	if row, err := s.Get(t.Context(), r.Key); err != nil || row.Status != intent.Started {
		t.Errorf("a lost Begin was not applied: %v", err)
	}
	if row, err := s.Settle(t.Context(), r.CompleteMove("downstream", nil, at)); !errors.Is(err, memstore.ErrInjected) || row.Key == r.Key {
		t.Errorf("lost Settle: %v", err)
	}
	next = memstore.Healthy
	if row, err := s.Settle(t.Context(), r.CompleteMove("downstream", nil, at)); err != nil || row.Version != 2 {
		t.Errorf("repeated Settle: version %d, %v; want it applied once", row.Version, err)
	}
}
