package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrMissing: a program that a rig needs is not installed.
var ErrMissing = errors.New("not installed")

// Postgres is a running PostgreSQL with an empty database.
type Postgres struct {
	*Process
	DSN     string
	Version string
}

// StartPostgres makes a new cluster and starts it with PostgreSQL's own defaults: what is
// committed is on disk (fsync, synchronous_commit and full_page_writes are on). As root it
// runs as user postgres, because the server refuses root.
func (r *Rig) StartPostgres(ctx context.Context) (*Postgres, error) {
	bin, as, data, err := r.postgresDir("postgres")
	if err != nil {
		return nil, err
	}
	// --no-sync: only the making of the cluster skips fsync, not its running.
	if err := r.runAs(ctx, as, filepath.Join(bin, "initdb"), "-D", data, "-U", "latchkey",
		"-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"); err != nil {
		return nil, err
	}
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(addr)
	p, err := r.Start(Spec{
		Name: "postgres", Path: filepath.Join(bin, "postgres"), As: as,
		Args: []string{"-D", data, "-c", "listen_addresses=" + host, "-p", port, "-c", "unix_socket_directories="},
		Stop: syscall.SIGINT,  // fast shutdown: does not wait for clients
		Die:  syscall.SIGQUIT, // immediate: its backends end too
	})
	if err != nil {
		return nil, err
	}
	pg := &Postgres{Process: p, DSN: fmt.Sprintf("postgres://latchkey@%s/postgres?sslmode=disable", addr)}
	return pg, await(ctx, p, 30*time.Second, func(ctx context.Context) error {
		c, err := pgx.Connect(ctx, pg.DSN)
		if err != nil {
			return err
		}
		defer c.Close(ctx)
		return c.QueryRow(ctx, "SELECT current_setting('server_version')").Scan(&pg.Version)
	})
}

// postgresDir makes an empty data directory for whom the server will run as.
func (r *Rig) postgresDir(name string) (bin string, as *User, data string, err error) {
	if bin, err = PostgresBin(); err != nil {
		return "", nil, "", err
	}
	if as, err = unprivileged(); err != nil {
		return "", nil, "", err
	}
	data = r.path(name)
	if err = os.Mkdir(data, 0o700); err == nil && as != nil {
		err = os.Chown(data, int(as.UID), int(as.GID))
	}
	if err != nil {
		return "", nil, "", fmt.Errorf("rig: %w", err)
	}
	return bin, as, data, nil
}

// runAs runs a program of PostgreSQL to its end.
func (r *Rig) runAs(ctx context.Context, as *User, path string, args ...string) error {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = r.Dir
	cmd.SysProcAttr = attributes(Spec{As: as, Die: syscall.SIGKILL})
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("rig: %s: %w\n%s", filepath.Base(path), err, out)
	}
	return nil
}

// Transactions returns how many transactions have written something. It counts transaction
// ids: the server's own statistics lag by seconds.
func (pg *Postgres) Transactions(ctx context.Context) (int64, error) {
	c, err := pgx.Connect(ctx, pg.DSN)
	if err != nil {
		return 0, fmt.Errorf("rig: postgres: %w", err)
	}
	defer c.Close(ctx)
	var next int64
	// Looking does not take an id itself.
	err = c.QueryRow(ctx, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").Scan(&next)
	if err != nil {
		return 0, fmt.Errorf("rig: postgres: %w", err)
	}
	return next, nil
}

// PostgresBin finds the folder with initdb and postgres: on the PATH, or where Debian and
// Ubuntu keep them, the newest version first. Without one the error is ErrMissing.
func PostgresBin() (string, error) {
	if p, err := exec.LookPath("initdb"); err == nil {
		// Where it is a link, its neighbours are with what it points to.
		if real, err := filepath.EvalSymlinks(p); err == nil {
			p = real
		}
		return filepath.Dir(p), nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is well formed
	if len(found) == 0 {
		return "", fmt.Errorf("rig: PostgreSQL's server (initdb) is %w", ErrMissing)
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(strings.Split(path, "/")[4])
		return n
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(newest), nil
}

// unprivileged is whom a server that refuses root shall run as; nil where this is not root.
func unprivileged() (*User, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("rig: PostgreSQL refuses to run as root, and user postgres is %w: %w", ErrMissing, err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("rig: user postgres: %w", err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("rig: user postgres: %w", err)
	}
	return &User{uint32(uid), uint32(gid)}, nil
}
