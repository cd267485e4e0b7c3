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

// resolve runs one row's write until its outcome is known: submit, look at what stands, and
// run the very same write again as long as something is in doubt or in motion and there is
// time. Every write it repeats is safe to repeat: it carries its claim id or its fence.
// Without doubt an error ends it at once, because nothing was written.
func resolve[A any](ctx context.Context, s *Store, what string, write op, look func(*op) found[A]) (A, error) {
	var none A
	until := time.Now().Add(s.options.Timeout)
	doubted := false
	for try := 1; ; try++ {
		o := write
		if err := s.submit(ctx, &o); err != nil {
			return none, err
		}
		f := found[A]{doubt: o.doubt, err: o.err}
		if o.err == nil && !o.doubt {
			f = look(&o)
		}
		if f.known && f.err == nil && !f.doubt {
			return f.answer, nil
		}
		doubted = doubted || f.doubt
		if f.err != nil && !doubted {
			return none, fmt.Errorf("intentstore/postgres: %s: %w", what, f.err)
		}
		// A server that fails over takes seconds; one that lost a connection, none.
		pause := time.Millisecond + rand.N(min(time.Duration(try)*10*time.Millisecond, 250*time.Millisecond))
		if time.Until(until) < pause {
			return none, fmt.Errorf("intentstore/postgres: %s: %w", what, errors.Join(intentstore.ErrAmbiguous, f.err))
		}
		time.Sleep(pause)
	}
}
