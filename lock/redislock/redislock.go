// Package redislock keeps claims in Redis: standalone, behind Sentinel, or in a Cluster.
//
// Every verb is one Lua script on one key, sent in pipelines that gather by themselves
// under load. go-redis' own retries are off: a reply may be lost, and a repetition is the
// caller's to decide. Every script is safe to repeat all the same.
//
// Redis' clock measures leases, inside the scripts; a lease that runs out frees nothing.
// Redis may forget acknowledged writes in a failover: package lock promises nothing that
// this would break.
package redislock

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/lock"
)

// Locker implements lock.Store and lock.Keeper on Redis.
type Locker struct {
	client  redis.UniversalClient
	keys    keys
	batcher *batcher
	watcher *watcher
	close   func() error
}

var (
	_ lock.Store  = (*Locker)(nil)
	_ lock.Keeper = (*Locker)(nil)
)

// New connects lazily: it succeeds while Redis is down. Ask Check at start-up.
func New(o Options) (*Locker, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	client := o.client()
	l := &Locker{
		client:  client,
		keys:    keys{prefix: o.Prefix},
		batcher: newBatcher(client, o.Senders, o.Timeout, o.Linger),
		watcher: newWatcher(client, o.Timeout),
	}
	l.close = sync.OnceValue(func() error {
		l.watcher.close()
		l.batcher.close()
		return client.Close()
	})
	return l, nil
}

// Close ends the connections and waits for what uses them; idempotent.
func (l *Locker) Close() error { return l.close() }

// Claim implements lock.Store.
func (l *Locker) Claim(ctx context.Context, ask lock.Ask) (lock.Answer, error) {
	c := claimScript.on(l.keys.record(ask.Guard), ask.Key[:], ask.Fingerprint[:], ask.ClaimID[:],
		millis(ask.Lease), string(flags(false, ask.Hot)), appendTail(nil, ask.Traceparent, hotReceipt(ask)))
	code, now, record, err := l.run(ctx, nil, c)
	if err != nil {
		return lock.Answer{}, fmt.Errorf("redislock: claim: %w", err)
	}
	a := lock.Answer{Code: lock.Code(code)}
	if len(record) == fenceDigits {
		a.Record = started(ask)
		a.Record.Fence, err = strconv.ParseUint(record, 10, 64)
	} else {
		a.Record, err = parseRecord(ask.Guard, record, now)
	}
	if err != nil {
		return lock.Answer{}, fmt.Errorf("redislock: claim: %w", err)
	}
	if a.Code == lock.Claimed {
		// After the answer and not with the question: most claims meet a record that has
		// ended, and must not fill the index with it.
		l.list(ctx, ask.Guard, now+(a.Record.Lease-ask.Lease).Milliseconds())
	}
	return a, nil
}

// Renew implements lock.Store.
func (l *Locker) Renew(ctx context.Context, leases []lock.Lease) (lost []intent.Guard, err error) {
	calls := make([]*call, len(leases))
	for i, lease := range leases {
		r := started(lease.Ask)
		r.Fence = lease.Fence
		head, err := appendHead(make([]byte, 0, headLen), &r)
		if err != nil {
			return nil, err
		}
		calls[i] = renewScript.on(l.keys.record(lease.Guard), head, millis(lease.Ask.Lease),
			appendTail(nil, r.Traceparent, r.Receipt))
	}
	if len(calls) == 0 {
		return nil, nil
	}
	if err := l.batcher.do(ctx, nil, calls...); err != nil {
		return nil, fmt.Errorf("redislock: renew: %w", err)
	}
	for i, c := range calls {
		code, now, _, cerr := c.reply()
		switch {
		case cerr != nil:
			// One is enough to say that Redis is in trouble; the others are told apart.
			err = fmt.Errorf("redislock: renew: %w", cerr)
		case code == renewLost:
			lost = append(lost, leases[i].Guard)
		case code == renewRewritten:
			l.list(ctx, leases[i].Guard, now)
		}
	}
	return lost, err
}

// Settle implements lock.Store.
func (l *Locker) Settle(ctx context.Context, r lock.Record, ttl time.Duration) (lock.Record, bool, error) {
	state, err := appendState(&r)
	if err != nil {
		return lock.Record{}, false, err
	}
	life := int64(0)
	if !r.Open() {
		life = millis(ttl)
	}
	var unlist []redis.Cmder
	if !r.Open() {
		unlist = append(unlist, l.unlisting(ctx, r.Guard))
	}
	c := settleScript.on(l.keys.record(r.Guard), state, r.Lease.Milliseconds(), life)
	code, now, record, err := l.run(ctx, unlist, c)
	if err != nil {
		return lock.Record{}, false, fmt.Errorf("redislock: settle: %w", err)
	}
	if code != settleKept {
		if code == settleRefilled && r.Open() {
			l.list(ctx, r.Guard, now)
		}
		return r, true, nil
	}
	standing, err := parseRecord(r.Guard, record, now)
	if err != nil {
		return lock.Record{}, false, fmt.Errorf("redislock: settle: %w", err)
	}
	if unlist != nil && standing.Open() {
		l.list(ctx, r.Guard, now) // it was another's entry that went
	}
	return standing, false, nil
}

// Release implements lock.Store.
func (l *Locker) Release(ctx context.Context, g intent.Guard, id intent.ClaimID) error {
	c := releaseScript.on(l.keys.record(g), id[:])
	code, now, _, err := l.run(ctx, []redis.Cmder{l.unlisting(ctx, g)}, c)
	if err != nil {
		return fmt.Errorf("redislock: release: %w", err)
	}
	if code == releaseAnothers {
		l.list(ctx, g, now) // it was another's entry that went; one too many does no harm
	}
	return nil
}

// Get implements lock.Store.
func (l *Locker) Get(ctx context.Context, g intent.Guard) (lock.Record, error) {
	code, now, record, err := l.run(ctx, nil, getScript.on(l.keys.record(g)))
	switch {
	case err != nil:
		return lock.Record{}, fmt.Errorf("redislock: get: %w", err)
	case code == getNone:
		return lock.Record{}, intent.ErrNone
	}
	r, err := parseRecord(g, record, now)
	if err != nil {
		return lock.Record{}, fmt.Errorf("redislock: get: %w", err)
	}
	return r, nil
}

// Watch implements lock.Store.
func (l *Locker) Watch(g intent.Guard) (changed <-chan struct{}, stop func()) {
	return l.watcher.watch(l.keys.channel(g))
}

// run sends one script, with plain commands behind it, and reads its reply.
func (l *Locker) run(ctx context.Context, plain []redis.Cmder, c *call) (code, now int64, record string, err error) {
	if err := l.batcher.do(ctx, plain, c); err != nil {
		return 0, 0, "", err
	}
	return c.reply()
}

// started is the record that a claim writes, less its fence.
func started(ask lock.Ask) lock.Record {
	return lock.Record{
		Guard: ask.Guard, Key: ask.Key, Fingerprint: ask.Fingerprint, ClaimID: ask.ClaimID, Status: intent.Started,
		Hot: ask.Hot, Lease: ask.Lease, Traceparent: ask.Traceparent, Receipt: hotReceipt(ask),
	}
}

// hotReceipt: where there will be a row to ask, the record need not carry a receipt.
func hotReceipt(ask lock.Ask) []byte {
	if !ask.Hot {
		return nil
	}
	return ask.Receipt
}

// millis rounds up: a lease of less than a millisecond is one.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
