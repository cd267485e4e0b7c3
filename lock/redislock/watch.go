package redislock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// watchWait is how long Watch waits for Redis to confirm a subscription.
const watchWait = 100 * time.Millisecond

// watcher shares one subscriber connection among all watches. One goroutine changes its
// subscriptions, another hands out what it receives; go-redis reconnects and subscribes
// again by itself. What was published meanwhile is lost, as lock.Store says.
type watcher struct {
	client  redis.UniversalClient
	timeout time.Duration

	mu       sync.Mutex
	channels map[string]*watched
	standing map[string]bool // subscribed with Redis; true: confirmed
	dirty    map[string]bool // where the two may differ
	pubsub   *redis.PubSub   // nil before the first watch
	closed   bool

	wake chan struct{}
	quit chan struct{}
	work sync.WaitGroup
}

// watched is one channel with at least one watch on it.
type watched struct {
	outs      []chan struct{}
	confirmed chan struct{} // closed when the subscription stands, or cannot be made now
	settled   bool          // confirmed is closed
}

func newWatcher(client redis.UniversalClient, timeout time.Duration) *watcher {
	return &watcher{
		client: client, timeout: timeout,
		channels: map[string]*watched{}, standing: map[string]bool{}, dirty: map[string]bool{},
		wake: make(chan struct{}, 1), quit: make(chan struct{}),
	}
}

func (w *watcher) close() {
	w.mu.Lock()
	w.closed = true
	pubsub := w.pubsub
	w.mu.Unlock()
	close(w.quit)
	if pubsub != nil {
		_ = pubsub.Close()
	}
	w.work.Wait()
}

func (w *watcher) watch(channel string) (<-chan struct{}, func()) {
	out := make(chan struct{}, 1)
	confirmed := w.add(channel, out)
	if confirmed != nil {
		timer := time.NewTimer(watchWait)
		defer timer.Stop()
		select {
		case <-confirmed:
		case <-timer.C:
		case <-w.quit:
		}
	}
	return out, sync.OnceFunc(func() { w.remove(channel, out) })
}

// add returns nil when there is nothing to wait for.
func (w *watcher) add(channel string, out chan struct{}) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	if w.pubsub == nil {
		w.pubsub = w.client.Subscribe(context.Background())
		events := w.pubsub.ChannelWithSubscriptions(redis.WithChannelSize(1024))
		w.work.Go(w.maintain)
		w.work.Go(func() { w.receive(events) })
	}
	ch := w.channels[channel]
	if ch == nil {
		ch = &watched{confirmed: make(chan struct{})}
		w.channels[channel] = ch
		if w.standing[channel] {
			ch.settle()
		} else {
			w.touch(channel)
		}
	}
	ch.outs = append(ch.outs, out)
	return ch.confirmed
}

func (w *watcher) remove(channel string, out chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ch := w.channels[channel]
	if ch == nil {
		return
	}
	ch.outs = slices.DeleteFunc(ch.outs, func(c chan struct{}) bool { return c == out })
	if len(ch.outs) == 0 {
		delete(w.channels, channel)
		w.touch(channel)
	}
}

func (w *watcher) touch(channel string) {
	w.dirty[channel] = true
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// maintain brings the subscriptions in line with the watches, many at a time.
func (w *watcher) maintain() {
	for {
		select {
		case <-w.wake:
		case <-w.quit:
			return
		}
		var join, leave []string
		w.mu.Lock()
		for channel := range w.dirty {
			_, stands := w.standing[channel]
			switch wanted := w.channels[channel] != nil; {
			case wanted && !stands:
				w.standing[channel] = false
				join = append(join, channel)
			case !wanted && stands:
				delete(w.standing, channel)
				leave = append(leave, channel)
			}
		}
		clear(w.dirty)
		w.mu.Unlock()
		w.tell(w.pubsub.Unsubscribe, leave)
		if err := w.tell(w.pubsub.Subscribe, join); err != nil {
			// go-redis keeps them and subscribes once it is connected again.
			w.giveUpWaiting(join)
		}
	}
}

func (w *watcher) tell(verb func(context.Context, ...string) error, channels []string) error {
	if len(channels) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.timeout)
	defer cancel()
	return verb(ctx, channels...)
}

func (w *watcher) giveUpWaiting(channels []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, channel := range channels {
		if ch := w.channels[channel]; ch != nil {
			ch.settle()
		}
	}
}

func (w *watcher) receive(events <-chan any) {
	for event := range events {
		switch event := event.(type) {
		case *redis.Subscription:
			if event.Kind == "subscribe" {
				w.confirm(event.Channel)
			}
		case *redis.Message:
			w.signal(event.Channel)
		}
	}
}

func (w *watcher) confirm(channel string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.standing[channel]; ok {
		w.standing[channel] = true
	}
	if ch := w.channels[channel]; ch != nil {
		ch.settle()
	}
}

func (w *watcher) signal(channel string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ch := w.channels[channel]; ch != nil {
		for _, out := range ch.outs {
			select {
			case out <- struct{}{}:
			default: // one is waiting there already
			}
		}
	}
}

func (ch *watched) settle() {
	if !ch.settled {
		ch.settled = true
		close(ch.confirmed)
	}
}
