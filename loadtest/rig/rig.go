// Package rig starts the processes that a run needs on loopback ports, tells what CPU time
// they used, and ends them, each by its own process id, whatever way the run goes.
//
// Everything lives in one temporary directory: logs, PostgreSQL's data, the gateway's
// configs and binary. A rig is for one run; it is no supervisor and restarts nothing.
package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Rig owns a directory and the processes started through it.
type Rig struct {
	Dir  string
	keep bool

	mu  sync.Mutex
	all []*Process
}

// New makes a rig with a fresh directory. keep leaves the directory behind on Close, for
// reading logs.
func New(keep bool) (*Rig, error) {
	dir, err := os.MkdirTemp("", "latchkey-loadtest-")
	if err != nil {
		return nil, fmt.Errorf("rig: %w", err)
	}
	// PostgreSQL runs as another user when the run belongs to root, and must get through.
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, errors.Join(fmt.Errorf("rig: %w", err), os.RemoveAll(dir))
	}
	return &Rig{Dir: dir, keep: keep}, nil
}

// Close ends the processes, last started first, and removes the directory. It may be
// called again.
func (r *Rig) Close() error {
	var errs []error
	r.mu.Lock()
	all := r.all
	r.all = nil
	r.mu.Unlock()
	for _, p := range slices.Backward(all) {
		errs = append(errs, p.Stop())
	}
	if !r.keep {
		errs = append(errs, os.RemoveAll(r.Dir))
	}
	return errors.Join(errs...)
}

// FreeAddr returns a loopback address on a port that was free a moment ago. Nothing keeps
// it free: servers that can report a port of their own choice are asked to do that instead.
func FreeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("rig: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// await repeats probe until it succeeds, the process ends, or limit has passed.
func await(ctx context.Context, p *Process, limit time.Duration, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		err := probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("rig: %s ended before it was ready\n%s", p.Name, p.LogTail())
		case <-ctx.Done():
			return fmt.Errorf("rig: %s is not ready (%w): %w\n%s", p.Name, ctx.Err(), err, p.LogTail())
		case <-tick.C:
		}
	}
}

func (r *Rig) path(elem ...string) string { return filepath.Join(append([]string{r.Dir}, elem...)...) }
