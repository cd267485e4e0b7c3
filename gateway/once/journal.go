package once

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// Journal bounds: rows that wait, rows in one write, and how long a row may wait.
const (
	journalBuffer = 1 << 14
	journalBatch  = 2048
	journalEvery  = 200 * time.Millisecond
)

// journal writes arrivals in batches, off the hot path. It is a list for people; when it
// is full or the store is down, rows are dropped and counted, and no call waits.
type journal struct {
	to      intentstore.Journal
	log     *slog.Logger
	rows    chan intent.Attempt
	flushes chan chan struct{}
	closed  chan struct{}
	dropped atomic.Int64
}

func (j *journal) init(to intentstore.Journal, log *slog.Logger) {
	j.to, j.log = to, log
	j.rows, j.flushes, j.closed = make(chan intent.Attempt, journalBuffer), make(chan chan struct{}), make(chan struct{})
}

func (j *journal) add(r Request, key intent.Key, a Answer, replica, region string) {
	if a.Decision == intent.StepConflict {
		key = a.Err.Earlier // listed where an SRE looks: with the call that it collided with
	}
	select {
	case j.rows <- intent.Attempt{
		Key: key, Tenant: r.Tenant, Tool: r.Tool.Name, At: intent.Micros(time.Now()), Decision: a.Decision,
		TraceID: r.Span.TraceID(), SpanID: r.Span.SpanID(), Replica: replica, Region: region, Credential: r.Credential,
	}:
	default:
		j.dropped.Add(1)
	}
}

// Unlisted is how many arrivals the journal does not list: it was full, or the store was down.
func (e *Engine) Unlisted() int64 { return e.journal.dropped.Load() }

// flush writes what this replica has gathered, so that a reader sees it.
func (j *journal) flush(ctx context.Context) {
	done := make(chan struct{})
	select {
	case j.flushes <- done:
	case <-j.closed:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func (j *journal) close() {
	select {
	case <-j.closed:
	default:
		close(j.closed)
	}
}

func (j *journal) run() {
	tick := time.NewTicker(journalEvery)
	defer tick.Stop()
	batch := make([]intent.Attempt, 0, journalBatch)
	write := func() {
		if len(batch) == 0 {
			return
		}
		if err := j.to.Record(context.Background(), batch); err != nil {
			j.dropped.Add(int64(len(batch)))
			j.log.Warn("attempts were not recorded", "rows", len(batch), "dropped_in_all", j.dropped.Load(), "error", err)
		}
		batch = batch[:0]
	}
	drain := func() {
		for {
			select {
			case a := <-j.rows:
				if batch = append(batch, a); len(batch) == journalBatch {
					write()
				}
			default:
				write()
				return
			}
		}
	}
	for {
		select {
		case a := <-j.rows:
			if batch = append(batch, a); len(batch) == journalBatch {
				write()
			}
		case <-tick.C:
			write()
		case done := <-j.flushes:
			drain()
			close(done)
		case <-j.closed:
			drain()
			return
		}
	}
}
