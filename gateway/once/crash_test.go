package once_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
	"github.com/latchkey-gateway/latchkey/lock"
)

// The crash matrix: every step that a replica takes outside of itself, each time refused,
// applied with its answer lost, or the last thing that the process did; alone, and together
// with a second fault at every later step. After each, other replicas get the same call,
// time passes, the sweeper runs, and an independent checker looks at the store, at Redis
// and at the downstream's ledger.

type mode uint8

const (
	healthy mode = iota
	refused      // not applied, an error
	lost         // applied, an error
	dies         // applied, and nothing after it
	paused       // applied, and the process stops for longer than its lease
	killed       // applied, and the process gets the plan's signal: for real processes
)

var modeNames = []string{"healthy", "refused", "answer lost", "dies", "paused"}

// plan breaks the steps of one replica, by their number in order.
type plan struct {
	mu    sync.Mutex
	steps []string
	at    map[int]mode
	dead  bool

	// For real processes, whose renewals come when they come: the first step of this name
	// gets the signal.
	name   string
	signal syscall.Signal
}

var errStep = errors.New("injected")

// step runs do as the plan says. A dead process's goroutine ends where it stands.
func (p *plan) step(name string, do func() error) error {
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		runtime.Goexit()
	}
	m := p.at[len(p.steps)]
	if name == p.name && !slices.Contains(p.steps, name) {
		m = killed
	}
	p.steps = append(p.steps, name)
	p.mu.Unlock()
	switch m {
	case refused:
		return errStep
	case lost:
		do()
		return errStep
	case dies:
		do()
		p.mu.Lock()
		p.dead = true
		p.mu.Unlock()
		runtime.Goexit()
	case killed:
		err := do()
		syscall.Kill(os.Getpid(), p.signal)
		time.Sleep(200 * time.Millisecond) // the signal may reach another thread first
		return err
	case paused:
		err := do()
		time.Sleep(3 * lease)
		return err
	}
	return do()
}

func (p *plan) taken() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.steps)
}

type brokenLock struct {
	lock.Store
	*plan
}

func (b brokenLock) Claim(ctx context.Context, ask lock.Ask) (a lock.Answer, err error) {
	if failed := b.step("claim", func() error { a, err = b.Store.Claim(ctx, ask); return err }); failed != nil {
		return lock.Answer{}, failed
	}
	return a, err
}

func (b brokenLock) Settle(ctx context.Context, r lock.Record, ttl time.Duration) (rec lock.Record, ok bool, err error) {
	if failed := b.step("lock.settle", func() error { rec, ok, err = b.Store.Settle(ctx, r, ttl); return err }); failed != nil {
		return lock.Record{}, false, failed
	}
	return rec, ok, err
}

func (b brokenLock) Release(ctx context.Context, g intent.Guard, id intent.ClaimID) error {
	return b.step("release", func() error { return b.Store.Release(ctx, g, id) })
}

func (b brokenLock) Get(ctx context.Context, g intent.Guard) (rec lock.Record, err error) {
	if failed := b.step("lock.get", func() error { rec, err = b.Store.Get(ctx, g); return err }); failed != nil {
		return lock.Record{}, failed
	}
	return rec, err
}

func (b brokenLock) Renew(ctx context.Context, ls []lock.Lease) (gone []intent.Guard, err error) {
	if failed := b.step("renew", func() error { gone, err = b.Store.Renew(ctx, ls); return err }); failed != nil {
		return nil, failed
	}
	return gone, err
}

type brokenStore struct {
	intentstore.Store
	*plan
}

func (b brokenStore) Begin(ctx context.Context, r intent.Receipt) (got intentstore.Begun, err error) {
	if failed := b.step("begin", func() error { got, err = b.Store.Begin(ctx, r); return err }); failed != nil {
		return intentstore.Begun{}, errors.Join(failed, intentstore.ErrAmbiguous)
	}
	return got, err
}

func (b brokenStore) Settle(ctx context.Context, s intent.Settlement) (r intent.Receipt, err error) {
	if failed := b.step("settle", func() error { r, err = b.Store.Settle(ctx, s); return nil }); failed != nil {
		return intent.Receipt{}, failed
	}
	return r, err
}

func (b brokenStore) Archive(ctx context.Context, r intent.Receipt) (got intent.Receipt, err error) {
	if failed := b.step("archive", func() error { got, err = b.Store.Archive(ctx, r); return nil }); failed != nil {
		return intent.Receipt{}, failed
	}
	return got, err
}

func (b brokenStore) Get(ctx context.Context, k intent.Key) (r intent.Receipt, err error) {
	if failed := b.step("get", func() error { r, err = b.Store.Get(ctx, k); return nil }); failed != nil {
		return intent.Receipt{}, failed
	}
	return r, err
}

type brokenDesk struct {
	intentstore.Desk
	*plan
}

func (b brokenDesk) Replace(ctx context.Context, was, now intent.Receipt, line *intent.Entry) (r intent.Receipt, err error) {
	if failed := b.step("replace", func() error { r, err = b.Desk.Replace(ctx, was, now, line); return nil }); failed != nil {
		return intent.Receipt{}, failed
	}
	return r, err
}

type brokenEffects struct {
	*effects
	*plan
}

func (b brokenEffects) Execute(ctx context.Context, c downstream.Call) (seen downstream.Observed) {
	if b.step("execute", func() error { seen = b.effects.Execute(ctx, c); return nil }) != nil && seen.Sent {
		return lostAnswer
	} else if !seen.Sent && seen.NotSentWhy == "" {
		return downstream.Observed{NotSentWhy: "dial", Err: errStep}
	}
	return seen
}

func (b brokenEffects) Lookup(ctx context.Context, c downstream.Call) (found downstream.Finding) {
	if b.step("lookup", func() error { found = b.effects.Lookup(ctx, c); return nil }) != nil {
		return downstream.Finding{Why: "no_answer", Evidence: []byte(`{}`)}
	}
	return found
}

// scenario is one way the downstream behaves, for one tool.
type scenario struct {
	name, tool string
	behave     func(n int) downstream.Observed
}

var scenarios = []scenario{
	{"completed", "mail", nil},
	{"completed idempotent", "put", nil},
	{"completed hot", "hot", nil},
	{"answer lost", "mail", func(int) downstream.Observed { return lostAnswer }},
	{"answer lost hot", "hot", func(int) downstream.Observed { return lostAnswer }},
	{"not accepted", "mail", func(int) downstream.Observed { seen := ok(`{}`); seen.HTTPStatus, seen.Sent = 422, true; return seen }},
	{"not sent at first", "mail", func(n int) downstream.Observed {
		if n == 1 {
			return downstream.Observed{NotSentWhy: "dial", Err: errStep}
		}
		return ok(`{}`)
	}},
}

// run plays one cell of the matrix and returns the steps that the broken replica took.
func run(t *testing.T, sc scenario, at map[int]mode) (steps []string) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.effect.behave, w.effect.slow = sc.behave, 4*time.Second
		p := &plan{at: at}
		a := w.replicaOf(w.options("a", p))
		b, c := w.replica("b"), w.replica("c")
		check := checker{w: w, t: t, rejects: sc.name == "not accepted"}

		// The first arrival, a duplicate on the broken replica, and one on a sound one.
		var calls sync.WaitGroup
		calls.Go(func() {
			first := a.Do(t.Context(), w.call(sc.tool, `{"id":1}`))
			p.mu.Lock()
			heard := !p.dead // a dead process answers nobody
			p.mu.Unlock()
			if heard {
				check.answer("a", first)
			}
		})
		calls.Go(func() {
			time.Sleep(time.Second)
			check.answer("b", b.Do(t.Context(), w.call(sc.tool, `{"id":1}`)))
		})
		calls.Wait()
		check.answer("b again", b.Do(t.Context(), w.call(sc.tool, `{"id":1}`)))
		time.Sleep(timeout + 2*lease)
		for range 2 {
			b.sweep()
			c.sweep()
			time.Sleep(2 * lease)
		}
		check.answer("c", c.Do(t.Context(), w.call(sc.tool, `{"id":1}`)))
		check.answer("c again", c.Do(t.Context(), w.call(sc.tool, `{"id":1}`)))
		if p.mu.Lock(); p.dead {
			p.mu.Unlock()
		} else {
			p.mu.Unlock()
			check.answer("a at last", a.Do(t.Context(), w.call(sc.tool, `{"id":1}`)))
		}
		time.Sleep(timeout)
		b.sweep()
		a.close()
		b.close()
		c.close()
		check.world()
		steps = p.taken()
	})
	return steps
}

func TestCrashMatrix(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			cells := 0
			steps := run(t, sc, nil)
			if !strings.Contains(strings.Join(steps, " "), "execute") {
				t.Fatalf("the healthy run took only %v", steps)
			}
			for i := range steps {
				for _, m := range []mode{refused, lost, dies, paused} {
					var later []string
					t.Run(fmt.Sprintf("%d %s %s", i, steps[i], modeNames[m]), func(t *testing.T) {
						later = run(t, sc, map[int]mode{i: m})
						cells++
					})
					if m == dies {
						continue
					}
					for j := i + 1; j < len(later); j++ {
						for _, m2 := range []mode{refused, lost, dies} {
							t.Run(fmt.Sprintf("%d %s %s, %d %s %s", i, steps[i], modeNames[m], j, later[j], modeNames[m2]), func(t *testing.T) {
								run(t, sc, map[int]mode{i: m, j: m2})
								cells++
							})
						}
					}
				}
			}
			t.Logf("%d cells over the steps %v", cells, steps)
		})
	}
}

// checker keeps what callers were told and compares it with what happened. It reads the
// store, Redis and the ledger itself and shares no code with the engine.
type checker struct {
	t         interface{ Errorf(string, ...any) }
	w         *world
	rejects   bool // the downstream keeps a ledger of refused calls too
	uncounted bool // a request that was sent did not arrive, so the ledger may be empty
	reworded  bool // somebody called with other arguments, which may have come first
	mu        sync.Mutex
	told      map[string]string // key -> the completed outcome that somebody was told
}

func (c *checker) answer(who string, a once.Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.Err != nil {
		conflict := a.Err.Category == intent.ConflictArguments || a.Err.Category == intent.ConflictStep
		if a.Err.Category != intent.NotSent && !(conflict && c.reworded) {
			c.t.Errorf("%s was told %v", who, a.Err)
		}
		return
	}
	if a.Receipt.Status != intent.Completed {
		if a.Receipt.Status == intent.Rejected && a.Receipt.Retry == intent.RetryCorrected && !c.rejects {
			c.t.Errorf("%s was told that a call was not accepted, which it was", who)
		}
		return
	}
	key, outcome := a.Receipt.Key.String(), string(a.Receipt.Outcome.Body)
	if c.told == nil {
		c.told = map[string]string{}
	}
	if before, ok := c.told[key]; ok && before != outcome {
		c.t.Errorf("%s was told %s, somebody before %s", who, outcome, before)
	}
	c.told[key] = outcome
	if c.w.effect.total() == 0 && !c.uncounted {
		c.t.Errorf("%s was told completed, and nothing has happened", who)
	}
}

func (c *checker) world() {
	if n := c.w.effect.total(); n > 1 {
		c.t.Errorf("%d effects for one key", n)
	}
	for key := range c.w.effect.ledger {
		row, err := c.w.store.Get(context.Background(), key)
		if err != nil {
			c.t.Errorf("an effect without a row: %v", err)
			continue
		}
		switch told, ok := c.told[key.String()]; {
		case ok && (row.Status != intent.Completed || string(row.Outcome.Body) != told):
			c.t.Errorf("a caller was told %s, the row says %s", told, row.Status)
		case row.Status == intent.Started:
			c.t.Errorf("left started")
		case row.Status == intent.Rejected && !c.rejects:
			c.t.Errorf("it happened, and the row says rejected (%s, %s)", row.Retry, row.Reason)
		}
		rec, err := c.w.lock.Get(context.Background(), row.Guard)
		switch {
		case errors.Is(err, intent.ErrNone):
		case err != nil:
			c.t.Errorf("redis: %v", err)
		case rec.Status != row.Status || rec.Key != row.Key || rec.Fence != row.Fence:
			c.t.Errorf("redis says %s at fence %d, the row %s at %d", rec.Status, rec.Fence, row.Status, row.Fence)
		}
	}
}
