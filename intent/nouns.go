package intent

import (
	"encoding/hex"
	"fmt"
)

// Digest is a SHA-256 sum. Key, Guard and Fingerprint are digests of different things;
// they are separate types so that one cannot stand in for another.
type Digest [32]byte

// Key names one intention: a hash of the slot and the identity arguments (DESIGN §2).
type Key Digest

// Guard names what a claim is held on: the slot where the tool guards its step (then one
// key at a time may hold the slot), else the key itself. A guard is one Redis key and one
// unique value in the store.
type Guard Digest

// Fingerprint is a hash of all arguments less the volatile ones: it tells a changed mind
// from a retry.
type Fingerprint Digest

// String returns 64 lower-case hex digits.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// Short returns the first 8 hex digits: all that a log line may carry.
func (k Key) Short() string { return hex.EncodeToString(k[:4]) }

// String returns 64 lower-case hex digits.
func (g Guard) String() string { return hex.EncodeToString(g[:]) }

// String returns "sha256:" and 64 hex digits, the form a receipt shows.
func (f Fingerprint) String() string { return "sha256:" + hex.EncodeToString(f[:]) }

// ParseKey reads 64 hex digits, in either case; anything else is ErrBadKey.
func ParseKey(s string) (Key, error) {
	var k Key
	if len(s) != 64 {
		return k, ErrBadKey
	}
	if _, err := hex.Decode(k[:], []byte(s)); err != nil {
		return Key{}, ErrBadKey
	}
	return k, nil
}

// ClaimID is 16 random bytes that name one claimant of a key. Asking twice with the same
// id is one ask: that makes claim and write-ahead safe to repeat after a lost reply.
type ClaimID [16]byte

// String returns 32 hex digits.
func (c ClaimID) String() string { return hex.EncodeToString(c[:]) }

// Class says what a second call of a tool would do (DESIGN §6).
type Class uint8

const (
	_            Class = iota // an unclassed tool does not load
	ReadOnly                  // harmless to repeat: forwarded, no receipt
	Idempotent                // same state, maybe a second audit entry: collapsed and replayed
	Effectful                 // a second effect: the whole order of things
	Irreversible              // a second effect nobody can undo: a person approves first
)

var classNames = names{"", "read_only", "idempotent", "effectful", "irreversible"}

// String returns the word used in config, receipts and spans.
func (c Class) String() string { return classNames.text(uint8(c)) }

// ParseClass reads Class.String.
func ParseClass(s string) (Class, error) { return parse[Class](classNames, "class", s) }

// Status is where a key stands. The zero value is no status at all.
type Status uint8

const (
	_ Status = iota

	// AwaitingApproval: a person must approve these exact arguments. Entered by Hold, left
	// by Approve or Decline. Nothing has been sent; a crash leaves it as it is.
	AwaitingApproval

	// Started: one claimant may be acting. Entered by Begin, Approve, Again or Reexecute,
	// left by Complete, Reject or Lose. After a crash its lease runs out and it is lost.
	Started

	// Unknown: it may have happened. Entered by Lose, left by evidence (Complete, Reject)
	// or by Reexecute, which needs a reason that makes a second execution safe.
	Unknown

	// Completed: it happened, and this is the result. Final.
	Completed

	// Rejected: it did not happen. Ends the execution; Again starts another one when the
	// retry word allows it.
	Rejected
)

var statusNames = names{"", "awaiting_approval", "started", "unknown", "completed", "rejected"}

// String returns the word used in receipts, SQL, spans and metrics.
func (s Status) String() string { return statusNames.text(uint8(s)) }

// ParseStatus reads Status.String.
func ParseStatus(s string) (Status, error) { return parse[Status](statusNames, "status", s) }

// Settled says whether evidence has decided: completed or rejected.
func (s Status) Settled() bool { return s == Completed || s == Rejected }

// Retry tells a caller what it may do next.
type Retry uint8

const (
	_              Retry = iota
	RetryNever           // do not repeat this action in any form
	RetrySameKey         // the same call again is safe: nothing was done, or it will be joined
	RetryCorrected       // the same call again would be refused again; a corrected one is safe
)

var retryNames = names{"", "never", "same_key", "corrected"}

// String returns the word used in receipts and problems.
func (r Retry) String() string { return retryNames.text(uint8(r)) }

// ParseRetry reads Retry.String.
func ParseRetry(s string) (Retry, error) { return parse[Retry](retryNames, "retry", s) }

// Durability says where a key is written before the effect.
type Durability uint8

const (
	_       Durability = iota
	Durable            // in the durable store, before the effect and after it
	Hot                // in Redis only; the promise is bounded by the hot window
)

var durabilityNames = names{"", "durable", "hot"}

// String returns the word used in config.
func (d Durability) String() string { return durabilityNames.text(uint8(d)) }

// ParseDurability reads Durability.String.
func ParseDurability(s string) (Durability, error) {
	return parse[Durability](durabilityNames, "durability", s)
}

// Decision is what became of one arrival of a call.
type Decision uint8

const (
	_            Decision = iota
	Executed              // this arrival's claim led to the execution
	Collapsed             // joined a call that was in flight, and got its result
	Replayed              // got a result that was there already
	Mismatch              // same key, other arguments: nothing ran
	StepConflict          // same slot, other key: nothing ran
	Refused               // provably not sent, or not accepted for now
	Pending               // left with "started", "unknown" or "awaiting_approval"
)

var decisionNames = names{"", "executed", "collapsed", "replayed", "mismatch", "step_conflict", "refused", "pending"}

// String returns the word used in the attempts journal, spans and metrics.
func (d Decision) String() string { return decisionNames.text(uint8(d)) }

// ParseDecision reads Decision.String.
func ParseDecision(s string) (Decision, error) { return parse[Decision](decisionNames, "decision", s) }

// names maps a small enumeration to its words and back; index 0 is the invalid zero value.
type names []string

func (n names) text(i uint8) string {
	if i == 0 || int(i) >= len(n) {
		return "invalid"
	}
	return n[i]
}

// optional is text for an enumeration whose zero value means "none".
func optional(n names, i uint8) string {
	if i == 0 {
		return ""
	}
	return n.text(i)
}

func parseOptional[T ~uint8](n names, what, s string) (T, error) {
	if s == "" {
		return 0, nil
	}
	return parse[T](n, what, s)
}

func parse[T ~uint8](n names, what, s string) (T, error) {
	for i, name := range n {
		if i > 0 && name == s {
			return T(i), nil
		}
	}
	return 0, fmt.Errorf("%s %q is not one of %v", what, s, []string(n[1:]))
}
