package intent

import (
	"encoding/json"
	"time"
)

// Receipt is the record a caller can hold on to, and the row that the durable store keeps.
// Times are UTC, cut to microseconds (what PostgreSQL keeps), so that a receipt reads the
// same wherever it comes from.
type Receipt struct {
	Key         Key
	Guard       Guard // equals Key where the step is not guarded
	Fingerprint Fingerprint

	Tenant, Tool  string
	Class         Class
	Durability    Durability
	RunID, StepID string // labels; empty where an explicit key was given without them
	Occurrence    int

	Args []byte // normalised arguments as JSON, redacted members masked

	Status     Status
	Retry      Retry         // RetryNever unless rejected or started
	RetryAfter time.Duration // 0: no hint
	Reason     string        // bounded, from this code base; never downstream text
	Outcome    *Outcome      // nil until settled by an answer; nil in a tombstone
	Expired    bool          // a tombstone: the result is no longer retained (410)

	Fence   uint64  // 1, 2, 3 ... counts the claims that could lead to an execution
	Version uint64  // counts changes of this row; with Fence it makes the ETag
	ClaimID ClaimID // who holds, or last held, the claim

	Attempts   int // arrivals known when this copy was made
	Executions int // executions that were not provably unsent

	CreatedAt    time.Time
	StartedAt    time.Time // of the current execution; zero while none was begun
	SettleBy     time.Time // without a live lease, started is lost after this time
	UnknownSince time.Time
	SettledAt    time.Time
	SettledBy    string // "downstream", "gateway", "lookup", "operator"
	Evidence     []byte // JSON; what a lookup or an operator brought

	Recovery // what goes on while it is unknown or awaits approval

	Template        string // names the form in which the request was sent (downstream.Tool.Template)
	Sealed          []byte // arguments that Args masks and a later execution needs, encrypted; gone once settled
	Traceparent     string // W3C trace context of the execution's span
	Replica, Region string // who executes
	Durable         bool   // the store has acknowledged this state
}

// Outcome is a downstream's answer, byte for byte less hop-by-hop and secret headers.
// A body over the cap is kept as its length and hash only (Truncated).
type Outcome struct {
	HTTPStatus int
	Headers    map[string]string // lower-case names
	Body       []byte
	Truncated  bool
	Length     int64  // of the whole body, set when Truncated
	SHA256     string // hex, of the whole body, set when Truncated
}

// Execution is one downstream request made for a key: the receipt's current one, or one
// that a later execution has superseded.
type Execution struct {
	Key         Key
	Fence       uint64
	ClaimID     ClaimID
	StartedAt   time.Time
	EndedAt     time.Time // zero while it runs or is unknown
	Status      Status    // how it ended: unknown, completed or rejected; started while it runs
	Retry       Retry
	Reason      string
	HTTPStatus  int // 0: no answer
	Traceparent string
	Replica     string
	Region      string
}

// Execution returns the receipt's current execution; false while none was begun, which is so
// while it awaits approval and after it was declined.
func (r *Receipt) Execution() (Execution, bool) {
	if r.StartedAt.IsZero() {
		return Execution{}, false
	}
	e := Execution{
		Key: r.Key, Fence: r.Fence, ClaimID: r.ClaimID, StartedAt: r.StartedAt, EndedAt: r.SettledAt,
		Status: r.Status, Retry: r.Retry, Reason: r.Reason,
		Traceparent: r.Traceparent, Replica: r.Replica, Region: r.Region,
	}
	if r.Outcome != nil {
		e.HTTPStatus = r.Outcome.HTTPStatus
	}
	return e, true
}

// Attempt is one arrival of a call for a key, first or duplicate.
type Attempt struct {
	Key        Key
	Tenant     string
	Tool       string
	At         time.Time
	Decision   Decision
	TraceID    string // 32 hex digits
	SpanID     string // 16 hex digits
	Replica    string
	Region     string
	Credential string // id of the API key, never the key
}

// Micros cuts a time to what every store keeps.
func Micros(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// evidence returns the receipt's evidence as a JSON value, null when there is none.
func (r *Receipt) evidence() json.RawMessage {
	if len(r.Evidence) == 0 {
		return json.RawMessage("null")
	}
	return r.Evidence
}
