package postgres_test

import (
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/latchkey-gateway/latchkey/intentstore/intentstoretest"
	"github.com/latchkey-gateway/latchkey/intentstore/postgres"
)

// TestListUsesIndexes looks at the plans of the lists that people and reconcilers wait for,
// on a table of which a tenant, a run and what waits are a small part.
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
	exec(t, c, "UPDATE intents SET status = 'unknown', retry = 'never', unknown_since = started_at, next_check = created_at WHERE tenant = 'tenant-7' AND get_byte(key, 0) < 8")
	exec(t, c, "UPDATE intents SET doubt = 'contradicted', notify_at = created_at WHERE tenant = 'tenant-8' AND get_byte(key, 0) < 8")
	exec(t, c, "ANALYZE intents")
	list := func(set map[int]any) []any {
		args := []any{pgx.QueryExecModeExec, "tenant-7", nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, 51, nil}
		for i, v := range set {
			args[i] = v
		}
		return args
	}
	for _, look := range []struct {
		name, file string
		args       []any
		indexes    []string
	}{
		{"a tenant's", "list", list(nil), []string{"intents_tenant"}},
		{"a run's", "list", list(map[int]any{2: "run-7"}), []string{"intents_run"}},
		{"for attention", "list", list(map[int]any{15: true}), []string{"intents_attention"}},
		{"due", "due", []any{pgx.QueryExecModeExec, at, 10}, []string{"intents_check", "intents_notify", "intents_pkey"}},
		{"open", "open", []any{pgx.QueryExecModeExec, "tenant-7"}, []string{"intents_attention"}},
	} {
		query, err := os.ReadFile("queries/" + look.file + ".sql")
		must(t, err)
		rows, err := c.Query(t.Context(), "EXPLAIN "+string(query), look.args...)
		must(t, err)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		must(t, err)
		for _, index := range look.indexes {
			if text := strings.Join(plan, "\n"); !strings.Contains(text, index) {
				t.Errorf("the list %s does not use %s:\n%s", look.name, index, text)
			}
		}
	}
}
