package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/latchkey-gateway/latchkey/intentstore"
)

const (
	feedEvery   = time.Second // between two questions to the store
	feedBatch   = intentstore.MaxLimit
	feedBacklog = 32 // batches that a watcher may be behind before it is let go
	feedFor     = 10 * time.Second
)

// batch is what happened between two questions, and the place to go on from.
type batch struct {
	changes []intentstore.Change
	mark    intentstore.Mark
}

// feeds asks the store for changes on behalf of everybody who watches: one question a
// second for each tenant that is watched, and none when nobody does.
type feeds struct {
	changes func(ctx context.Context, tenant string, after intentstore.Mark, limit int) ([]intentstore.Change, intentstore.Mark, error)
	drained <-chan struct{}
	log     *slog.Logger

	mu      sync.Mutex
	tenants map[string]*feed
}

// feed is one tenant's. Its goroutine ends with its last watcher, or when the gateway drains.
type feed struct {
	tenant   string
	stop     context.CancelFunc
	done     chan struct{} // closed when its goroutine has ended
	mark     intentstore.Mark
	watchers map[chan batch]bool
}

func (f *feeds) init(changes func(context.Context, string, intentstore.Mark, int) ([]intentstore.Change, intentstore.Mark, error), drained <-chan struct{}, log *slog.Logger) {
	f.changes, f.drained, f.log = changes, drained, log
	f.tenants = map[string]*feed{}
}

// watch returns a channel of what happens from some moment before now on, which begins with
// the place where that is. It is closed when the watcher is too far behind or the gateway
// drains. leave MUST be called once; the last one to leave waits for the feed's end.
func (f *feeds) watch(tenant string) (batches <-chan batch, leave func()) {
	w := make(chan batch, feedBacklog)
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tenants[tenant]
	if t == nil {
		ctx, stop := context.WithCancel(context.Background())
		t = &feed{tenant: tenant, stop: stop, done: make(chan struct{}), watchers: map[chan batch]bool{}}
		f.tenants[tenant] = t
		go f.run(ctx, t)
	} else if t.mark != (intentstore.Mark{}) {
		w <- batch{mark: t.mark}
	}
	t.watchers[w] = true
	return w, func() {
		f.mu.Lock()
		f.drop(t, w)
		last := len(t.watchers) == 0
		f.mu.Unlock()
		if last {
			<-t.done
		}
	}
}

// drop lets a watcher go, and the feed with its last one. The mutex is held.
func (f *feeds) drop(t *feed, w chan batch) {
	if !t.watchers[w] {
		return
	}
	delete(t.watchers, w)
	close(w)
	if len(t.watchers) == 0 {
		t.stop()
		delete(f.tenants, t.tenant)
	}
}

// run asks until nobody watches any more. A question that fails is asked again from the same
// mark, so that nothing is left out.
func (f *feeds) run(ctx context.Context, t *feed) {
	defer close(t.done)
	var mark intentstore.Mark
	told := map[intentstore.Change]bool{} // by the last batch
	for {
		asking, cancel := context.WithTimeout(ctx, feedFor)
		changes, next, err := f.changes(asking, t.tenant, mark, feedBatch)
		cancel()
		if err == nil {
			// What the store cannot be sure of yet it gives again; a moment later is enough to
			// have told of it once.
			news := slices.DeleteFunc(slices.Clone(changes), func(c intentstore.Change) bool { return told[c] })
			clear(told)
			for _, c := range changes {
				told[c] = true
			}
			if len(news) > 0 || mark == (intentstore.Mark{}) {
				f.send(t, batch{news, next})
			}
			mark = next
		} else if ctx.Err() == nil {
			f.log.Warn("changes cannot be read", "error", err)
		}
		pause := feedEvery/2 + rand.N(feedEvery)
		if len(changes) == feedBatch {
			pause = 0
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		case <-f.drained:
			timer.Stop()
			f.close(t)
			return
		}
	}
}

func (f *feeds) send(t *feed, b batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t.mark = b.mark
	for w := range t.watchers {
		select {
		case w <- b:
		default: // it does not read: it comes back and says where it was
			f.drop(t, w)
		}
	}
}

func (f *feeds) close(t *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range t.watchers {
		f.drop(t, w)
	}
}

// markText is a mark as an event's id.
func markText(m intentstore.Mark) string { return fmt.Sprintf("%d.%d", m.Attempt, m.Entry) }

func parseMark(s string) (intentstore.Mark, bool) {
	attempt, entry, _ := strings.Cut(s, ".")
	a, err1 := strconv.ParseInt(attempt, 10, 64)
	e, err2 := strconv.ParseInt(entry, 10, 64)
	return intentstore.Mark{Attempt: a, Entry: e}, err1 == nil && err2 == nil && a >= -1 && e >= -1
}
