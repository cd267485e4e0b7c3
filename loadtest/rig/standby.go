package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// PostgresNode is one of two PostgreSQL servers on which the roles of primary and standby
// change.
type PostgresNode struct {
	*Process
	Name string
	Addr string
	rig  *Rig
	data string
}

// standbyConfig: a commit is acknowledged when the standby has it on disk, too. What a
// rewound primary would need is kept short, since it is copied anew instead.
var standbyConfig = []string{
	"wal_level=replica", "max_wal_senders=8", "hot_standby=on", "wal_keep_size=64MB", "max_connections=100",
	"unix_socket_directories=", "wal_receiver_status_interval=1s", "wal_sender_timeout=5s", "wal_receiver_timeout=5s",
	"synchronous_commit=on", "shared_buffers=128MB", "wal_retrieve_retry_interval=100ms", "log_min_messages=warning",
}

// StartPostgresAlone starts a server that can be killed and started again.
func (r *Rig) StartPostgresAlone(ctx context.Context) (*PostgresNode, error) {
	bin, as, data, err := r.postgresDir("postgres-1")
	if err != nil {
		return nil, err
	}
	if err := r.runAs(ctx, as, filepath.Join(bin, "initdb"), "-D", data, "-U", "latchkey",
		"-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"); err != nil {
		return nil, err
	}
	n, err := r.postgresNode("postgres-1", data)
	if err != nil {
		return nil, err
	}
	return n, n.Restart(ctx)
}

// StartPostgresPair starts a primary and its synchronous standby.
func (r *Rig) StartPostgresPair(ctx context.Context) (primary, standby *PostgresNode, err error) {
	if primary, err = r.StartPostgresAlone(ctx); err != nil {
		return nil, nil, err
	}
	if standby, err = r.postgresNode("postgres-2", r.path("postgres-2")); err != nil {
		return nil, nil, err
	}
	if err := standby.Follow(ctx, primary); err != nil {
		return nil, nil, err
	}
	return primary, standby, primary.Synchronous(ctx, true)
}

func (r *Rig) postgresNode(name, data string) (*PostgresNode, error) {
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	return &PostgresNode{Name: name, Addr: addr, rig: r, data: data}, nil
}

// Restart starts a node that has ended, with the data that it has, and waits until it
// answers.
func (n *PostgresNode) Restart(ctx context.Context) error {
	bin, err := PostgresBin()
	if err != nil {
		return err
	}
	as, err := unprivileged()
	if err != nil {
		return err
	}
	_ = os.Remove(filepath.Join(n.data, "postmaster.pid")) // of a killed one, whose number may be somebody else's now
	host, port, _ := net.SplitHostPort(n.Addr)
	args := []string{"-D", n.data, "-c", "listen_addresses=" + host, "-p", port}
	for _, c := range standbyConfig {
		args = append(args, "-c", c)
	}
	n.Process, err = n.rig.Start(Spec{Name: n.Name, Path: filepath.Join(bin, "postgres"), As: as, Args: args,
		Stop: syscall.SIGINT, Die: syscall.SIGQUIT})
	if err != nil {
		return err
	}
	return await(ctx, n.Process, 60*time.Second, func(ctx context.Context) error { return n.Exec(ctx, "SELECT 1") })
}

// Follow makes the node, which must not run, a fresh copy of primary and its standby.
func (n *PostgresNode) Follow(ctx context.Context, primary *PostgresNode) error {
	if err := os.RemoveAll(n.data); err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	bin, as, _, err := n.rig.postgresDir(filepath.Base(n.data))
	if err != nil {
		return err
	}
	host, port, _ := net.SplitHostPort(primary.Addr)
	from := fmt.Sprintf("host=%s port=%s user=latchkey application_name=standby", host, port)
	if err := n.rig.runAs(ctx, as, filepath.Join(bin, "pg_basebackup"), "-D", n.data, "-d", from, "-R", "-X", "stream",
		"-c", "fast", "--no-sync"); err != nil {
		return err
	}
	if err := n.Restart(ctx); err != nil {
		return err
	}
	return await(ctx, n.Process, 60*time.Second, func(ctx context.Context) error {
		var streaming int
		if err := primary.query(ctx, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'", &streaming); err != nil {
			return err
		}
		if streaming == 0 {
			return errors.New("the standby does not stream yet")
		}
		return nil
	})
}

// Synchronous says whether commits wait for the standby from now on.
func (n *PostgresNode) Synchronous(ctx context.Context, on bool) error {
	names := map[bool]string{true: "*", false: ""}[on]
	// Without a standby this very statement must not wait for one.
	return n.Exec(ctx, "SET synchronous_commit = local", "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'", "SELECT pg_reload_conf()")
}

// Promote makes a standby the primary. Nobody follows it yet, so it commits alone.
func (n *PostgresNode) Promote(ctx context.Context) error {
	// A standby's settings are those that it was copied with: "*" would make it wait for
	// somebody who is not there.
	auto := filepath.Join(n.data, "postgresql.auto.conf")
	f, err := os.OpenFile(auto, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	_, err = f.WriteString("synchronous_standby_names = ''\n")
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	if err := n.Exec(ctx, "SELECT pg_reload_conf()", "SELECT pg_promote(true, 30)"); err != nil {
		return err
	}
	return await(ctx, n.Process, 30*time.Second, func(ctx context.Context) error {
		var standby bool
		if err := n.query(ctx, "SELECT pg_is_in_recovery()", &standby); err != nil {
			return err
		}
		if standby {
			return errors.New("still a standby")
		}
		return nil
	})
}

// Version is the server's.
func (n *PostgresNode) Version(ctx context.Context) (version string, err error) {
	err = n.query(ctx, "SELECT current_setting('server_version')", &version)
	return version, err
}

// Exec runs statements on one connection of its own.
func (n *PostgresNode) Exec(ctx context.Context, statements ...string) error {
	c, err := n.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	for _, s := range statements {
		if _, err := c.Exec(ctx, s); err != nil {
			return fmt.Errorf("rig: %s: %.40s: %w", n.Name, s, err)
		}
	}
	return nil
}

func (n *PostgresNode) query(ctx context.Context, sql string, to any) error {
	c, err := n.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	return c.QueryRow(ctx, sql).Scan(to)
}

func (n *PostgresNode) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	return pgx.Connect(ctx, PostgresDSN(n.Addr))
}

// PostgresDSN is the address of the database that answers on these, the one that takes
// writes if they are several.
func PostgresDSN(addrs ...string) string {
	dsn := "postgres://latchkey@" + strings.Join(addrs, ",") + "/postgres?sslmode=disable"
	if len(addrs) > 1 {
		dsn += "&target_session_attrs=read-write&connect_timeout=2"
	}
	return dsn
}
