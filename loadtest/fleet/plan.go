package fleet

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/history"
)

// Habits are how often agents do what. Each is a share of intents, 0 to 1, unless it says
// otherwise.
type Habits struct {
	Parallel  float64 // the same call several times within milliseconds
	Dispatch  float64 // two agents are given the same step, and word it differently
	Restart   float64 // the agent dies while it waits, and begins again elsewhere
	HangUp    float64 // hangs up within milliseconds, then goes on as after any lost answer
	Impatient float64 // waits less than the tool may take
	Explicit  float64 // the host gives an Idempotency-Key
	Obeys     float64 // agents that do what the answer says
	Rewords   float64 // of the tries after an error: says the same in other words
	Readdress float64 // of the tries after an error: changes who it goes to
	SDKTries  int     // requests that a client library sends for one call
	HostTries int     // times that a host runs a step
}

// Usual habits: bad days, compressed.
var Usual = Habits{
	Parallel: 0.12, Dispatch: 0.05, Restart: 0.08, HangUp: 0.05, Impatient: 0.15, Explicit: 0.15,
	Obeys: 0.6, Rewords: 0.35, Readdress: 0.08, SDKTries: 3, HostTries: 3,
}

// Intent is one thing that somebody wants done once.
type Intent struct {
	Index  int
	Tenant int // of Config.Tenants
	Tool   history.Tool
	Ref    string
	RunID  string
	StepID string
	// Explicit is an Idempotency-Key given by the host; "" where run and step name it.
	Explicit string
	To, Memo string
	Amount   int

	Obeys  bool
	HangUp time.Duration // 0: it does not
	Wait   time.Duration // how long a library waits for an answer
	Copies []Copy        // who sends it; the first one begins at once
}

// Copy is one agent that works on an intent.
type Copy struct {
	After    time.Duration // the intent's beginning
	Why      history.Why
	Reworded bool          // says it in its own words from the beginning
	Dies     time.Duration // it dies so long after its first request; 0: it does not
}

// Plan returns the intents of a seed, by number. Intents 2n and 2n+1 are twins of two
// tenants: same run, same step, same tool, same explicit key, and nothing to do with each
// other.
func Plan(seed uint64, h Habits, patience time.Duration) func(index int) Intent {
	total := 0
	for _, t := range history.Tools {
		total += t.Share
	}
	return func(index int) Intent {
		pair := index / 2
		twins := rand.New(rand.NewPCG(seed, uint64(pair)<<1|1))
		own := rand.New(rand.NewPCG(seed, uint64(index)<<1))
		it := Intent{
			Index: index, Tenant: index % 2, Tool: draw(twins, total),
			Ref:    fmt.Sprintf("r%x-%d", seed, index),
			RunID:  fmt.Sprintf("run-%x-%d", seed, pair/8),
			StepID: strconv.Itoa(pair % 8 * 10),
			To:     fmt.Sprintf("user%d@example.com", own.IntN(5000)),
			Memo:   memo(own), Amount: 1 + own.IntN(100_000),
			Obeys: own.Float64() < h.Obeys, Wait: 3 * patience,
		}
		if it.Tool.Class != "read_only" && twins.Float64() < h.Explicit {
			it.Explicit = fmt.Sprintf("host-%x-%d", seed, pair)
		}
		if own.Float64() < h.Impatient {
			it.Wait = patience/5 + time.Duration(own.Int64N(int64(patience)/2))
		}
		if own.Float64() < h.HangUp {
			it.HangUp = time.Duration(1+own.IntN(40)) * time.Millisecond
		}
		first := Copy{Why: history.First}
		if own.Float64() < h.Restart {
			first.Dies = time.Duration(1+own.IntN(200)) * time.Millisecond
			it.Copies = append(it.Copies, Copy{Why: history.Restart, Reworded: own.Float64() < 0.5,
				After: first.Dies + time.Duration(50+own.IntN(2000))*time.Millisecond})
		}
		if own.Float64() < h.Parallel {
			for range 1 + own.IntN(4) {
				it.Copies = append(it.Copies, Copy{Why: history.Parallel, After: time.Duration(own.IntN(5000)) * time.Microsecond})
			}
		}
		if own.Float64() < h.Dispatch {
			it.Copies = append(it.Copies, Copy{Why: history.Dispatch, Reworded: own.Float64() < 0.7,
				After: time.Duration(own.IntN(60)) * time.Millisecond})
		}
		it.Copies = append([]Copy{first}, it.Copies...)
		return it
	}
}

func draw(rng *rand.Rand, total int) history.Tool {
	at := rng.IntN(total)
	for _, t := range history.Tools {
		if at -= t.Share; at < 0 {
			return t
		}
	}
	return history.Tools[0]
}

var openings = []string{"Please find", "Here is", "As agreed,", "Following up:", "Kind reminder:", "As discussed:"}
var subjects = []string{"the invoice", "your order", "the summary", "the contract", "the refund", "our offer"}

func memo(rng *rand.Rand) string {
	return fmt.Sprintf("%s %s (%d)", openings[rng.IntN(len(openings))], subjects[rng.IntN(len(subjects))], rng.IntN(1_000_000))
}
