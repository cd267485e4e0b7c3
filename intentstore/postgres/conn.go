package postgres

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// poolConfig reads the DSN and adds what the promise rests on: no cancel request ever, and
// no connection kept to a server that may not write.
func poolConfig(o Options) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(o.DSN)
	if err != nil {
		return nil, err
	}
	config.MaxConns = o.MaxConns
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, plannerSQL, pgx.QueryExecModeExec)
		if sqlState(err) != "" {
			return nil // a cluster with another planner does without
		}
		return err
	}
	c := config.ConnConfig
	if c.ConnectTimeout == 0 || c.ConnectTimeout > o.Timeout {
		c.ConnectTimeout = o.Timeout / 2 // so that an ambiguous commit leaves time for another host
	}
	if _, ok := c.RuntimeParams["application_name"]; !ok {
		c.RuntimeParams["application_name"] = "latchkey"
	}
	neverCancel(&c.Config)
	c.OnNotice = onNotice
	c.OnPgError = func(_ *pgconn.PgConn, e *pgconn.PgError) bool {
		// A demoted primary answers 25006 for ever; a new connection finds the new one.
		return !fatal(e) && e.Code != readOnly
	}
	return config, nil
}

// neverCancel keeps pgx from sending a CancelRequest, which it does whenever it gives up a
// connection, after a time-out above all. PostgreSQL would then stop waiting for its
// synchronous standby and keep a row that the standby does not have. pgx dials the address
// that the connection says it has; these say one of our own, and dialling it closes the
// connection instead. The statement goes on at the server, to its end.
func neverCancel(c *pgconn.Config) {
	var open sync.Map // address -> net.Conn
	var count atomic.Int64
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if network == uncancellable {
			if conn, ok := open.Load(addr); ok {
				conn.(net.Conn).Close()
			}
			return nil, errNoCancel
		}
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		at := address(strconv.FormatInt(count.Add(1), 10))
		open.Store(string(at), conn)
		return &addressed{Conn: conn, at: at, closed: func() { open.Delete(string(at)) }}, nil
	}
}

const uncancellable = "uncancellable"

var errNoCancel = errors.New("statements are never cancelled")

// addressed is a connection under an address of our own.
type addressed struct {
	net.Conn
	at     address
	closed func()
}

func (c *addressed) RemoteAddr() net.Addr { return c.at }

func (c *addressed) Close() error {
	c.closed()
	return c.Conn.Close()
}

type address string

func (address) Network() string  { return uncancellable }
func (a address) String() string { return string(a) }

// doubtKey marks a connection whose last commit may be missing on the standby.
const doubtKey = "latchkey.doubt"

// onNotice sees the one warning that makes an acknowledged commit ambiguous: somebody
// cancelled its wait for the synchronous standby. The routine's name is the same in every
// language of the server's messages.
func onNotice(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.Routine == "SyncRepWaitForLSN" || strings.Contains(n.Message, "wait for synchronous replication") {
		c.CustomData()[doubtKey] = true
	}
}

// SQLSTATEs that decide what an error means.
const (
	readOnly               = "25006"
	uniqueViolation        = "23505"
	insufficientPrivilege  = "42501"
	duplicateTable         = "42P07"
	duplicateObject        = "42710"
	serializationFailure   = "40001"
	deadlockDetected       = "40P01"
	completionUnknown      = "40003"
	cachedPlanChanged      = "0A000"
	classConnection        = "08"
	classData              = "22"
	classIntegrity         = "23"
	classProgramLimit      = "54"
	severityFatal          = "FATAL"
	severityPanic          = "PANIC"
	undefinedPreparedState = "26000"
)

func fatal(e *pgconn.PgError) bool {
	severity := e.SeverityUnlocalized
	if severity == "" {
		severity = e.Severity
	}
	return severity == severityFatal || severity == severityPanic
}

// doubtful says whether the statement behind an error may have been committed. Only an
// ERROR that the server itself reported, or a failure before anything was sent, proves that
// it was not.
func doubtful(err error) bool {
	if err == nil {
		return false
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return fatal(e) || e.Code == completionUnknown || strings.HasPrefix(e.Code, classConnection)
	}
	return !pgconn.SafeToRetry(err)
}

// transient errors rolled the statement back and say that it may be run again.
func transient(err error) bool {
	switch sqlState(err) {
	case serializationFailure, deadlockDetected, cachedPlanChanged, undefinedPreparedState:
		return true
	}
	return false
}

// rowsFault says that one row of the batch is to blame.
func rowsFault(err error) bool {
	switch code := sqlState(err); {
	case strings.HasPrefix(code, classData), strings.HasPrefix(code, classIntegrity), strings.HasPrefix(code, classProgramLimit):
		return true
	}
	return false
}

func sqlState(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && !fatal(e) {
		return e.Code
	}
	return ""
}
