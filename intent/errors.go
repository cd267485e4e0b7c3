package intent

import "errors"

// Typed results of moves and look-ups. They are answers, not failures.
var (
	// ErrNone: there is no record under that key or guard.
	ErrNone = errors.New("no such record")
	// ErrStale: the fence or status moved meanwhile; nothing was changed.
	ErrStale = errors.New("stale: the record moved meanwhile")
	// ErrBadKey: not 64 hex digits.
	ErrBadKey = errors.New("a key is 64 hex digits")
	// ErrBadCursor: not a cursor that a list gave.
	ErrBadCursor = errors.New("the cursor is not one that this list gave")
)

// Category is a bounded class of failure, fit for a metric label and for choosing an HTTP
// status. The zero value is an internal error.
type Category uint8

const (
	Internal             Category = iota
	BadRequest                    // malformed JSON, key or id
	InvalidArguments              // arguments do not match the tool's input_schema
	KeyRequired                   // run, step or key missing where the class needs it
	NotFound                      // no such tool or receipt
	TooLarge                      // body over the cap
	UnsupportedMedia              // not JSON
	Unauthenticated               // no or unknown credential
	Forbidden                     // the credential's roles do not allow it
	ConflictArguments             // same key, other arguments
	ConflictStep                  // same slot, other key
	ResultExpired                 // the result is no longer retained
	NotSent                       // provably nothing was sent; the same call is safe
	DownstreamFailed              // a read-only tool's downstream failed
	DownstreamTimeout             // a read-only tool's downstream did not answer in time
	Overloaded                    // more calls in flight than limits.in_flight
	MethodNotAllowed              // the path exists, the method does not
	StateConflict                 // the receipt's status does not allow what was asked
	PreconditionFailed            // If-Match names another version of the receipt
	PreconditionRequired          // If-Match is missing where it is needed
)

var categoryCodes = [...]string{"internal", "bad_request", "invalid_arguments", "idempotency_key_required", "not_found",
	"too_large", "unsupported_media_type", "unauthenticated", "forbidden", "idempotency_conflict", "step_conflict",
	"result_expired", "not_sent", "downstream_error", "downstream_error", "overloaded", "method_not_allowed",
	"state_conflict", "precondition_failed", "precondition_required"}

// Code returns the problem's code of CONTRACT.md.
func (c Category) Code() string { return categoryCodes[c] }

// Error is a failure with a text that may be shown to the caller and a cause that may not.
type Error struct {
	Category Category
	Public   string // one or two sentences; never arguments, results or secrets
	Pointer  string // RFC 6901, where an argument is at fault
	Earlier  Key    // the earlier receipt, for conflicts
	Reason   string // bounded word, for logs and metrics
	cause    error
}

// Errorf makes an Error; cause may be nil.
func Errorf(c Category, cause error, public string) *Error {
	return &Error{Category: c, Public: public, cause: cause}
}

func (e *Error) Error() string {
	if e.cause == nil {
		return e.Category.Code() + ": " + e.Public
	}
	return e.Category.Code() + ": " + e.Public + ": " + e.cause.Error()
}

func (e *Error) Unwrap() error { return e.cause }
