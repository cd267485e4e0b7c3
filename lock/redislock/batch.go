package redislock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrClosed: the Locker was closed.
var ErrClosed = errors.New("redislock: closed")

// errQueued: the op waited in the queue for longer than the timeout, and was not sent.
var errQueued = errors.New("redislock: not sent: Redis does not keep up")

const (
	maxBatch      = 256     // ops in one pipeline
	maxBatchBytes = 1 << 20 // of arguments, when a batch has more than one op: the timeout is for the whole batch
	queueDepth    = 4096
)

// op is what one verb sends: scripts and plain commands that go out in one pipeline.
type op struct {
	calls  []*call
	plain  []redis.Cmder // after the calls; idempotent; nobody reads their replies
	size   int           // of the scripts' arguments in bytes, about
	queued time.Time
	err    error         // of the whole op: it was not sent
	done   chan struct{} // nil when nobody waits
}

// batcher sends ops in pipelines. Each of its senders takes what is there: a lone op goes at
// once, several wait a moment for more, and while all senders are waiting for Redis the
// next batch gathers by itself.
type batcher struct {
	client  redis.UniversalClient
	timeout time.Duration
	linger  time.Duration
	turn    sync.Mutex // of gathering
	queue   chan *op
	quit    chan struct{}
	senders sync.WaitGroup
}

func newBatcher(client redis.UniversalClient, senders int, timeout, linger time.Duration) *batcher {
	b := &batcher{client: client, timeout: timeout, linger: linger, queue: make(chan *op, queueDepth), quit: make(chan struct{})}
	for range senders {
		b.senders.Go(b.send)
	}
	return b
}

// close waits for the pipelines in flight; what is still queued gets ErrClosed.
func (b *batcher) close() {
	close(b.quit)
	b.senders.Wait()
	for {
		select {
		case o := <-b.queue:
			o.finish(ErrClosed)
		default:
			return
		}
	}
}

// do sends the calls in one pipeline and waits for their replies. Its error says that the
// replies cannot be read: the op was not sent, or ctx ended before they came. What the
// server said of each call is in the calls.
func (b *batcher) do(ctx context.Context, plain []redis.Cmder, calls ...*call) error {
	o := &op{calls: calls, plain: plain, size: size(calls), queued: time.Now(), done: make(chan struct{})}
	select {
	case <-b.quit:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	default:
	}
	select {
	case b.queue <- o:
	case <-b.quit:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-b.quit:
		// A sender may still have it; it will not be left behind for longer than a timeout.
		select {
		case <-o.done:
			return o.err
		case <-time.After(b.timeout):
			return ErrClosed
		}
	}
}

// tell sends commands that nobody waits for. They may be lost.
func (b *batcher) tell(plain ...redis.Cmder) {
	select {
	case b.queue <- &op{plain: plain, queued: time.Now()}:
	default:
	}
}

// send sends batch after batch. The senders take turns at gathering, so that one lingering
// is not robbed of its company by another.
func (b *batcher) send() {
	batch := make([]*op, 0, maxBatch)
	linger := time.NewTimer(time.Hour)
	defer linger.Stop()
	for {
		b.turn.Lock()
		select {
		case o := <-b.queue:
			batch = b.gather(append(batch[:0], o))
		case <-b.quit:
			b.turn.Unlock()
			return
		}
		if b.linger > 0 && crowd(batch) {
			linger.Reset(b.linger)
			<-linger.C
			batch = b.gather(batch)
		}
		b.turn.Unlock()
		b.exec(batch)
		clear(batch) // let go of receipts while idle
	}
}

// company is how many callers must wait already before a batch lingers for more. Fewer are
// a quiet moment, in which waiting would only add latency.
const company = 4

// crowd says whether there is company: then a little longer costs it little and saves
// everybody's system calls. A lone caller never waits.
func crowd(batch []*op) bool {
	waiting := 0
	for _, o := range batch {
		if o.done != nil {
			waiting++
		}
	}
	return waiting >= company
}

// gather adds what is there already, and waits for nothing.
func (b *batcher) gather(batch []*op) []*op {
	bytes := 0
	for _, o := range batch {
		bytes += o.size
	}
	for len(batch) < maxBatch && bytes < maxBatchBytes {
		select {
		case o := <-b.queue:
			batch = append(batch, o)
			bytes += o.size
		default:
			return batch
		}
	}
	return batch
}

func size(calls []*call) (n int) {
	for _, c := range calls {
		for _, arg := range c.args {
			if b, ok := arg.([]byte); ok {
				n += len(b)
			}
		}
	}
	return n
}

// exec sends one batch and wakes its callers. It runs under its own timeout: a caller that
// left does not take the others with it.
func (b *batcher) exec(batch []*op) {
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout)
	defer cancel()
	oldest := time.Now().Add(-b.timeout)
	pipe := b.client.Pipeline()
	for _, o := range batch {
		if o.queued.Before(oldest) {
			o.err = errQueued
			continue
		}
		for _, c := range o.calls {
			_ = pipe.Process(ctx, c.evalsha(ctx)) // only queues
		}
		_ = pipe.BatchProcess(ctx, o.plain...)
	}
	_, _ = pipe.Exec(ctx) // each command keeps its own error

	// A pipeline has no way back to EVAL, so the scripts that Redis does not have are sent
	// again with their source, and nothing else is.
	for _, o := range batch {
		for _, c := range o.calls {
			if o.err == nil && c.unloaded() {
				_ = pipe.Process(ctx, c.eval(ctx))
			}
		}
	}
	if pipe.Len() > 0 {
		_, _ = pipe.Exec(ctx)
	}
	for _, o := range batch {
		o.finish(o.err)
	}
}

func (o *op) finish(err error) {
	o.err = err
	if o.done != nil {
		close(o.done)
	}
}
