package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrate brings the tables to this version's state. Replicas may call it all at once, and
// old ones may be serving meanwhile: migrations only add. The role needs CREATE.
func Migrate(ctx context.Context, dsn string) error {
	if err := migrate(ctx, dsn); err != nil {
		return fmt.Errorf("intentstore/postgres: migrate: %w", err)
	}
	return nil
}

func migrate(ctx context.Context, dsn string) error {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return err
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithLogger(goose.NopLogger()), goose.WithDisableGlobalRegistry(true), goose.WithLocker(new(rowLock)))
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	return err
}

// rowLock lets one replica migrate at a time by holding a row lock, which unlike an
// advisory lock every Postgres-compatible cluster has. It goes with its connection, so a
// replica that dies while migrating locks nobody out.
type rowLock struct {
	tx *sql.Tx
}

// Lock implements goose's Locker.
func (l *rowLock) Lock(ctx context.Context, db *sql.DB) error {
	for {
		err := prepareLock(ctx, db)
		if err == nil {
			break
		}
		// Creating the same table twice at once fails with one of these although IF NOT
		// EXISTS was said; asked again, it is there.
		switch sqlState(err) {
		case uniqueViolation, duplicateTable, duplicateObject, serializationFailure:
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	var one int
	if err := tx.QueryRowContext(ctx, `SELECT one FROM latchkey_migration WHERE one = 1 FOR UPDATE`).Scan(&one); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	l.tx = tx
	return nil
}

func prepareLock(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS latchkey_migration (one bigint PRIMARY KEY)`); err != nil {
		return err
	}
	_, err := db.ExecContext(ctx, `INSERT INTO latchkey_migration (one) VALUES (1) ON CONFLICT DO NOTHING`)
	return err
}

// Unlock implements goose's Locker.
func (l *rowLock) Unlock(context.Context, *sql.DB) error { return l.tx.Rollback() }
