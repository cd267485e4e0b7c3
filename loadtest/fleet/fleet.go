package fleet

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/history"
)

// Config of a fleet. All fields are required unless it says otherwise.
type Config struct {
	Seed     uint64
	Rate     float64 // intents a second
	Duration time.Duration
	Habits   Habits
	Patience time.Duration // a tool's timeout; the measure of all waiting
	Tenants  [2]Tenant
	// Doors are the addresses where agents knock: first the balancer, then replicas.
	Doors []string
	// Direct is the target's address: there is no gateway. Doors are not used then.
	Direct string
	// Without are tools that are not called; tickets are opened instead.
	Without []string
}

// Fleet is a run of agents.
type Fleet struct {
	Config
	client *client
	plan   func(int) Intent

	mu       sync.Mutex
	seen     history.Run
	attempts map[int][]history.Attempt // of intents that are under way
}

// New returns a fleet that has done nothing yet.
func New(c Config) *Fleet {
	if c.Direct != "" {
		c.Doors = []string{c.Direct}
	}
	return &Fleet{Config: c, client: newClient(c.Direct), plan: Plan(c.Seed, c.Habits, c.Patience),
		seen: history.Run{Seed: c.Seed, Direct: c.Direct != ""}, attempts: map[int][]history.Attempt{}}
}

// Run begins intents at the rate until the duration is over, and returns when all agents
// have ended. The operators of both tenants decide meanwhile.
func (f *Fleet) Run(ctx context.Context) {
	f.seen.From = time.Now().UTC()
	stop := f.operate(ctx)
	defer stop()
	arrivals := rand.New(rand.NewPCG(f.Seed, 0xa441))
	var agents sync.WaitGroup
	due, end := time.Now(), time.Now().Add(f.Duration)
	for index := 0; ; index++ {
		// Exponential gaps: arrivals come in bunches, as they do.
		due = due.Add(time.Duration(arrivals.ExpFloat64() / f.Rate * float64(time.Second)))
		if due.After(end) {
			break
		}
		pause(ctx, time.Until(due))
		if ctx.Err() != nil {
			break
		}
		f.seen.Intents++
		agents.Go(func() { f.pursue(ctx, index) })
	}
	agents.Wait()
	f.seen.To = time.Now().UTC()
}

// pursue is one intent from its first try to the last word about it.
func (f *Fleet) pursue(ctx context.Context, index int) {
	it := f.intent(index)
	began := time.Now()
	var copies sync.WaitGroup
	for n := range it.Copies {
		copies.Go(func() {
			pause(ctx, it.Copies[n].After-time.Since(began))
			if ctx.Err() == nil {
				f.agent(it, n).live(ctx)
			}
		})
	}
	copies.Wait()
	f.conclude(ctx, it, began)
}

// intent is the plan's, less the tools that are not called.
func (f *Fleet) intent(index int) Intent {
	it := f.plan(index)
	for _, name := range f.Without {
		if it.Tool.Name == name {
			it.Tool = history.ToolNamed("ticket")
		}
	}
	return it
}

func (f *Fleet) record(a history.Attempt) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen.Attempts = append(f.seen.Attempts, a)
	if a.Why != history.Final {
		f.attempts[a.Intent] = append(f.attempts[a.Intent], a)
	}
}

// conclude says the last word: what all copies were told, and where nobody was told
// anything final, what the receipt says now.
func (f *Fleet) conclude(ctx context.Context, it Intent, began time.Time) {
	f.mu.Lock()
	tries := f.attempts[it.Index]
	delete(f.attempts, it.Index)
	f.mu.Unlock()
	said, key := f.judge(tries)
	if f.Direct == "" && said != history.Done && it.Tool.Class != "read_only" && ctx.Err() == nil {
		said = f.look(ctx, it, tries, key)
	}
	word := history.Word{Intent: it.Index, Tenant: f.Tenants[it.Tenant].Name, Tool: it.Tool.Name, Ref: it.Ref,
		Said: said, At: time.Now().UTC(), From: began.UTC()}
	f.mu.Lock()
	f.seen.Words = append(f.seen.Words, word)
	f.mu.Unlock()
	if key != "" && it.Index%16 == 0 && ctx.Err() == nil {
		f.probe(ctx, it, key)
	}
}

// judge puts together what the copies were told.
func (f *Fleet) judge(tries []history.Attempt) (said history.Saying, key string) {
	said = history.NotDone
	for _, a := range tries {
		if a.Key != "" {
			key = a.Key
		}
		switch meaning(reply{Attempt: a}) {
		case done:
			return history.Done, a.Key
		case nothing:
			said = history.Unclear
		case pending, conflict:
			if said != history.Unclear {
				said = history.Waiting
			}
		}
	}
	if len(tries) == 0 {
		said = history.Unclear
	}
	return said, key
}

// look asks for the receipt, as a person's last question does. "It did not happen" is only
// said when every try was answered: one without an answer may still be on its way.
func (f *Fleet) look(ctx context.Context, it Intent, tries []history.Attempt, key string) history.Saying {
	answered := len(tries) > 0
	unsent := answered
	for _, a := range tries {
		answered = answered && a.HTTP != 0
		unsent = unsent && meaning(reply{Attempt: a}) == notSent
	}
	r, ok := f.find(ctx, it, key)
	switch {
	case !ok && unsent:
		return history.NotDone
	case !ok:
		return history.Unclear
	case r.Status == "completed":
		return history.Done
	case r.Status == "rejected" && answered:
		return history.NotDone
	case r.Status == "rejected":
		return history.Unclear
	}
	return history.Waiting
}
