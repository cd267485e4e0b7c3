package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/latchkey-gateway/latchkey/intentstore"
)

// found is what a look at the store told after a write.
type found[A any] struct {
	known  bool // answer is the answer; else the write shall run again
	answer A
	doubt  bool // a write of the look's own may or may not have been committed
	err    error
}

// resolve runs one row's write until its outcome is known: write, look at what stands, and
// run the very same write again as long as something is in doubt or in motion and there is
// time. Every write it repeats is safe to repeat: it carries its claim id or its fence.
// Without doubt an error ends it at once, because nothing was written; an error that try
// returns beside what it found ends it in any case.
func resolve[A any](s *Store, what string, try func() (found[A], error)) (A, error) {
	var none A
	until := time.Now().Add(s.options.Timeout)
	doubted := false
	for n := 1; ; n++ {
		f, err := try()
		if err != nil {
			return none, err
		}
		if f.known && f.err == nil && !f.doubt {
			return f.answer, nil
		}
		doubted = doubted || f.doubt
		if f.err != nil && !doubted {
			return none, fmt.Errorf("intentstore/postgres: %s: %w", what, f.err)
		}
		// A server that fails over takes seconds; one that lost a connection, none.
		pause := time.Millisecond + rand.N(min(time.Duration(n)*10*time.Millisecond, 250*time.Millisecond))
		if time.Until(until) < pause {
			return none, fmt.Errorf("intentstore/postgres: %s: %w", what, errors.Join(intentstore.ErrAmbiguous, f.err))
		}
		time.Sleep(pause)
	}
}

// written is a try whose write goes through the batch writer, and which then looks.
func written[A any](ctx context.Context, s *Store, write op, look func(*op) found[A]) func() (found[A], error) {
	return func() (found[A], error) {
		o := write
		if err := s.submit(ctx, &o); err != nil {
			return found[A]{}, err
		}
		if o.err != nil || o.doubt {
			return found[A]{doubt: o.doubt, err: o.err}, nil
		}
		return look(&o), nil
	}
}
