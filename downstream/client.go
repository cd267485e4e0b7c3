package downstream

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
)

// Options of a Client. The zero value is usable.
type Options struct {
	// ResultCap is how many bytes of an answer's body are kept; a longer one is kept as its
	// length and hash. 0: 1 MiB.
	ResultCap int64
	// DialContext replaces the dialer. nil: TCP, without any proxy from the environment.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS is the base of each downstream's TLS settings (roots, client certificates). nil:
	// the system's roots. Protocol negotiation is always set to HTTP/1.1 alone.
	TLS *tls.Config
}

const (
	defaultResultCap = 1 << 20
	// dialTimeout bounds connecting, within the tool's own timeout, so that a black hole
	// is told as "not sent" while there is time to try elsewhere.
	dialTimeout = 10 * time.Second
	// readTries bounds how often a read_only call or a lookup is sent.
	readTries = 3
)

// Client sends requests to the downstreams of one catalogue. An effect is written at most
// once per Execute.
type Client struct {
	lanes    map[*target]*lane
	byName   map[string]*lane
	limit    int64
	messages sync.Pool // of *message
}

// lane is everything that one downstream's calls share.
type lane struct {
	pool *pool
	gate *gate
}

// NewClient makes a client. Close it to end its idle connections.
func NewClient(cat *Catalogue, opts Options) *Client {
	c := &Client{lanes: make(map[*target]*lane), byName: make(map[string]*lane), limit: orDefault(opts.ResultCap, defaultResultCap)}
	c.messages.New = func() any { return new(message) }
	connect := opts.DialContext
	if connect == nil {
		connect = (&net.Dialer{}).DialContext
	}
	for name, t := range cat.targets {
		secure := &tls.Config{}
		if opts.TLS != nil {
			secure = opts.TLS.Clone()
		}
		secure.ServerName = t.name
		secure.NextProtos = []string{"http/1.1"} // HTTP/2 shares a connection and resends
		secure.MinVersion = max(secure.MinVersion, tls.VersionTLS12)
		if secure.ClientSessionCache == nil {
			secure.ClientSessionCache = tls.NewLRUClientSessionCache(0)
		}
		l := &lane{
			pool: &pool{target: t, connect: connect, tls: secure, keep: t.spec.MaxInFlight},
			gate: newGate(t.spec),
		}
		c.lanes[t], c.byName[name] = l, l
	}
	return c
}

// Close ends idle connections; calls in flight end by themselves.
func (c *Client) Close() {
	for _, l := range c.lanes {
		l.pool.close()
	}
}

// Execute sends the request of an effect at most once and says what was observed. It is
// bounded by the tool's timeout; a ctx that ends earlier ends it too, so ctx MUST NOT be one
// that a caller's disconnect cancels.
func (c *Client) Execute(ctx context.Context, call Call) Observed {
	m := c.messages.Get().(*message)
	defer c.release(m)
	if err := m.compose(&call); err != nil {
		return Observed{NotSentWhy: notSentRequest, Err: err}
	}
	return c.send(ctx, &call, m, deadlineOf(ctx, call.Tool.Timeout), c.limit)
}

// Forward sends a read_only call, and sends it again, up to three times in all and within
// the tool's timeout, when there was no answer or a 502, 503 or 504.
func (c *Client) Forward(ctx context.Context, call Call) Observed {
	m := c.messages.Get().(*message)
	defer c.release(m)
	if err := m.compose(&call); err != nil {
		return Observed{NotSentWhy: notSentRequest, Err: err}
	}
	deadline := deadlineOf(ctx, call.Tool.Timeout)
	if call.Tool.Class != intent.ReadOnly {
		return c.send(ctx, &call, m, deadline, c.limit)
	}
	return c.repeat(ctx, &call, m, deadline, c.limit, func(o Observed) bool {
		return unanswered(o) || o.HTTPStatus >= 502 && o.HTTPStatus <= 504
	})
}

// unanswered: no whole answer came, and there may be time for another one.
func unanswered(o Observed) bool { return o.Err != nil && !o.TimedOut }

// repeat sends what only asks, and sends it again as long as again says so.
func (c *Client) repeat(ctx context.Context, call *Call, m *message, deadline time.Time, limit int64, again func(Observed) bool) Observed {
	backoff := 50 * time.Millisecond
	for try := 1; ; try++ {
		o := c.send(ctx, call, m, deadline, limit)
		if try == readTries || !again(o) {
			return o
		}
		pause := backoff/2 + rand.N(backoff)
		backoff *= 2
		if time.Until(deadline) <= pause {
			return o
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return o
		}
	}
}

// send makes one attempt. It goes round again only where provably no byte of the request
// was written: an idle connection turned out to be closed.
func (c *Client) send(ctx context.Context, call *Call, m *message, deadline time.Time, limit int64) Observed {
	l := c.lanes[call.Tool.target]
	if l == nil {
		return Observed{NotSentWhy: notSentRequest, Err: errors.New("the tool is not of this client's catalogue")}
	}
	for {
		if ctx.Err() == context.Canceled {
			return Observed{NotSentWhy: notSentCancelled, Err: ctx.Err()}
		}
		cn := l.pool.take(deadline)
		if cn == nil {
			fresh, o := l.pool.fresh(ctx, deadline)
			if fresh == nil {
				return o
			}
			cn = fresh
		}
		// The last look before the write: from here on the outcome may be unknown.
		if call.MayBegin != nil && !call.MayBegin() {
			l.pool.put(cn)
			return Observed{NotSentWhy: notSentLease, Err: errors.New("the lease ran out before the request was written")}
		}
		reused := cn.reused
		o, reusable := cn.exchange(ctx, m, deadline, limit)
		if reusable {
			l.pool.put(cn)
		} else {
			cn.close()
		}
		if o.Sent || !reused {
			return o
		}
	}
}

// fresh dials within the deadline.
func (p *pool) fresh(ctx context.Context, deadline time.Time) (*conn, Observed) {
	by := deadline
	if soonest := time.Now().Add(dialTimeout); soonest.Before(by) {
		by = soonest
	}
	ctx, cancel := context.WithDeadline(ctx, by)
	defer cancel()
	cn, why, err := p.dial(ctx)
	if err == nil {
		err = cn.stream.SetDeadline(deadline)
	}
	if err != nil {
		if ctx.Err() == context.Canceled {
			why = notSentCancelled
		}
		return nil, Observed{NotSentWhy: why, Err: err, TimedOut: !time.Now().Before(deadline)}
	}
	return cn, Observed{}
}

// deadlineOf is timeout from now, or ctx's deadline where that is earlier.
func deadlineOf(ctx context.Context, timeout time.Duration) time.Time {
	deadline := time.Now().Add(timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		return d
	}
	return deadline
}

func (c *Client) release(m *message) {
	if cap(m.bytes) <= maxReused && cap(m.body) <= maxReused {
		c.messages.Put(m)
	}
}
