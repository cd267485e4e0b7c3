// Package history holds what a run saw, as plain facts: what agents sent and were told,
// what they said in the end, what happened on the downstream, and which receipts stand. The
// parts of a run write it and the checker reads it; nothing here decides anything.
package history

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// Attempt is one request of an agent for an intent, and what came back.
type Attempt struct {
	Intent  int    `json:"intent"`
	Tenant  string `json:"tenant"`
	Tool    string `json:"tool"`
	Ref     string `json:"ref"`     // names the intent on the downstream's ledger
	Wording string `json:"wording"` // what was sent, see Wording
	Why     Why    `json:"why"`
	Door    string `json:"door"` // the address that was asked

	Sent time.Time `json:"sent"`
	Got  time.Time `json:"got"` // zero: no answer

	HTTP     int    `json:"http,omitempty"` // 0: no answer
	Err      string `json:"err,omitempty"`
	Key      string `json:"key,omitempty"`
	Status   string `json:"status,omitempty"` // of the receipt; "" where there is none
	Retry    string `json:"retry,omitempty"`
	Code     string `json:"code,omitempty"`    // of a problem
	Earlier  string `json:"earlier,omitempty"` // the key that a step conflict names
	Replayed bool   `json:"replayed,omitempty"`
	Durable  bool   `json:"durable,omitempty"`
	Result   string `json:"result,omitempty"` // Digest of the outcome
	Effect   string `json:"effect,omitempty"` // the effect's id, as the outcome names it
	Leaked   bool   `json:"leaked,omitempty"` // a refusal showed stored arguments or results
}

// Why is what made an agent send a request.
type Why string

// Each is something that real agents, their libraries and their hosts do.
const (
	First     Why = "first"
	SDKRetry  Why = "sdk_retry"  // the client library tries again by itself
	HostRetry Why = "host_retry" // the host program runs the step again
	Parallel  Why = "parallel"   // the same call once more within milliseconds
	Dispatch  Why = "dispatch"   // two schedulers gave the step to two agents
	Restart   Why = "restart"    // the agent's process died and came back
	Ignoring  Why = "ignoring"   // told to wait, it sends again all the same
	Final     Why = "final"      // the very same call long after the end
)

// Word is the last thing that is said about an intent to the person who wanted it.
type Word struct {
	Intent int       `json:"intent"`
	Tenant string    `json:"tenant"`
	Tool   string    `json:"tool"`
	Ref    string    `json:"ref"`
	Said   Saying    `json:"said"`
	At     time.Time `json:"at"`
	// From is where the first try began.
	From time.Time `json:"from"`
}

// Saying is what an agent claims.
type Saying string

// What an agent may say.
const (
	Done    Saying = "done"
	NotDone Saying = "not_done" // it did not happen
	Waiting Saying = "waiting"  // it is not known, or waits for somebody
	Unclear Saying = "unclear"  // no answer ever came
)

// Effect is one thing that really happened on the downstream.
type Effect struct {
	ID      string    `json:"id"`
	Service string    `json:"service"`
	Ref     string    `json:"ref"`
	Key     string    `json:"key,omitempty"` // as forwarded
	Wording string    `json:"wording"`
	Mode    string    `json:"mode"` // how the downstream behaved on this request
	At      time.Time `json:"at"`
}

// Receipt is how a receipt stands after the run.
type Receipt struct {
	Key        string `json:"key"`
	Tool       string `json:"tool"`
	Class      string `json:"class"`
	Tenant     string `json:"tenant"`
	RunID      string `json:"run_id"`
	StepID     string `json:"step_id"`
	Ref        string `json:"ref"`
	Wording    string `json:"wording"`
	Status     string `json:"status"`
	Retry      string `json:"retry"`
	Reason     string `json:"reason"`
	SettledBy  string `json:"settled_by"`
	Result     string `json:"result"`
	Effect     string `json:"effect"`
	Truncated  bool   `json:"truncated"`
	Doubt      string `json:"doubt"`
	Parked     string `json:"parked"`
	Attempts   int    `json:"attempts"`
	Executions int    `json:"executions"`
	Fence      int    `json:"fence"`

	CreatedAt    time.Time `json:"created_at"`
	SettledAt    time.Time `json:"settled_at"`
	UnknownSince time.Time `json:"unknown_since"` // zero: never unknown, or executed again since

	// Actions and Decisions count what the audit and the attempts of this receipt tell.
	Actions   map[string]int `json:"actions,omitempty"`
	Decisions map[string]int `json:"decisions,omitempty"`
}

// Probe is an attempt of one tenant to see what is another's.
type Probe struct {
	Key    string    `json:"key"`
	Owner  string    `json:"owner"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	HTTP   int       `json:"http"`
	Leaked bool      `json:"leaked"` // the answer shows something of the receipt
}

// Fault is something that was done to the processes and links of a run.
type Fault struct {
	At     time.Time     `json:"at"`
	For    time.Duration `json:"for"`
	Kind   string        `json:"kind"`
	Victim string        `json:"victim"`
	Note   string        `json:"note,omitempty"`
}

// Run is everything that was seen.
type Run struct {
	Seed     uint64    `json:"seed"`
	Intents  int       `json:"intents"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Attempts []Attempt `json:"attempts"`
	Words    []Word    `json:"words"`
	Probes   []Probe   `json:"probes"`
	Effects  []Effect  `json:"effects"`
	Receipts []Receipt `json:"receipts"`
	Faults   []Fault   `json:"faults"`
	// Direct: there was no gateway, so there are no receipts.
	Direct bool `json:"direct"`
}

// Wording is the part of the arguments that a model may reword. The gateway's config
// normalises "to" in the same way, so that both mean the same by "the same wording".
func Wording(to, memo string) string { return strings.ToLower(strings.TrimSpace(to)) + " | " + memo }

// Words takes a Wording apart.
func Words(wording string) (to, memo string) {
	to, memo, _ = strings.Cut(wording, " | ")
	return to, memo
}

// Digest names a text by its hash.
func Digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
