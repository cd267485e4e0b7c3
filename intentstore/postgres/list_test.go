package postgres_test

import (
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/latchkey-gateway/latchkey/intentstore/intentstoretest"
	"github.com/latchkey-gateway/latchkey/intentstore/postgres"
)

// TestListUsesIndexes looks at the plans of the lists that people wait for, as the store
// has them planned, on a table of which a tenant and a run are a small part.
func TestListUsesIndexes(t *testing.T) {
	t.Parallel()
	dsn := intentstoretest.Postgres(t)
	must(t, postgres.Migrate(t.Context(), dsn))
	s := open(t, postgres.Options{DSN: dsn})
	must(t, mine(s.Begin(t.Context(), started(1, 1))))
	c := connect(t, dsn)
	exec(t, c, `INSERT INTO intents (key, guard, fingerprint, tenant, tool, class, durability, run_id, step_id, occurrence, status, retry, retry_after,
			reason, fence, version, claim_id, attempts, executions, created_at, started_at, traceparent, replica, region)
		SELECT sha256(n::text::bytea), sha256(n::text::bytea), fingerprint, 'tenant-' || n % 100, tool, class, durability, 'run-' || n % 5000, step_id, 0, status, retry, 0,
			'', 1, 1, claim_id, 0, 1, created_at + n * interval '1 second', started_at, traceparent, replica, region
		FROM intents, generate_series(1, 20000) n`)
	exec(t, c, "ANALYZE intents")
	query, err := os.ReadFile("queries/list.sql")
	must(t, err)
	for name, want := range map[string]string{"": "intents_tenant", "run-7": "intents_run"} {
		args := []any{pgx.QueryExecModeExec, "tenant-7", nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, 51, nil}
		if name != "" {
			args[2] = name
		}
		rows, err := c.Query(t.Context(), "EXPLAIN "+string(query), args...)
		must(t, err)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		must(t, err)
		if text := strings.Join(plan, "\n"); !strings.Contains(text, want) {
			t.Errorf("the list of run %q does not use %s:\n%s", name, want, text)
		}
	}
}
