package check

import (
	"strings"

	"github.com/latchkey-gateway/latchkey/loadtest/history"
)

// Sometimes is a situation that the promise is about. A run in which it did not come up
// proves nothing about it: the report says how often each did.
type Sometimes struct {
	Name  string `json:"name"`
	Says  string `json:"says"`
	Count int    `json:"count"`
	// Wanted: a run with faults that never saw it was too short or too tame.
	Wanted bool `json:"wanted"`
}

// Unseen are situations that cannot be told from outside; tests inside the gateway force
// them one by one.
var Unseen = []string{
	"an insert whose commit was ambiguous and that was resolved as ours or as somebody else's: the gateway resolves it silently",
	"a claim whose reply was lost and that was asked again under the same claim id",
	"which of Redis and the store answered a duplicate",
}

// Count counts the situations of a run. logs are what the replicas logged.
func Count(run *history.Run, logs string) []Sometimes {
	var all []Sometimes
	add := func(name, says string, wanted bool, n int) {
		all = append(all, Sometimes{name, says, n, wanted && !run.Direct})
	}
	attempts := func(is func(history.Attempt) bool) (n int) {
		for _, a := range run.Attempts {
			if is(a) {
				n++
			}
		}
		return n
	}
	receipts := func(is func(history.Receipt) bool) (n int) {
		for _, r := range run.Receipts {
			if is(r) {
				n++
			}
		}
		return n
	}
	did := func(action string) int {
		return receipts(func(r history.Receipt) bool { return r.Actions[action] > 0 })
	}
	faults := func(kinds ...string) (n int) {
		for _, f := range run.Faults {
			for _, k := range kinds {
				if strings.HasPrefix(f.Kind, k) {
					n++
				}
			}
		}
		return n
	}
	chaos := len(run.Faults) > 0

	add("lost_answer", "a call that acted and whose caller got no answer", true, unheard(run))
	add("collapsed", "a duplicate joined a call in flight (journal of the receipts looked at)", true, decided(run, "collapsed"))
	add("replayed", "an answer was a replay", true, attempts(func(a history.Attempt) bool { return a.Replayed && a.Why != history.Final }))
	add("mismatch", "a reworded call was refused", true, attempts(func(a history.Attempt) bool { return a.Code == "idempotency_conflict" }))
	add("step_conflict", "a readdressed call was refused", true, attempts(func(a history.Attempt) bool { return a.Code == "step_conflict" }))
	add("told_unknown", "a caller was told unknown", true, attempts(func(a history.Attempt) bool { return a.Status == "unknown" }))
	add("told_not_sent", "a caller was told that nothing was sent", false, attempts(func(a history.Attempt) bool { return a.HTTP == 503 && a.Retry == "same_key" }))
	add("lookup_found", "a lookup settled an unknown as completed", true, receipts(func(r history.Receipt) bool { return r.SettledBy == "lookup" && r.Status == "completed" }))
	add("lookup_absent", "proved absence ended an unknown: executed again or rejected", true, receipts(func(r history.Receipt) bool {
		return r.Actions["reexecute"] > 0 || r.SettledBy == "lookup" && r.Status == "rejected"
	}))
	add("retried", "an unknown was executed again under the same downstream key", true, did("retry"))
	add("taken_over", "a key was executed under a second fence", true, receipts(func(r history.Receipt) bool { return r.Fence > 1 }))
	add("late_answer", "an answer came after its key had become unknown", false, receipts(func(r history.Receipt) bool {
		return r.Actions["late_answer"] > 0 || r.SettledBy == "downstream" && !r.UnknownSince.IsZero()
	}))
	add("fenced_settle", "a settlement came too late and was refused (replicas' logs)", false, strings.Count(logs, "a settlement came too late"))
	add("store_unsure", "a write-ahead could not be made sure, and nothing was sent (replicas' logs)", false, strings.Count(logs, "write-ahead failed"))
	add("settled_later", "a result was known before it could be stored (replicas' logs)", false, strings.Count(logs, "the result is not stored yet"))
	add("store_alone", "Redis could not be asked and the store decided alone (replicas' logs)", false, strings.Count(logs, "the store decides alone"))
	add("lost_claim", "a result from before Redis lost its memory was asked for after it", false, forgotten(run))
	add("parked", "an unknown was left to a person", true, receipts(func(r history.Receipt) bool { return r.Parked != "" }))
	add("resolved", "a person settled an unknown", true, receipts(func(r history.Receipt) bool { return r.SettledBy == "operator" && r.Actions["resolve"] > 0 }))
	add("approved", "a person approved", true, did("approve"))
	add("declined", "a person declined", false, receipts(func(r history.Receipt) bool { return r.Reason == "declined" }))
	add("doubt", "a receipt says that it may have happened twice", false, receipts(func(r history.Receipt) bool { return r.Doubt != "" }))
	add("probed", "another tenant asked for a receipt", true, len(run.Probes))
	add("killed", "a process was killed", chaos, faults("kill", "restart"))
	add("paused", "a replica slept past its leases", chaos, faults("stop"))
	add("cut", "a link was cut or lost answers", chaos, faults("cut", "stall", "deaf"))
	add("failover", "Redis or PostgreSQL failed over", false, faults("failover", "promote"))
	return all
}

// unheard counts effects whose first caller got no answer, or none that told of it.
func unheard(run *history.Run) int {
	n := 0
	for _, e := range run.Effects {
		switch e.Mode {
		case "hang_after", "reset_after", "error_after", "cut_after", "late":
			n++
		}
	}
	return n
}

func decided(run *history.Run, decision string) int {
	n := 0
	for _, r := range run.Receipts {
		n += r.Decisions[decision]
	}
	return n
}

// forgotten counts answers to calls that were settled before Redis lost its memory, and
// asked for after that.
func forgotten(run *history.Run) int {
	settled := map[string]history.Receipt{}
	for _, r := range run.Receipts {
		settled[r.Key] = r
	}
	n := 0
	for _, a := range run.Attempts {
		r, ok := settled[a.Key]
		if !ok || a.Status != "completed" {
			continue
		}
		for _, f := range run.Faults {
			if f.Kind == "flush" && r.SettledAt.Before(f.At) && a.Sent.After(f.At) {
				n++
				break
			}
		}
	}
	return n
}
