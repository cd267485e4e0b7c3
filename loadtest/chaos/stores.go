package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/rig"
)

// storeFault does something to Redis or PostgreSQL, or to everything at once, and returns
// when both work again.
func (d *director) storeFault(ctx context.Context, rng *rand.Rand) error {
	switch n := rng.IntN(20); {
	case n < 4:
		return d.flush(ctx)
	case n < 9:
		return d.redisFailover(ctx, rng)
	case n < 12:
		return d.fillMemory(ctx, rng)
	case n < 17:
		return d.postgresFailover(ctx, rng)
	case n < 19:
		return d.postgresCrash(ctx, rng)
	}
	return d.restartAll(ctx, rng)
}

// flush empties Redis.
func (d *director) flush(ctx context.Context) error {
	d.did("flush", "redis", 0, "FLUSHALL on every primary")
	return d.onPrimaries(ctx, "FLUSHALL")
}

func (d *director) onPrimaries(ctx context.Context, args ...any) error {
	for _, n := range d.Redis.Nodes {
		if role, err := n.Role(ctx); err != nil {
			return err
		} else if role == "master" {
			if _, err := n.Do(ctx, args...); err != nil {
				return err
			}
		}
	}
	return nil
}

// fillMemory leaves Redis no room for writes, and evicts nothing.
func (d *director) fillMemory(ctx context.Context, rng *rand.Rand) error {
	length := between(rng, 200*time.Millisecond, 3*time.Second)
	d.did("full", "redis", length, "maxmemory 1mb")
	if err := d.onPrimaries(ctx, "CONFIG", "SET", "maxmemory", "1mb"); err != nil {
		return err
	}
	sleep(ctx, length)
	return d.onPrimaries(ctx, "CONFIG", "SET", "maxmemory", "0")
}

// redisFailover kills a primary. With replicas, these are asleep for a while before, so
// that what was acknowledged last is not on them; alone, it comes back empty.
func (d *director) redisFailover(ctx context.Context, rng *rand.Rand) error {
	primaries, replicas, err := d.redisRoles(ctx)
	if err != nil {
		return err
	}
	victim := primaries[rng.IntN(len(primaries))]
	if d.Redis.Mode == "standalone" {
		down := between(rng, 50*time.Millisecond, 1500*time.Millisecond)
		d.did("kill", victim.Name, down, "comes back empty")
		d.did("flush", victim.Name, 0, "by its restart")
		victim.Kill()
		sleep(ctx, down)
		return victim.Restart(ctx)
	}
	behind := between(rng, 100*time.Millisecond, 900*time.Millisecond) // shorter than a failure's detection
	d.did("failover", victim.Name, behind, "replicas were behind by this much")
	for _, r := range replicas {
		if err := r.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
	}
	sleep(ctx, behind)
	victim.Kill()
	for _, r := range replicas {
		if err := r.Signal(syscall.SIGCONT); err != nil {
			return err
		}
	}
	if err := d.awaitNewPrimary(ctx, victim); err != nil {
		return err
	}
	if err := victim.Restart(ctx); err != nil {
		return err
	}
	if d.Redis.Mode == "cluster" {
		return rig.AwaitCluster(ctx, d.Redis.Nodes)
	}
	return until(ctx, 30*time.Second, func() error {
		primaries, _, err := d.redisRoles(ctx)
		if err == nil && len(primaries) != 1 {
			err = fmt.Errorf("%d primaries", len(primaries))
		}
		return err
	})
}

func (d *director) redisRoles(ctx context.Context) (primaries, replicas []*rig.RedisNode, err error) {
	for _, n := range d.Redis.Nodes {
		role, err := n.Role(ctx)
		if err != nil {
			return nil, nil, err
		}
		if role == "master" {
			primaries = append(primaries, n)
		} else {
			replicas = append(replicas, n)
		}
	}
	if len(primaries) == 0 {
		return nil, nil, errors.New("no primary among the Redis servers")
	}
	return primaries, replicas, nil
}

// awaitNewPrimary waits until the others have replaced a primary that is gone.
func (d *director) awaitNewPrimary(ctx context.Context, gone *rig.RedisNode) error {
	want := 1
	if d.Redis.Mode == "cluster" {
		want = len(d.Redis.Nodes) / 2
	}
	return until(ctx, 30*time.Second, func() error {
		primaries := 0
		for _, n := range d.Redis.Nodes {
			if n == gone {
				continue
			}
			if role, err := n.Role(ctx); err != nil {
				return err
			} else if role == "master" {
				primaries++
			}
		}
		if primaries < want {
			return fmt.Errorf("%d primaries, want %d", primaries, want)
		}
		return nil
	})
}

func (d *director) primaryName() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Primary.Name
}

// postgresFailover kills the primary, promotes the standby, and makes the old primary its
// standby from a fresh copy.
func (d *director) postgresFailover(ctx context.Context, rng *rand.Rand) error {
	if d.Standby == nil {
		return d.postgresCrash(ctx, rng)
	}
	old, next := d.Primary, d.Standby
	d.did("promote", next.Name, 0, old.Name+" was killed")
	old.Kill()
	sleep(ctx, between(rng, 0, 800*time.Millisecond))
	if err := next.Promote(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	d.Primary, d.Standby = next, old
	d.mu.Unlock()
	if err := old.Follow(ctx, next); err != nil {
		return err
	}
	return next.Synchronous(ctx, true)
}

// postgresCrash kills the primary and starts it again where it was: what it acknowledged
// is on its disk.
func (d *director) postgresCrash(ctx context.Context, rng *rand.Rand) error {
	down := between(rng, 0, time.Second)
	d.did("kill", d.Primary.Name, down, "recovers from its log")
	d.Primary.Kill()
	sleep(ctx, down)
	return d.Primary.Restart(ctx)
}

// restartAll kills every gateway, Redis and PostgreSQL's primary, and starts them again.
func (d *director) restartAll(ctx context.Context, rng *rand.Rand) error {
	d.did("restart", "everything", 0, "SIGKILL")
	var all sync.WaitGroup
	failures := make([]error, len(d.Replicas)+2)
	for i, p := range d.Replicas {
		down := between(rng, 0, time.Second)
		all.Go(func() { failures[i] = d.killReplica(ctx, p, down) })
	}
	all.Go(func() {
		d.Primary.Kill()
		failures[len(d.Replicas)] = d.Primary.Restart(ctx)
	})
	if d.Redis.Mode == "standalone" {
		d.did("flush", d.Redis.Nodes[0].Name, 0, "by its restart")
		all.Go(func() {
			d.Redis.Nodes[0].Kill()
			failures[len(d.Replicas)+1] = d.Redis.Nodes[0].Restart(ctx)
		})
	}
	all.Wait()
	return errors.Join(failures...)
}

// until repeats probe until it succeeds or limit has passed.
func until(ctx context.Context, limit time.Duration, probe func() error) error {
	end := time.Now().Add(limit)
	for {
		err := probe()
		if err == nil || ctx.Err() != nil || time.Now().After(end) {
			return err
		}
		sleep(ctx, 50*time.Millisecond)
	}
}
