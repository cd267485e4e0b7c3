package downstream

import (
	"net/http"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/latchkey-gateway/latchkey/intent"
)

// UnknownPolicy says what resolves an unknown outcome (DESIGN §5).
type UnknownPolicy string

const (
	// ParkUnknown: a person resolves it.
	ParkUnknown UnknownPolicy = "park"
	// RetryUnknown: executed again, which is safe only where the downstream dedupes on the
	// forwarded key and its window has not passed, or a second call leaves the same state.
	RetryUnknown UnknownPolicy = "retry"
	// LookupUnknown: the downstream is asked whether it happened.
	LookupUnknown UnknownPolicy = "lookup"
)

// Tool is a checked ToolSpec with the defaults of its class filled in. It is immutable and
// safe for concurrent use.
type Tool struct {
	Name        string
	Description string
	Class       intent.Class
	Durability  intent.Durability // zero for read_only tools: nothing is kept
	Rules       intent.Rules
	Schema      []byte // input_schema as JSON; nil: any object

	Downstream string
	Method     string
	Timeout    time.Duration // of one execution: connecting, sending and reading the answer

	ForwardHeader string        // header that carries the key; "" where it is not sent along
	Dedupes       bool          // the downstream acts once per forwarded key
	DedupesFor    time.Duration // for how long it remembers a key; 0: not known

	Statuses  map[int]string
	OnUnknown UnknownPolicy // "" for read_only tools
	Lookup    *LookupSpec   // with defaults filled in; nil without one
	Approval  *ApprovalSpec // nil where no person is asked

	NeedsRunID  bool // the request cannot be made without a run id
	NeedsStepID bool // the request cannot be made without a step id

	schema     *jsonschema.Schema
	request    *request
	lookup     *request
	downstream *target
	keep       map[string]bool // response headers kept besides the usual, lower case
	answerTo   *http.Request   // what http.ReadResponse must know of the request: its method
}
