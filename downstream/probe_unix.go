//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package downstream

import (
	"net"
	"syscall"
)

// probe looks whether an idle connection is still good, without waiting: the server has
// neither closed it nor sent what nobody asked for.
type probe struct {
	raw  syscall.RawConn
	peek func(fd uintptr) bool // made once: a closure a call would be garbage
	good bool
	one  [1]byte
}

func (p *probe) init(c net.Conn) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	p.raw = raw
	p.peek = func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), p.one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		p.good = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true
	}
}

// alive MUST be asked under a deadline that has not passed.
func (p *probe) alive() bool {
	p.good = false
	return p.raw != nil && p.raw.Read(p.peek) == nil && p.good
}
