package postgres_test

import (
	"encoding/binary"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy stands between a store and its server. It can lose the n-th statement on its way
// there, or its answer on the way back, and counts cancel requests.
type proxy struct {
	t    testing.TB
	to   string
	addr string

	mu      sync.Mutex
	cancels int
	count   int // statements to come until the cut; 0: none is to be cut
	how     cut
	open    map[net.Conn]bool
}

// cut is where a connection breaks.
type cut uint8

const (
	_          cut = iota
	asked          // the statement is lost: the server never sees it
	answered       // the server has answered; the answer is lost
	unanswered     // the server has the statement; whether it will commit is a race
)

var cutNames = map[cut]string{asked: "statement lost", answered: "answer lost", unanswered: "connection lost"}

// newProxy returns a proxy to the DSN's server, and the DSN that leads through it.
func newProxy(t testing.TB, dsn string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, to: u.Host, addr: l.Addr().String(), open: make(map[net.Conn]bool)}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for c := range p.open {
			c.Close()
		}
		p.mu.Unlock()
		all.Wait()
	})
	u.Host = p.addr
	return p, u.String()
}

// cutAt arms the proxy: the n-th statement from now on is cut.
func (p *proxy) cutAt(n int, how cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count, p.how = n, how
}

// armed says whether the cut is still to come.
func (p *proxy) armed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count > 0
}

func (p *proxy) cancelled() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cancels
}

// next counts a statement and says how it is cut, 0 for not.
func (p *proxy) next() cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count == 0 {
		return 0
	}
	if p.count--; p.count > 0 {
		return 0
	}
	return p.how
}

func (p *proxy) keep(c net.Conn, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if open {
		p.open[c] = true
	} else {
		delete(p.open, c)
	}
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		client.Close()
		return
	}
	for _, c := range []net.Conn{client, server} {
		p.keep(c, true)
		defer p.keep(c, false)
		defer c.Close()
	}
	var lose sync.Once
	lost := make(chan struct{}) // closed when the next answer is to be lost
	var back sync.WaitGroup
	back.Go(func() {
		defer client.Close()
		b := make([]byte, 64<<10)
		for {
			n, err := server.Read(b)
			select {
			case <-lost:
				return
			default:
			}
			if err != nil {
				return
			}
			if _, err := client.Write(b[:n]); err != nil {
				return
			}
		}
	})
	defer back.Wait()
	defer server.Close()
	b := make([]byte, 1<<20)
	for first := true; ; first = false {
		n, err := client.Read(b)
		if err != nil {
			return
		}
		if first && n >= 8 && binary.BigEndian.Uint32(b[4:]) == 80877102 {
			p.mu.Lock()
			p.cancels++
			p.mu.Unlock()
		}
		// pgx writes a whole pipeline at once, and every statement of the store that was
		// prepared before begins with Bind.
		if b[0] == 'B' && !first {
			switch p.next() {
			case asked:
				return
			case answered:
				lose.Do(func() { close(lost) })
				server.Write(b[:n])
				back.Wait() // until the answer came and was thrown away
				return
			case unanswered:
				server.Write(b[:n])
				return
			}
		}
		if _, err := server.Write(b[:n]); err != nil {
			return
		}
	}
}
