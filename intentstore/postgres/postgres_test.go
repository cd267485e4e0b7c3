package postgres_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
	"github.com/latchkey-gateway/latchkey/intentstore/intentstoretest"
	"github.com/latchkey-gateway/latchkey/intentstore/postgres"
)

func TestSmoke(t *testing.T) {
	dsn := intentstoretest.Postgres(t)
	if err := postgres.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), postgres.Options{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := intent.Receipt{Tenant: "acme", Tool: "x", Class: intent.Effectful, Durability: intent.Durable, Status: intent.Started, Retry: intent.RetryNever,
		Fence: 1, Version: 1, Executions: 1, CreatedAt: time.Now(), StartedAt: time.Now()}
	rand.Read(r.Key[:])
	rand.Read(r.ClaimID[:])
	r.Guard = intent.Guard(r.Key)
	b, err := s.Begin(t.Context(), r)
	if err != nil || !b.Mine {
		t.Fatal(b, err)
	}
	b, err = s.Begin(t.Context(), r)
	if err != nil || !b.Mine {
		t.Fatal(b, err)
	}
	m := r.CompleteMove("downstream", &intent.Outcome{HTTPStatus: 200, Body: []byte("{}")}, time.Now())
	row, err := s.Settle(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(row)
	row, err = s.Settle(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	rows, next, err := s.List(t.Context(), intentstore.Query{Tenant: "acme", Q: r.Key.String()[:32]})
	t.Log(rows, next, err)
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
}
