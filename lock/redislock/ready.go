package redislock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const probeLife = time.Second

// ErrNotPrimary is Check's answer for a server that will never take a claim.
var ErrNotPrimary = errors.New("this redis is a replica; give the primary's address, or the sentinels'")

// Ready implements lock.Keeper: it writes a key. A replica, a full memory, a broken disk
// and a cluster with a hole all refuse that.
func (l *Locker) Ready(ctx context.Context) error {
	if err := l.client.Set(ctx, l.keys.probe(), "1", probeLife).Err(); err != nil {
		return fmt.Errorf("redislock: not writable: %w", err)
	}
	return nil
}

// Check is for start-up. An error says that Redis cannot be used as it is. A warning says
// what an operator should put right, in words fit for the log.
func (l *Locker) Check(ctx context.Context) (warnings []string, err error) {
	if err := l.Ready(ctx); err != nil {
		if strings.Contains(err.Error(), "READONLY") {
			return nil, fmt.Errorf("%w: %w", ErrNotPrimary, err)
		}
		return nil, err
	}
	var mu sync.Mutex
	err = l.eachPrimary(ctx, func(ctx context.Context, node *redis.Client) error {
		if w := evictionWarning(ctx, node); w != "" {
			mu.Lock()
			warnings = append(warnings, w)
			mu.Unlock()
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("redislock: check: %w", err)
	}
	return warnings, nil
}

func (l *Locker) eachPrimary(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	switch c := l.client.(type) {
	case *redis.ClusterClient:
		return c.ForEachMaster(ctx, f)
	case *redis.Client:
		return f(ctx, c)
	}
	return errors.New("unknown kind of client")
}

// evictionWarning looks for the one setting that makes Redis drop claims by itself.
func evictionWarning(ctx context.Context, node *redis.Client) string {
	const setting = "maxmemory-policy"
	got, err := node.ConfigGet(ctx, setting).Result()
	policy := got[setting]
	switch {
	case err != nil || policy == "":
		return fmt.Sprintf("redis %s: could not read maxmemory-policy (%v). Make sure that it is noeviction: "+
			"any other policy lets Redis drop claims and results that are not stored yet", node.Options().Addr, err)
	case policy != "noeviction":
		return fmt.Sprintf("REDIS MAY DROP CLAIMS: redis %s has maxmemory-policy %s. Set it to noeviction "+
			"(CONFIG SET maxmemory-policy noeviction, and in redis.conf), or results of hot tools and results "+
			"that are not stored yet can vanish", node.Options().Addr, policy)
	}
	return ""
}
