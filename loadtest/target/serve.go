package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// Serve serves h on a free loopback port, writes the address to out as one line, and ends
// with ctx.
func Serve(ctx context.Context, h http.Handler, out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("target: %w", err)
	}
	srv := &http.Server{Handler: h} // no timeouts: the yardstick pays for no timers
	unhook := context.AfterFunc(ctx, func() { srv.Close() })
	defer unhook()
	if _, err := fmt.Fprintln(out, l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("target: %w", err)
	}
	return nil
}
