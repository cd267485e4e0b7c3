// Package notify tells people what waits for them: a signed webhook for every receipt that is
// parked, awaits approval, or may have happened twice.
//
// What is to be told is a row whose NotifyAt is due (intent.Plan). A notifier takes it by
// moving NotifyAt on with compare-and-set, sends, and clears NotifyAt when the receiver has
// answered 2xx. So a message is sent by one replica at a time, and at least once: a notifier
// that dies after sending leaves a row that is due again, and the receiver knows the repeated
// message by its id. Nothing here is on the way of a call.
//
// Messages are signed as Standard Webhooks (standardwebhooks.com) says. They hold no
// argument, no result and no evidence: who may read those follows the link.
package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// Options wire a Notifier. All fields are required but Console, Timeout, Every, Told, Now
// and Log.
type Options struct {
	Desk    Desk
	URL     string        // where messages are posted; http or https
	Secret  string        // "whsec_" and the base64 of 24 to 64 bytes
	Events  []string      // which words of What are told; nil: all
	Console string        // base of the console's links, such as https://latchkey.example.com/console; "": none
	Timeout time.Duration // of one request; 0: 10 s
	Every   time.Duration // between two looks at the store; 0: 2 s
	// Told counts what became of a message: Sent, Failed (it is tried again), GaveUp, Gone.
	Told func(outcome string)
	Now  func() time.Time
	Log  *slog.Logger
}

// Desk is the part of the store that a notifier needs; intentstore.Desk has it.
type Desk interface {
	Due(ctx context.Context, now time.Time, limit int) ([]intent.Receipt, error)
	Replace(ctx context.Context, was, now intent.Receipt, entry *intent.Entry) (intent.Receipt, error)
}

var _ Desk = intentstore.Desk(nil)

// What became of a message.
const (
	Sent   = "sent"    // the receiver took it
	Failed = "failed"  // it did not; it is sent again
	GaveUp = "gave_up" // it was tried for a day
	Gone   = "gone"    // the receiver answered 410: nothing more is sent until the next start
)

const (
	dueLimit = 500
	atOnce   = 8 // messages under way: a receiver that hangs delays others, but not all of them
)

// delays are the pauses after each failed try, about a day in all. The first ones are longer
// than a request can take, so that a row is not taken by another replica while it is sent.
var delays = []time.Duration{30 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute,
	2 * time.Hour, 5 * time.Hour, 8 * time.Hour, 8 * time.Hour}

// Notifier sends the messages of one replica.
type Notifier struct {
	Options
	secret secret
	client *http.Client
	gone   atomic.Bool
}

// New makes a notifier. The error says what is wrong with the URL or the secret, and does not
// repeat the secret.
func New(o Options) (*Notifier, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("the webhook's url must be an http or https address")
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Timeout > 25*time.Second {
		return nil, errors.New("the webhook's timeout must not be longer than 25s")
	}
	if o.Every <= 0 {
		o.Every = 2 * time.Second
	}
	if o.Told == nil {
		o.Told = func(string) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Console = strings.TrimSuffix(o.Console, "/")
	n := &Notifier{Options: o}
	if n.secret, err = parseSecret(o.Secret); err != nil {
		return nil, err
	}
	n.client = newClient(o.Timeout)
	return n, nil
}

// Run sends what is due until ctx ends. What is under way then is cut off, and due again.
func (n *Notifier) Run(ctx context.Context) {
	defer n.client.CloseIdleConnections()
	for {
		if err := n.Pass(ctx); err != nil && ctx.Err() == nil {
			n.Log.Warn("notifications cannot be read", "error", err)
		}
		timer := time.NewTimer(n.Every/2 + rand.N(n.Every))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// Pass sends what is due now and returns when each message has been answered or given up for
// now. The error is the store's.
func (n *Notifier) Pass(ctx context.Context) error {
	now := intent.Micros(n.Now())
	rows, err := n.Desk.Due(ctx, now, dueLimit)
	if err != nil {
		return err
	}
	var sending sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	var mu sync.Mutex
	for _, row := range rows {
		if row.NotifyAt.IsZero() || row.NotifyAt.After(now) {
			continue // due for a check, which is not ours
		}
		if ctx.Err() != nil {
			break
		}
		slots <- struct{}{}
		sending.Go(func() {
			defer func() { <-slots }()
			if failed := n.tell(ctx, row); failed != nil {
				mu.Lock()
				err = errors.Join(err, failed)
				mu.Unlock()
			}
		})
	}
	sending.Wait()
	return err
}

// tell sends the message of one row, if it is this replica that gets to.
func (n *Notifier) tell(ctx context.Context, row intent.Receipt) error {
	now := n.Now()
	why := What(&row)
	if why == "" || n.gone.Load() || n.Events != nil && !slices.Contains(n.Events, why) {
		// Nothing to tell any more, nobody to tell it to, or nobody who wants to know.
		return n.clear(ctx, row)
	}
	if row.Notices >= len(delays) {
		n.Told(GaveUp)
		n.Log.Error("a notification was given up", "key", row.Key.Short(), "tool", row.Tool, "what", why, "tries", row.Notices)
		return n.clear(ctx, row)
	}
	taken := row
	taken.NotifyAt = intent.Micros(now.Add(spread(delays[row.Notices])))
	taken.Notices++
	taken, err := n.Desk.Replace(ctx, row, taken, nil)
	if err != nil {
		return over(err) // somebody else has it, or it moved: then it is told as it is now
	}
	// Dies here, or after the request: it is due again in a while, under the same id.
	status, err := n.post(ctx, &taken, why, now)
	switch {
	case err == nil && status >= 200 && status < 300:
		n.Told(Sent)
		return n.clear(ctx, taken)
	case status == http.StatusGone:
		n.Told(Gone)
		if !n.gone.Swap(true) {
			n.Log.Error("the webhook's receiver is gone (410): nothing more is sent until the next start")
		}
		return n.clear(ctx, taken)
	case ctx.Err() != nil: // stopping: it was no try of the receiver's
		return nil
	}
	n.Told(Failed)
	n.Log.Warn("a notification failed", "key", row.Key.Short(), "tool", row.Tool, "what", why, "try", taken.Notices,
		"http_status", status, "error", cause(err), "again_at", taken.NotifyAt)
	return nil
}

// clear ends the telling of a row. A row that was checked meanwhile is still told of; one
// that moved has a NotifyAt of its own.
func (n *Notifier) clear(ctx context.Context, told intent.Receipt) error {
	for range 10 {
		now := told
		now.NotifyAt = time.Time{}
		stands, err := n.Desk.Replace(context.WithoutCancel(ctx), told, now, nil)
		if !errors.Is(err, intent.ErrStale) {
			return over(err)
		}
		if stands.Standing() != told.Standing() || !stands.NotifyAt.Equal(told.NotifyAt) {
			return nil
		}
		told = stands
	}
	return nil // it is due again, and cleared or told again then
}

func over(err error) error {
	if errors.Is(err, intent.ErrStale) || errors.Is(err, intent.ErrNone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}

// spread lengthens a pause by up to a fifth, so that what failed together is not tried
// together for ever.
func spread(d time.Duration) time.Duration { return d + rand.N(d/5+1) }

// cause is the error without the URL, which may hold a token.
func cause(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
