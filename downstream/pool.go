package downstream

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// pool keeps the idle connections of one downstream, the last used one on top.
type pool struct {
	target  *target
	connect func(ctx context.Context, network, address string) (net.Conn, error)
	tls     *tls.Config
	keep    int

	mu     sync.Mutex
	idle   []*conn
	timer  *time.Timer // closes what was idle for too long; nil until first needed
	closed bool
}

// take returns an idle connection that is still good, or nil. Its deadline is set.
func (p *pool) take(deadline time.Time) *conn {
	for time.Now().Before(deadline) {
		p.mu.Lock()
		n := len(p.idle)
		if n == 0 {
			p.mu.Unlock()
			return nil
		}
		c := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		c.reused = true
		if time.Since(c.idleSince) < c.idleFor && c.stream.SetDeadline(deadline) == nil && c.probe.alive() {
			return c
		}
		c.close()
	}
	return nil
}

// put gives a connection back.
func (p *pool) put(c *conn) {
	c.idleSince = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= p.keep || c.idleFor <= 0 {
		c.close()
		return
	}
	p.idle = append(p.idle, c)
	if len(p.idle) == 1 {
		p.arm()
	}
}

func (p *pool) arm() {
	if p.timer == nil {
		p.timer = time.AfterFunc(idleDefault, p.sweep)
	} else {
		p.timer.Reset(idleDefault)
	}
}

// sweep closes connections that were idle for too long, so that a quiet gateway does not
// hold sockets that the other side has closed.
func (p *pool) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.idle[:0]
	for _, c := range p.idle {
		if time.Since(c.idleSince) < c.idleFor {
			kept = append(kept, c)
		} else {
			c.close()
		}
	}
	clear(p.idle[len(kept):])
	if p.idle = kept; len(kept) > 0 && !p.closed {
		p.arm()
	}
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		c.close()
	}
	p.idle = nil
	if p.timer != nil {
		p.timer.Stop()
	}
}
