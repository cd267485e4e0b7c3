package target

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"
)

// Mode is how the Provider behaves on one request.
type Mode string

// The modes. "Commits" means that the effect is in the ledger.
const (
	OK          Mode = "ok"           // commits and answers
	Slow        Mode = "slow"         // commits and answers, just in time
	HangAfter   Mode = "hang_after"   // commits and does not answer
	ResetAfter  Mode = "reset_after"  // commits and breaks the connection
	ErrorAfter  Mode = "error_after"  // commits and answers 500
	CutAfter    Mode = "cut_after"    // commits and breaks off in the middle of the answer
	Late        Mode = "late"         // commits after the caller gave up
	RefuseInput Mode = "refuse_input" // 422, does not commit
	RefuseNow   Mode = "refuse_now"   // 429, does not commit
	ErrorBefore Mode = "error_before" // 503, does not commit
	ResetBefore Mode = "reset_before" // breaks the connection, does not commit
	HangBefore  Mode = "hang_before"  // does not answer, does not commit
)

// Mix says how often each mode is drawn, as shares of their sum.
type Mix map[Mode]int

// Mixes are known by name.
var Mixes = map[string]Mix{
	"clean": {OK: 1},
	// faulty is far worse than any real provider, so that a minute shows what takes a year.
	"faulty": {OK: 600, Slow: 140, HangAfter: 35, ResetAfter: 45, ErrorAfter: 30, CutAfter: 30, Late: 25,
		RefuseInput: 25, RefuseNow: 20, ErrorBefore: 20, ResetBefore: 20, HangBefore: 10},
}

// Script decides from a seed what happens to each request. The same seed gives the same
// answers to the same sequence of requests for one ref, whatever happens to other refs.
type Script struct {
	Seed uint64
	Mix  Mix
	// Patience is how long callers wait. It is the measure of "slow" and "late".
	Patience time.Duration
}

// draw is the behaviour on the nth request (from 0) to service for ref.
func (s Script) draw(service, ref string, n int) (Mode, *rand.Rand) {
	rng := s.random(fmt.Sprintf("%s/%s/%d", service, ref, n))
	total := 0
	for _, share := range s.Mix {
		total += share
	}
	if total == 0 {
		return OK, rng
	}
	at := rng.IntN(total)
	for _, m := range s.modes() {
		if at -= s.Mix[m]; at < 0 {
			return m, rng
		}
	}
	return OK, rng
}

// modes lists the mix in a fixed order.
func (s Script) modes() []Mode {
	var list []Mode
	for m := range s.Mix {
		list = append(list, m)
	}
	slices.Sort(list)
	return list
}

func (s Script) random(what string) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, what)
	return rand.New(rand.NewPCG(s.Seed, h.Sum64()))
}

// Bounds of the Provider's delays, in units of Patience. A tool's settle_after must be
// longer than LateAtMost and LagAtMost together: then absence is proof.
const (
	// LateAtMost is how long after its arrival a request may still commit.
	LateAtMost = 4
	// LagAtMost is how long a lookup may not show an effect that is there.
	LagAtMost = 1
)
