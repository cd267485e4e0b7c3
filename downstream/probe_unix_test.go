//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package downstream

import (
	"bufio"
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/latchkey-gateway/latchkey/intent"
)

func TestAnIdleConnectionThatWasClosedIsReplaced(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	first := make(chan net.Conn, 1)
	url := script(t, func(c net.Conn, r *bufio.Reader) {
		says(ok)(c, r)
		first <- c
	}, says(ok))
	var ours atomic.Value
	c, tool := client(t, url, emailSpec(), Options{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		ours.CompareAndSwap(nil, conn)
		return conn, err
	}})
	if o, v := execute(t, c, tool, `{}`); v.Status != intent.Completed {
		t.Fatalf("%+v", o)
	}
	<-first
	// Wait for the FIN without taking it from the connection.
	peeked := make(chan struct{})
	go func() {
		defer close(peeked)
		raw, _ := ours.Load().(*net.TCPConn).SyscallConn()
		raw.Read(func(fd uintptr) bool {
			_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			return err != syscall.EAGAIN
		})
	}()
	<-peeked
	if o, v := execute(t, c, tool, `{}`); v.Status != intent.Completed {
		t.Errorf("a connection known to be closed cost the call its outcome: %+v", o)
	}
}
