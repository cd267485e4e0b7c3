package config

import "time"

// Downstream is one HTTP service that tools act on.
type Downstream struct {
	// BaseURL is what the tools' paths are appended to; http or https.
	BaseURL string `yaml:"base_url"`
	// Timeout is how long its tools wait for an answer unless they say otherwise.
	Timeout time.Duration `yaml:"timeout" default:"30s" min:"1ms"`
	// MaxInFlight is how many calls this replica has open to it at once. Lookups have an
	// eighth of that on top, at least 1 and at most 16, so that neither waits for the other.
	MaxInFlight int `yaml:"max_in_flight" default:"256" min:"1"`
	// Headers are sent with every request. Default: none.
	Headers map[string]string `yaml:"headers"`
	Breaker Breaker           `yaml:"breaker"`
}

// Breaker stops calling a downstream that fails.
type Breaker struct {
	// Window is how far back failures are counted.
	Window time.Duration `yaml:"window" default:"30s" min:"1ms"`
	// MinRequests is how many requests the window must hold before the breaker may open.
	MinRequests int `yaml:"min_requests" default:"20" min:"1"`
	// FailureRatio is the share of failures, 0 to 1, from which on it opens.
	FailureRatio float64 `yaml:"failure_ratio" default:"0.5" min:"0.001" max:"1"`
	// OpenFor is how long it stays open before probes are let through.
	OpenFor time.Duration `yaml:"open_for" default:"10s" min:"1ms"`
	// HalfOpenProbes is how many probes are let through, and must succeed to close it.
	HalfOpenProbes int `yaml:"half_open_probes" default:"3" min:"1"`
}

// Tool is what agents may call.
type Tool struct {
	// Class says what a second call would do. Required: an unclassed tool does not load.
	Class string `yaml:"class" oneof:"read_only,idempotent,effectful,irreversible"`
	// Description tells agents what the tool does. Default: none.
	Description string `yaml:"description"`
	// InputSchema is the JSON Schema of the arguments. Default: any object.
	InputSchema JSON `yaml:"input_schema"`
	// Downstream names the service that the tool acts on. Required.
	Downstream string `yaml:"downstream"`
	// Request is the request to be made. Required.
	Request Request `yaml:"request"`
	// Timeout is how long an answer is waited for. Default: the downstream's.
	Timeout time.Duration `yaml:"timeout" min:"1ms"`
	// Identity are JSON Pointers to the arguments that say what is intended. Default: all
	// that are not volatile.
	Identity []string `yaml:"identity"`
	// Volatile are JSON Pointers to arguments that differ between retries. Default: none.
	Volatile []string `yaml:"volatile"`
	// Normalise lists steps (trim, lowercase, nfc, collapse_space) by JSON Pointer.
	// Default: none.
	Normalise map[string][]string `yaml:"normalise"`
	// Redact are JSON Pointers to arguments never kept, logged or traced in clear.
	// Default: none.
	Redact []string `yaml:"redact"`
	// Durability is durable (in the store before the effect) or hot (in Redis only).
	// Default: durable; read_only tools keep nothing.
	// With an embedded Redis, which forgets when its process ends, hot tools are kept durably.
	Durability string `yaml:"durability" oneof:"durable,hot"`
	// StepGuard lets one key at a time act in a step: on or off. Default: on for effectful
	// and irreversible tools, off for the others.
	StepGuard Switch `yaml:"step_guard"`
	// ForwardKey sends the key along to the downstream. Default: it is not sent.
	ForwardKey *ForwardKey `yaml:"forward_key"`
	// Statuses says what an HTTP status of this provider means: accepted, not_accepted,
	// not_accepted_for_now or unknown. Default: DESIGN §5.
	Statuses map[int]string `yaml:"statuses" oneof:"accepted,not_accepted,not_accepted_for_now,unknown"`
	// ResponseHeaders are further response headers that a receipt keeps. Default: none.
	ResponseHeaders []string `yaml:"response_headers"`
	// OnUnknown is what to do about an unknown outcome: lookup, retry or park. Default:
	// lookup where there is one, else retry for idempotent tools and park for the others.
	OnUnknown string `yaml:"on_unknown" oneof:"lookup,retry,park"`
	// Lookup asks the downstream whether the action happened. Default: none.
	Lookup *Lookup `yaml:"lookup"`
	// Approval makes a person approve the exact arguments first. Irreversible tools always
	// have one; the others only if it is given.
	Approval *Approval `yaml:"approval"`
}

// Request is a request template. {args.x}, {key}, {run_id} and {step_id} may stand in path
// and query, always escaped, and in the strings of a body template.
type Request struct {
	// Method is the HTTP method. Required.
	Method string `yaml:"method"`
	// Path is appended to the downstream's base_url; it may have a query. Required.
	Path string `yaml:"path"`
	// Body is args (the arguments as JSON), none, or a mapping to be filled in. Default:
	// args for POST, PUT and PATCH, else none.
	Body Body `yaml:"body"`
}

// ForwardKey sends the key along.
type ForwardKey struct {
	// Header carries the key.
	Header string `yaml:"header" default:"Idempotency-Key"`
	// Dedupes says that the downstream acts once per key. It makes a retry safe: set it
	// only if the provider promises it.
	Dedupes bool `yaml:"dedupes" default:"false"`
	// For is how long the provider remembers a key. Required with dedupes.
	For time.Duration `yaml:"for" min:"1s"`
}

// Lookup asks whether the action happened. The three rules are CEL expressions over
// response.status, response.headers (names in lower case), response.body (null where it is
// not JSON), args, key, run_id and step_id. They are not evaluated on an answer that proves
// nothing: 5xx, 3xx, 401, 403, 407, 408, 425, 429, longer than 1 MiB, cut short, or not JSON
// (but for plain text outside 2xx). Nor does one prove anything on which a rule is in error,
// or both are true.
type Lookup struct {
	// Request is the question; it must have no effect. Required.
	Request Request `yaml:"request"`
	// SettleAfter is how long the downstream may take to show an action. It counts from when
	// the outcome became unknown, which is later than the request was sent; from then on
	// absence counts.
	SettleAfter time.Duration `yaml:"settle_after" default:"60s" min:"1ms"`
	// Every is the pause between two questions at first; then it backs off.
	Every time.Duration `yaml:"every" default:"5s" min:"1ms"`
	// GiveUpAfter, also counted from then, is when the key is parked for a person.
	GiveUpAfter time.Duration `yaml:"give_up_after" default:"24h" min:"1s"`
	// CompletedWhen is true when the answer shows that it happened. Required.
	CompletedWhen string `yaml:"completed_when"`
	// Result picks the result from the answer; numbers keep their digits. Default: the
	// answer's body.
	Result string `yaml:"result"`
	// AbsentWhen is true when the answer shows no trace of it. Default: never.
	AbsentWhen string `yaml:"absent_when"`
	// AbsenceIsProof says that no trace after settle_after means that it did not happen
	// and never will. Set it only if the provider promises it.
	AbsenceIsProof bool `yaml:"absence_is_proof" default:"false"`
	// ReexecuteWhenAbsent acts again, without a new call, where absence is proved. It needs
	// absence_is_proof. Without it the key is rejected, and the same call may be sent again.
	ReexecuteWhenAbsent bool `yaml:"reexecute_when_absent" default:"false"`
}

// Approval makes a person approve first.
type Approval struct {
	// Expires is how long an approval is waited for; then the call is rejected.
	Expires time.Duration `yaml:"expires" default:"1h" min:"1s"`
	// People is how many different people must approve: 1 or 2.
	People int `yaml:"people" default:"1" min:"1" max:"2"`
}
