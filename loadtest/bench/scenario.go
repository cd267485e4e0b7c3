package bench

import (
	"fmt"
	"slices"
	"strings"
)

// Scenario is one kind of call.
type Scenario struct {
	Name   string   // as --scenarios takes it
	Title  string   // as the table shows it
	Target float64  // CPU per request, at most this many times the bare proxy's; 0: the yardstick itself
	Parts  []string // whose CPU time counts
	Tool   string   // what is called; "" goes through the bare proxy
	Replay replay
}

// replay says where a scenario's keys come from.
type replay int

const (
	fresh    replay = iota // each call is a new step
	cached                 // a few keys that the measured replica completed itself
	uncached               // keys that another replica completed, each replayed once
)

// The parts whose CPU time is metered.
const (
	PartProxy      = "proxy"
	PartGateway    = "gateway"
	PartRedis      = "redis"
	PartPostgres   = "postgres"
	PartLoad       = "load"       // beside the measurement: the load generator
	PartDownstream = "downstream" // beside the measurement: the effect itself
)

// What is counted beside CPU time. Commands include those that scripts issue; reads are how
// often the server found requests on a connection, so commands sent together count once.
const (
	CountRedisCommands        = "redis_commands"
	CountRedisReads           = "redis_reads"
	CountPostgresTransactions = "postgres_transactions" // that wrote something
)

// The tools that a stack must offer. Each posts its arguments to /effects/{tool}.
const (
	ToolDurable = "effect"
	ToolHot     = "effect_hot"
)

// bareSource is the yardstick's name in the downstream's ledger.
const bareSource = "bare"

// cachedKeys is how many keys the cached replays go round.
const cachedKeys = 16

// Yardstick is the name of the scenario that all ratios refer to.
const Yardstick = "bare-proxy"

// FreshDurable is the scenario of which the open runs take a tenth.
const FreshDurable = "fresh-durable"

var stackParts = []string{PartGateway, PartRedis, PartPostgres}

// Scenarios lists them all, the yardstick first. The targets are those of the project.
func Scenarios() []Scenario {
	return []Scenario{
		{Name: Yardstick, Title: "bare `httputil.ReverseProxy`", Parts: []string{PartProxy}},
		{Name: FreshDurable, Title: "latchkey, fresh durable", Target: 2.5, Parts: stackParts, Tool: ToolDurable},
		{Name: "fresh-hot", Title: "latchkey, fresh hot", Target: 1.5, Parts: stackParts, Tool: ToolHot},
		{Name: "cached-replay", Title: "latchkey, cached replay", Target: 0.5, Parts: stackParts, Tool: ToolDurable, Replay: cached},
		{Name: "uncached-replay", Title: "latchkey, uncached replay", Target: 0.9, Parts: stackParts, Tool: ToolDurable, Replay: uncached},
	}
}

// Select returns the named scenarios, and the yardstick, in the order of Scenarios. No
// names mean all.
func Select(names []string) ([]Scenario, error) {
	all := Scenarios()
	if len(names) == 0 {
		return all, nil
	}
	var known []string
	for _, s := range all {
		known = append(known, s.Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("no scenario %q; there are %s", name, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(all, func(s Scenario) bool {
		return s.Name != Yardstick && !slices.Contains(names, s.Name)
	}), nil
}

// source is the scenario's name in the downstream's ledger.
func (s Scenario) source() string {
	if s.Tool == "" {
		return bareSource
	}
	return s.Tool
}
