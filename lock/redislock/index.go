package redislock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-gateway/latchkey/intent"
)

// list puts a guard into the open index without waiting for it. It never makes an entry
// younger.
func (l *Locker) list(ctx context.Context, g intent.Guard, since int64) {
	l.batcher.tell(redis.NewIntCmd(ctx, "zadd", l.keys.shardOf(g), "NX", since, g[:]))
}

func (l *Locker) unlisting(ctx context.Context, g intent.Guard) redis.Cmder {
	return redis.NewIntCmd(ctx, "zrem", l.keys.shardOf(g), g[:])
}

// Overdue implements lock.Keeper. Shards whose node does not answer are left out, and the
// error says so beside what the others gave.
func (l *Locker) Overdue(ctx context.Context, age time.Duration, limit int) ([]intent.Guard, error) {
	if limit <= 0 {
		return nil, nil
	}
	calls := make([]*call, openShards)
	for n := range calls {
		calls[n] = overdueScript.on(l.keys.shard(n), age.Milliseconds(), limit)
	}
	if err := l.batcher.do(ctx, nil, calls...); err != nil {
		return nil, fmt.Errorf("redislock: overdue: %w", err)
	}
	type entry struct {
		guard intent.Guard
		since float64
	}
	var entries []entry
	var errs []error
	for _, c := range calls {
		pairs, err := c.cmd.StringSlice()
		if err != nil {
			errs = append(errs, fmt.Errorf("redislock: overdue: %w", err))
			continue
		}
		for pair := range slices.Chunk(pairs, 2) {
			var e entry
			if copy(e.guard[:], pair[0]) != len(e.guard) || len(pair) != 2 {
				continue // nothing of ours
			}
			e.since, _ = strconv.ParseFloat(pair[1], 64)
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.since, b.since) })
	var guards []intent.Guard
	for _, e := range entries[:min(limit, len(entries))] {
		guards = append(guards, e.guard)
	}
	return guards, errors.Join(errs...)
}

// Closed implements lock.Keeper.
func (l *Locker) Closed(ctx context.Context, g intent.Guard) error {
	c := redis.NewIntCmd(ctx, "zrem", l.keys.shardOf(g), g[:])
	if err := l.batcher.do(ctx, []redis.Cmder{c}); err != nil {
		return fmt.Errorf("redislock: closed: %w", err)
	}
	if err := c.Err(); err != nil {
		return fmt.Errorf("redislock: closed: %w", err)
	}
	return nil
}
