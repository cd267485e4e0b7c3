package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// State of a Link.
type State int32

const (
	Open  State = iota // everything passes
	Cut                // connections are reset, new ones refused
	Stall              // nothing passes and nothing breaks
	Deaf               // requests pass, answers are lost
)

// Link is a TCP proxy between two processes, which can be broken. What it held back when it
// is mended is lost, with the connection: bytes that arrive long after would be an attack
// on the downstream's promise and not a fault of a network.
type Link struct {
	Addr string
	to   string

	state atomic.Int32
	mu    sync.Mutex
	l     net.Listener
	conns map[*net.TCPConn]struct{}
	// turned is closed and replaced at each change of state.
	turned chan struct{}
	all    sync.WaitGroup
}

// NewLink listens on a free loopback port and connects to an address.
func NewLink(to string) (*Link, error) {
	k := &Link{to: to, conns: map[*net.TCPConn]struct{}{}, turned: make(chan struct{})}
	if err := k.listen("127.0.0.1:0"); err != nil {
		return nil, err
	}
	return k, nil
}

func (k *Link) listen(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("chaos: link: %w", err)
	}
	k.mu.Lock()
	k.l, k.Addr = l, l.Addr().String()
	k.mu.Unlock()
	k.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			k.all.Go(func() { k.serve(c.(*net.TCPConn)) })
		}
	})
	return nil
}

// Turn changes the state. From Stall and Deaf to Open, and to Cut from anywhere, all
// connections are reset.
func (k *Link) Turn(s State) error {
	was := State(k.state.Swap(int32(s)))
	if was == s {
		return nil
	}
	k.mu.Lock()
	close(k.turned)
	k.turned = make(chan struct{})
	if s == Cut {
		k.l.Close()
	}
	if s == Cut || s == Open {
		for c := range k.conns {
			reset(c)
		}
	}
	k.mu.Unlock()
	if was != Cut {
		return nil
	}
	// The port was ours a moment ago and may be taken for a moment.
	var err error
	for range 50 {
		if err = k.listen(k.Addr); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

// Close ends the link and all its connections.
func (k *Link) Close() {
	_ = k.Turn(Cut)
	k.all.Wait()
}

func (k *Link) serve(from *net.TCPConn) {
	defer reset(from)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if State(k.state.Load()) == Stall {
		<-k.mended()
		return
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", k.to)
	if err != nil {
		return
	}
	to := c.(*net.TCPConn)
	if !k.keep(from, to) {
		reset(to)
		return
	}
	defer k.drop(from, to)
	ended := make(chan struct{}, 2)
	k.all.Go(func() { k.pass(to, from, false); ended <- struct{}{} })
	k.all.Go(func() { k.pass(from, to, true); ended <- struct{}{} })
	<-ended // an end in one direction is the end of both
}

// keep remembers the pair, unless the link was cut meanwhile.
func (k *Link) keep(pair ...*net.TCPConn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if State(k.state.Load()) == Cut {
		return false
	}
	for _, c := range pair {
		k.conns[c] = struct{}{}
	}
	return true
}

func (k *Link) drop(pair ...*net.TCPConn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range pair {
		delete(k.conns, c)
		reset(c)
	}
}

// pass copies one direction.
func (k *Link) pass(to, from *net.TCPConn, answers bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		switch s := State(k.state.Load()); {
		case s == Stall:
			<-k.mended()
			return // what was read is lost
		case s == Deaf && answers:
			n = 0
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// mended is closed when the link no longer stalls.
func (k *Link) mended() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if State(k.state.Load()) == Stall {
		return k.turned
	}
	already := make(chan struct{})
	close(already)
	return already
}

func reset(c *net.TCPConn) {
	_ = c.SetLinger(0) // fails when it is closed
	if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return // nothing is left to be done about it
	}
}
