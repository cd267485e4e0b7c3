package bench

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

const (
	quietWindow = 200 * time.Millisecond
	// quietEnough is what a quiet stack may use in a window, over all its processes: the
	// meters move in steps of a clock tick of 10 ms.
	quietEnough = 20 * time.Millisecond
	// quietLimit is when to go on regardless: something works all the time, and then it
	// belongs to what the stack costs.
	quietLimit = 5 * time.Second
)

// quiet waits until the stack does nothing, and reads the meters.
func (b *Bench) quiet(ctx context.Context) (map[string]time.Duration, error) {
	now, err := b.meters()
	if err != nil {
		return nil, err
	}
	window := cmp.Or(b.window, quietWindow)
	for waited := time.Duration(0); waited < quietLimit; waited += window {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(window):
		}
		before := now
		if now, err = b.meters(); err != nil {
			return nil, err
		}
		if used(before, now) <= quietEnough {
			break
		}
	}
	return now, nil
}

func (b *Bench) counts(ctx context.Context) (map[string]int64, error) {
	counts := make(map[string]int64, len(b.Stack.Counters))
	for name, counter := range b.Stack.Counters {
		n, err := counter(ctx)
		if err != nil {
			return nil, fmt.Errorf("counting %s: %w", name, err)
		}
		counts[name] = n
	}
	return counts, nil
}

func (b *Bench) meters() (map[string]time.Duration, error) {
	now := make(map[string]time.Duration, len(b.Stack.Meters))
	for part, meter := range b.Stack.Meters {
		t, err := meter()
		if err != nil {
			return nil, fmt.Errorf("CPU time of %s: %w", part, err)
		}
		now[part] = t
	}
	return now, nil
}

// used sums what all parts but the load generator, which is reading the meters, have used.
func used(before, after map[string]time.Duration) time.Duration {
	var sum time.Duration
	for part, t := range after {
		if part != PartLoad {
			sum += t - before[part]
		}
	}
	return sum
}
