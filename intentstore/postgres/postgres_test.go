package postgres_test

import (
	"testing"

	"github.com/latchkey-gateway/latchkey/intentstore/intentstoretest"
	"github.com/latchkey-gateway/latchkey/intentstore/postgres"
)

func TestStore(t *testing.T) {
	t.Parallel()
	intentstoretest.Exercise(t, func(t *testing.T) intentstoretest.Full { return open(t, postgres.Options{}) })
}

// open returns a store on a fresh database, or on the one that the options name.
func open(t testing.TB, o postgres.Options) *postgres.Store {
	t.Helper()
	if o.DSN == "" {
		o.DSN = intentstoretest.Postgres(t)
		if err := postgres.Migrate(t.Context(), o.DSN); err != nil {
			t.Fatal(err)
		}
	}
	s, err := postgres.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
