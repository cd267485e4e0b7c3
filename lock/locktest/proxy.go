package locktest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy stands between a client and a server and loses replies.
type Proxy struct {
	Addr string

	listener net.Listener
	target   string
	lose     atomic.Pointer[func([]byte) bool]
	work     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // nil when closed
}

// StartProxy forwards to a server's address until the test ends.
func StartProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), listener: l, target: target, conns: map[net.Conn]bool{}}
	p.work.Go(p.accept)
	tb.Cleanup(p.Close)
	return p
}

// LoseIf sets what is asked about every piece that the server answers: true drops it and
// breaks the connection, after the server has acted. nil loses nothing.
func (p *Proxy) LoseIf(f func(reply []byte) bool) {
	if f == nil {
		p.lose.Store(nil)
		return
	}
	p.lose.Store(&f)
}

// Close breaks all connections; idempotent.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.mu.Lock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
	p.mu.Unlock()
	p.work.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.keep(client, server) {
			return
		}
		end := sync.OnceFunc(func() { p.drop(client, server) })
		p.work.Go(func() { defer end(); pump(client, server, func([]byte) bool { return false }) })
		p.work.Go(func() {
			defer end()
			pump(server, client, func(b []byte) bool {
				f := p.lose.Load()
				return f != nil && (*f)(b)
			})
		})
	}
}

func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.conns == nil {
			_ = c.Close()
			continue
		}
		p.conns[c] = true
	}
	return p.conns != nil
}

func (p *Proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

func pump(from, to net.Conn, lose func([]byte) bool) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			if lose(b[:n]) {
				return
			}
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
