package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/latchkey-gateway/latchkey/intent"
)

// op is one row's part in a batch: a write-ahead, a settlement or an archived receipt;
// exactly one of the three is set.
type op struct {
	begin   *intent.Receipt
	settle  *intent.Settlement
	archive *intent.Receipt

	// The answer, set before done is closed.
	applied bool // the statement wrote this row; only meaningful without doubt
	written kept // settle: of the row as written
	doubt   bool // it may have been committed, or not on the standby
	err     error
	done    chan struct{}
}

// kept is what a move keeps, and which may have changed since the caller read the row: the
// version with a move, the others without one.
type kept struct {
	version uint64
	checks  int
	doubt   string
}

func keptOf(r *intent.Receipt) kept { return kept{r.Version, r.Checks, r.Doubt.String()} }

func (o *op) weight() int {
	n := 512
	if r := cmp.Or(o.begin, o.archive); r != nil {
		n += len(r.Args) + len(r.Evidence)
		if r.Outcome != nil {
			n += len(r.Outcome.Body)
		}
	}
	if o.settle != nil && o.settle.Outcome != nil {
		n += len(o.settle.Outcome.Body)
	}
	return n
}

func (o *op) key() (intent.Key, intent.Guard) {
	if o.settle != nil {
		return o.settle.Key, o.settle.Guard
	}
	r := cmp.Or(o.begin, o.archive)
	return r.Key, r.Guard
}

// order: rows lock in the order of the batch, so every batch of every replica has the same.
// Guards come first because two keys may fight over one guard; a key has one guard, so keys
// are in order as well.
func order(a, b *op) int {
	ak, ag := a.key()
	bk, bg := b.key()
	return cmp.Or(bytes.Compare(ag[:], bg[:]), bytes.Compare(ak[:], bk[:]))
}

var errClosed = errors.New("intentstore/postgres: the store is closed")

// submit puts the op into the next batch and waits for its answer. When the caller stops
// waiting, the batch goes on: the write may well be applied.
func (s *Store) submit(ctx context.Context, o *op) error {
	o.done = make(chan struct{})
	if !s.writer.Submit(o) {
		return errClosed
	}
	select {
	case <-o.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("intentstore/postgres: stopped waiting for the commit: %w", ctx.Err())
	}
}

// batch runs what the writer gathered.
func (s *Store) batch(ops []*op) {
	slices.SortStableFunc(ops, order)
	for len(ops) > 0 {
		now, crowded, later := apart(ops)
		s.write(now)
		s.countLosses(now)
		for _, o := range append(now, crowded...) {
			close(o.done)
		}
		ops = later
	}
}

// apart splits sorted ops into those that may share one statement now, and those that go
// later: a key settled twice in one statement is settled once, in no particular order.
//
// Of rows that begin under one guard or key only the first is inserted, so that a returned
// key names one op. The others are crowded out: they would lose to it, and their keys,
// tried while it holds the guard, could deadlock with a rejected row that acts again. They
// are answered as not applied; whoever asked reads what stands and may come again.
func apart(ops []*op) (now, crowded, later []*op) {
	now = make([]*op, 0, len(ops))
	settled := make(map[intent.Key]bool, len(ops))
	begun := make(map[intent.Digest]bool, 2*len(ops))
	for _, o := range ops {
		key, guard := o.key()
		switch {
		case o.settle != nil && settled[key]:
			later = append(later, o)
			continue
		case o.settle != nil:
			settled[key] = true
		case begun[intent.Digest(key)] || begun[intent.Digest(guard)]:
			crowded = append(crowded, o)
			continue
		default:
			begun[intent.Digest(key)], begun[intent.Digest(guard)] = true, true
		}
		now = append(now, o)
	}
	return now, crowded, later
}

// write runs one batch to a definite end or leaves its ops in doubt.
func (s *Store) write(ops []*op) {
	if s.options.OnBatch != nil {
		s.options.OnBatch(len(ops))
	}
	for try := range 6 {
		doubt, err := s.send(ops)
		switch {
		case err == nil || doubt:
		case transient(err) && try < 5:
			time.Sleep(rand.N(time.Duration(try+1) * 2 * time.Millisecond))
			continue
		case rowsFault(err) && len(ops) > 1:
			// CheckReceipt should have refused the row to blame. The others must not suffer.
			for i := range ops {
				s.write(ops[i : i+1])
			}
			return
		}
		for _, o := range ops {
			o.doubt, o.err = doubt, err
		}
		return
	}
}

// send is one round trip and one commit: inserts first, then updates. A batch therefore
// holds no row lock while it waits for another's insert.
func (s *Store) send(ops []*op) (doubt bool, err error) {
	var begins, archives []*intent.Receipt
	var settles []*intent.Settlement
	byKey := make(map[intent.Key]*op, len(ops))
	moved := make(map[intent.Key]*op, len(ops))
	for _, o := range ops {
		o.applied, o.written = false, kept{}
		switch {
		case o.begin != nil:
			begins, byKey[o.begin.Key] = append(begins, o.begin), o
		case o.archive != nil:
			archives, byKey[o.archive.Key] = append(archives, o.archive), o
		default:
			settles, moved[o.settle.Key] = append(settles, o.settle), o
		}
	}
	var b pgx.Batch
	if len(begins) > 0 {
		b.Queue(beginSQL, beginColumns(begins)...).Query(mark(byKey))
	}
	if len(archives) > 0 {
		b.Queue(archiveSQL, archiveColumns(archives)...).Query(mark(byKey))
	}
	if len(settles) > 0 {
		b.Queue(settleSQL, settleColumns(settles)...).Query(func(rows pgx.Rows) error {
			var raw []byte
			for rows.Next() {
				var k kept
				if err := rows.Scan(&raw, &k.version, &k.checks, &k.doubt); err != nil {
					return err
				}
				o := moved[intent.Key(raw)]
				o.applied, o.written = true, k
			}
			return rows.Err()
		})
	}
	return s.acknowledged(func(ctx context.Context, c *pgxpool.Conn) error {
		return c.SendBatch(ctx, &b).Close()
	})
}

// mark marks the ops whose keys an insert returned.
func mark(ops map[intent.Key]*op) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var k intent.Key
		var raw []byte
		for rows.Next() {
			if err := rows.Scan(&raw); err != nil {
				return err
			}
			copy(k[:], raw)
			ops[k].applied = true
		}
		return rows.Err()
	}
}

// acknowledged runs a write under the store's own time-out and says whether its outcome is
// in doubt. Without doubt, a nil error is an acknowledged commit and any other a write that
// did not happen.
func (s *Store) acknowledged(f func(context.Context, *pgxpool.Conn) error) (doubt bool, err error) {
	// Not the caller's context: a disconnect must not end a statement (DESIGN §4).
	ctx, cancel := s.bounded(context.Background())
	defer cancel()
	c, err := s.pool.Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer c.Release()
	marks := c.Conn().PgConn().CustomData()
	delete(marks, doubtKey)
	err = f(ctx, c)
	if _, marked := marks[doubtKey]; marked {
		return true, errors.Join(errNotReplicated, err)
	}
	return doubtful(err), err
}

var errNotReplicated = errors.New("the wait for the synchronous standby was cancelled")

// read runs a query under the store's own time-out, on one connection after the other: when
// a server goes, the pool is full of connections that do not know it yet.
func (s *Store) read(ctx context.Context, sql string, args ...any) (rows []intent.Receipt, err error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	for range s.options.MaxConns + 1 {
		rows, err = receipts(s.pool.Query(ctx, sql, args...))
		if !doubtful(err) || ctx.Err() != nil {
			break
		}
	}
	return rows, err
}

// bounded is the context of one statement: the caller's values, the store's time-out.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.options.Timeout*2/5)
}
