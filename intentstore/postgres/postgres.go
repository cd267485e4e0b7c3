// Package postgres keeps intents in PostgreSQL, or in a cluster that speaks its protocol.
//
// Life of a write-ahead: Begin checks the row and puts it into the one group-commit writer;
// whatever has gathered goes out as one INSERT and one UPDATE in one round trip and one
// commit; rows that the insert left out are read by a second statement. A commit whose
// acknowledgement is missing is resolved, never guessed (see Begin).
//
// What it needs of the server: unique indexes, ON CONFLICT DO NOTHING, READ COMMITTED or
// stricter. It needs no advisory locks, no SKIP LOCKED, no LISTEN, and of its role no more
// than
//
//	GRANT SELECT, INSERT, UPDATE ON intents, counts TO latchkey;
//	GRANT SELECT, INSERT ON executions, attempts, audit TO latchkey;
//	GRANT SELECT, UPDATE ON heartbeat TO latchkey;
//
// With these, tombstones are kept for ever and nobody who holds the role can change what the
// audit says. A role that may DELETE from intents, executions and attempts forgets old
// tombstones, and their entries in the audit only if it may DELETE from audit too.
package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/latchkey-gateway/latchkey/intentstore"
	"github.com/latchkey-gateway/latchkey/intentstore/group"
)

// Options of Open. Zero fields take the defaults.
type Options struct {
	// DSN is a libpq connection string or URL. Several hosts with
	// target_session_attrs=read-write follow a failover. Needed.
	DSN string
	// MaxConns bounds the pool. Few are needed, because writes travel in batches: 8.
	MaxConns int32
	// Timeout bounds one operation, with the resolution of an ambiguous commit: 5 s. One
	// statement gets 2/5 of it, so that there is time to ask again.
	Timeout time.Duration
	// Batch bounds the rows of one commit: 256.
	Batch int
	// Flights is how many batches are in flight at once: 1.
	Flights int
	// Linger is how long a batch waits for more where several wait already: 1 ms, and
	// negative not at all. A few calls never linger.
	Linger time.Duration
	// OnBatch is told the rows of each batch, for a metric; it must not block.
	OnBatch func(rows int)
}

func (o *Options) defaults() {
	if o.MaxConns <= 0 {
		o.MaxConns = 8
	}
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	if o.Linger == 0 {
		o.Linger = time.Millisecond
	}
	o.Flights = max(o.Flights, 1)
	o.MaxConns = max(o.MaxConns, int32(o.Flights)+2) // the flights' and some for reading
}

// Store implements intentstore.Store, Keeper, Journal and Desk.
type Store struct {
	options Options
	pool    *pgxpool.Pool
	writer  *group.Writer[*op]
	close   func()
}

var (
	_ intentstore.Store   = (*Store)(nil)
	_ intentstore.Keeper  = (*Store)(nil)
	_ intentstore.Journal = (*Store)(nil)
	_ intentstore.Desk    = (*Store)(nil)
)

// Open prepares a store; the tables must be there (Migrate). It connects lazily: a server
// that is down now is an error of the first call, not of Open. ctx bounds Open alone.
func Open(ctx context.Context, o Options) (*Store, error) {
	o.defaults()
	config, err := poolConfig(o)
	if err != nil {
		return nil, fmt.Errorf("intentstore/postgres: %w", err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("intentstore/postgres: %w", err)
	}
	s := &Store{options: o, pool: pool}
	s.writer = group.New(group.Options{Max: o.Batch, Flights: o.Flights, Linger: o.Linger}, (*op).weight, s.batch)
	s.close = sync.OnceFunc(func() {
		s.writer.Close()
		s.pool.Close()
	})
	return s, nil
}

// Close implements intentstore.Keeper: pending batches end first, each within its time-out.
func (s *Store) Close() error {
	s.close()
	return nil
}
