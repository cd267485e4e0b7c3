// Package load drives one HTTP server over a fixed number of keep-alive connections and
// measures it. It writes request bytes and parses answers by hand, because it shares the
// machine with what it measures: a client that costs as much as a proxy would hide it.
//
// It knows two models of arrivals. Closed: each connection sends its next request when it
// has the answer to the last; it finds the saturation rate. Open: requests are due at fixed
// instants whatever the server does, and latency counts from the instant a request was due,
// so a stall is charged to every request that it delays.
package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Traffic is what a run sends and what it takes for success. Any other answer, and any
// broken connection, ends the run with an error: nothing is retried.
type Traffic struct {
	// Request appends the complete request number seq to dst. It is called concurrently.
	Request func(dst []byte, seq int) []byte
	// Replayed is what Idempotent-Replayed must say; "" does not look at it.
	Replayed string
}

// Result is what a run measured.
type Result struct {
	Requests int
	Elapsed  time.Duration // from the first request to the last answer
	Latency  Latency
}

// Rate is in requests per second.
func (r Result) Rate() float64 { return float64(r.Requests) / r.Elapsed.Seconds() }

// Pool is a set of open connections to one server. A Pool runs one run at a time.
type Pool struct {
	conns []*conn
}

type conn struct {
	net.Conn
	r    *bufio.Reader
	out  []byte
	took []time.Duration
}

// Dial opens n connections to addr. The caller must Close the pool.
func Dial(ctx context.Context, addr string, n int) (*Pool, error) {
	p := &Pool{}
	var d net.Dialer
	for range n {
		c, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			p.Close()
			return nil, fmt.Errorf("load: %w", err)
		}
		p.conns = append(p.conns, &conn{Conn: c, r: bufio.NewReaderSize(c, 16<<10)})
	}
	return p, nil
}

// Close closes the connections.
func (p *Pool) Close() {
	for _, c := range p.conns {
		c.Conn.Close()
	}
}

// Closed sends the requests first to first+n-1, one in flight per connection.
func (p *Pool) Closed(ctx context.Context, t Traffic, first, n int) (Result, error) {
	var next atomic.Int64
	return p.run(ctx, n, func(c *conn) error {
		for {
			i := int(next.Add(1)) - 1
			if i >= n {
				return nil
			}
			if err := c.exchange(t, first+i, time.Now()); err != nil {
				return err
			}
		}
	})
}

// Open sends the requests first to first+n-1 at a fixed rate per second. A request that is
// due while every connection is busy waits for one, and its latency includes that wait.
func (p *Pool) Open(ctx context.Context, t Traffic, first, n int, rate float64) (Result, error) {
	type arrival struct {
		seq int
		due time.Time
	}
	if rate <= 0 {
		return Result{}, errors.New("load: an open run needs a rate")
	}
	arrivals := make(chan arrival, n) // never blocks the clock
	ticking, stop := context.WithCancel(ctx)
	defer stop()
	var clock sync.WaitGroup
	clock.Go(func() {
		defer close(arrivals)
		start := time.Now()
		for i := range n {
			due := start.Add(time.Duration(float64(i) / rate * float64(time.Second)))
			sleepUntil(due)
			if ticking.Err() != nil {
				return
			}
			arrivals <- arrival{first + i, due}
		}
	})
	res, err := p.run(ctx, n, func(c *conn) error {
		for a := range arrivals {
			if err := c.exchange(t, a.seq, a.due); err != nil {
				stop() // closes arrivals, so that no connection waits for more
				return err
			}
		}
		return nil
	})
	stop()
	clock.Wait()
	return res, err
}

// run gives every connection to work and gathers what they measured. The first failure, or
// the end of ctx, breaks every connection off.
func (p *Pool) run(ctx context.Context, n int, work func(*conn) error) (Result, error) {
	failed := make(chan error, len(p.conns))
	unhook := context.AfterFunc(ctx, p.abort)
	defer unhook()
	start := time.Now()
	var workers sync.WaitGroup
	for _, c := range p.conns {
		c.took = make([]time.Duration, 0, n/len(p.conns)*2+1)
		workers.Go(func() {
			if err := work(c); err != nil {
				failed <- err // before abort, so that the cause comes first
				p.abort()
			}
		})
	}
	workers.Wait()
	res := Result{Requests: n, Elapsed: time.Since(start)}
	if err := ctx.Err(); err != nil {
		return res, fmt.Errorf("load: %w", err)
	}
	if len(failed) > 0 {
		return res, <-failed
	}
	for _, c := range p.conns {
		res.Latency.sorted = append(res.Latency.sorted, c.took...)
	}
	res.Latency.sort()
	if got := len(res.Latency.sorted); got != n {
		return res, fmt.Errorf("load: %d of %d requests were answered", got, n)
	}
	return res, nil
}

// abort makes every read and write of the pool fail now. Connections stay owned by Close.
func (p *Pool) abort() {
	for _, c := range p.conns {
		c.SetDeadline(time.Unix(1, 0))
	}
}

func (c *conn) exchange(t Traffic, seq int, from time.Time) error {
	c.out = t.Request(c.out[:0], seq)
	if _, err := c.Write(c.out); err != nil {
		return fmt.Errorf("load: request %d: %w", seq, err)
	}
	resp, err := ReadResponse(c.r)
	switch {
	case err != nil:
		return fmt.Errorf("load: request %d: %w", seq, noEOF(err))
	case resp.Status != 200:
		return fmt.Errorf("load: request %d: status %d: %s", seq, resp.Status, resp.Excerpt)
	case resp.Close:
		return fmt.Errorf("load: request %d: the server ended the connection", seq)
	case t.Replayed != "" && resp.Replayed != t.Replayed:
		return fmt.Errorf("load: request %d: Idempotent-Replayed is %q, want %q", seq, resp.Replayed, t.Replayed)
	}
	c.took = append(c.took, time.Since(from))
	return nil
}
