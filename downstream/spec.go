package downstream

import (
	"fmt"
	"time"
)

// Spec describes a downstream: one HTTP service that tools act on.
type Spec struct {
	Name        string
	BaseURL     string
	Timeout     time.Duration // default for its tools
	MaxInFlight int           // concurrency permits; lookups have an eighth of that on top, 1 to 16
	Headers     map[string]string
	Breaker     BreakerSpec
}

// BreakerSpec: over a rolling Window, at least MinRequests and a share of failures of at
// least FailureRatio open the breaker for OpenFor; then HalfOpenProbes calls are let through.
type BreakerSpec struct {
	Window         time.Duration
	MinRequests    int
	FailureRatio   float64
	OpenFor        time.Duration
	HalfOpenProbes int
}

// ToolSpec describes a tool as the config gives it.
type ToolSpec struct {
	Name        string
	Class       string // required: an unclassed tool does not load
	Description string
	InputSchema []byte // JSON Schema as JSON; nil: any object
	Downstream  string
	Request     RequestSpec
	Timeout     time.Duration // 0: the downstream's

	Identity  []string // JSON Pointers
	Volatile  []string
	Normalise map[string][]string
	Redact    []string

	Durability string // "", durable, hot
	StepGuard  string // "", on, off

	ForwardKey      *ForwardKeySpec
	Statuses        map[int]string // accepted | not_accepted | not_accepted_for_now | unknown
	ResponseHeaders []string       // further response headers that a receipt keeps

	OnUnknown string // "", lookup, retry, park
	Lookup    *LookupSpec
	Approval  *ApprovalSpec
}

// RequestSpec is a request template. {args.x}, {key}, {run_id} and {step_id} are allowed in
// path and query, always escaped. Body is "args", "none" or, in Template, a JSON object
// whose string values may hold the same placeholders; a string that is one placeholder
// becomes that argument's JSON value.
type RequestSpec struct {
	Method   string
	Path     string
	Body     string
	Template []byte
}

// ForwardKeySpec says in which header the key is sent along, whether the downstream
// dedupes on it, and for how long.
type ForwardKeySpec struct {
	Header  string
	Dedupes bool
	For     time.Duration
}

// LookupSpec says how to ask whether the action happened. The three rules are CEL over
// response (status, headers with names in lower case, body: null where it is not JSON), args,
// key, run_id and step_id. SettleAfter and GiveUpAfter count from when the outcome became
// unknown, which is later than when the request was sent.
type LookupSpec struct {
	Request        RequestSpec
	SettleAfter    time.Duration // from then on absence counts
	Every          time.Duration // between lookups, at first
	GiveUpAfter    time.Duration // then a person decides
	CompletedWhen  string
	Result         string
	AbsentWhen     string
	AbsenceIsProof bool
	// ReexecuteWhenAbsent acts again where absence is proved; else the caller is told that it
	// may. It needs AbsenceIsProof.
	ReexecuteWhenAbsent bool
}

// ApprovalSpec: how long an approval is waited for, and how many different people must give
// theirs.
type ApprovalSpec struct {
	Expires time.Duration
	People  int // 0: one
}

// FieldError says which config field is wrong and how to put it right.
type FieldError struct {
	Field string // "tools.send_invoice_email.request.path"
	Msg   string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Msg }

func badField(field, format string, a ...any) error {
	return &FieldError{Field: field, Msg: fmt.Sprintf(format, a...)}
}
