// Package sqlite keeps intents in one SQLite file: the embedded default. There is nothing
// to install; one process has the file, and one connection writes to it. Whatever has
// gathered while the last transaction was being synced goes into the next one, so many
// calls share an fsync, and what was acknowledged survives a kill or a power cut (WAL,
// synchronous=FULL).
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"sync"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/latchkey-gateway/latchkey/intentstore"
	"github.com/latchkey-gateway/latchkey/intentstore/group"
)

// Memory is the path of a store that keeps nothing, for tests.
const Memory = ":memory:"

// Options of Open.
type Options struct {
	// Path of the database file, made if it is not there; Memory keeps nothing. Needed.
	Path string
	// Batch bounds the rows of one transaction: 256.
	Batch int
	// OnBatch is told the rows of each batch, for a metric; it must not block.
	OnBatch func(rows int)
}

// Store implements intentstore.Store, Keeper, Journal and Desk.
type Store struct {
	options Options
	writes  *sql.DB // one connection
	reads   *sql.DB // the same one where the store is in memory
	writer  *group.Writer[*op]
	prepared
	close func() error
}

var (
	_ intentstore.Store   = (*Store)(nil)
	_ intentstore.Keeper  = (*Store)(nil)
	_ intentstore.Journal = (*Store)(nil)
	_ intentstore.Desk    = (*Store)(nil)
)

// Open opens the file and brings its tables to this version's state.
func Open(ctx context.Context, o Options) (*Store, error) {
	s, err := open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("intentstore/sqlite: %w", err)
	}
	return s, nil
}

// Migrate brings the tables of a file to this version's state, as Open does.
func Migrate(ctx context.Context, path string) error {
	s, err := Open(ctx, Options{Path: path})
	if err != nil {
		return err
	}
	return s.Close()
}

func open(ctx context.Context, o Options) (_ *Store, err error) {
	s := &Store{options: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.disconnect())
		}
	}()
	if s.writes, err = connect(o.Path, "_pragma=synchronous(FULL)&_txlock=immediate", 1); err != nil {
		return nil, err
	}
	if err = migrate(ctx, s.writes); err != nil {
		return nil, err
	}
	if s.reads = s.writes; o.Path != Memory {
		if s.reads, err = connect(o.Path, "_pragma=query_only(1)", 4); err != nil {
			return nil, err
		}
	}
	if err = s.prepare(ctx, s.writes); err != nil {
		return nil, err
	}
	s.writer = group.New(group.Options{Max: o.Batch}, (*op).weight, s.batch)
	s.close = sync.OnceValue(func() error {
		s.writer.Close()
		return s.disconnect()
	})
	return s, nil
}

// connect opens a pool. Waiting five seconds for a lock is only ever needed when a second
// process has the file open, such as one that reads it.
func connect(path, parameters string, connections int) (*sql.DB, error) {
	dsn := path
	if path != Memory {
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		dsn = (&url.URL{Scheme: "file", Path: filepath.ToSlash(abs)}).String()
	}
	db, err := sql.Open("sqlite", dsn+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&"+parameters)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections) // in memory, a closed connection is a lost database
	return db, nil
}

//go:embed migrations/*.sql
var migrations embed.FS

func migrate(ctx context.Context, db *sql.DB) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files,
		goose.WithLogger(goose.NopLogger()), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	return err
}

// Close implements intentstore.Keeper: pending batches end first.
func (s *Store) Close() error { return s.close() }

func (s *Store) disconnect() error {
	var errs []error
	for _, db := range []*sql.DB{s.reads, s.writes} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}
