package intent

import (
	"fmt"
	"time"
)

// Entry is one line of a receipt's audit: what happened to it besides arrivals of calls and
// their executions. Entries are only ever added.
type Entry struct {
	ID          int64 // given by the store, growing
	Key         Key
	Tenant      string
	Tool        string
	At          time.Time
	Actor       string // id of the credential; ActorGateway where no person did it
	Action      Action
	Reason      string // a person's words, or a bounded one of ours
	Before      string // Receipt.Standing before and after
	After       string
	Evidence    []byte // JSON, as the receipt's own; nil: none
	Traceparent string // of the span in which it was done; "" none
}

// ActorGateway is who acts when no person does.
const ActorGateway = "gateway"

// Action is what an entry tells of.
type Action uint8

const (
	_                 Action = iota
	ActionLookup             // the downstream was asked whether it happened
	ActionRetry              // executed again under the same downstream key
	ActionReexecute          // executed again because absence was proved, or a person said so
	ActionPark               // nobody but a person goes on
	ActionApprove            // a person approved these exact arguments
	ActionDecline            // a person declined
	ActionExpire             // nobody approved in time
	ActionResolve            // a person settled an unknown
	ActionWait               // a person said to keep waiting
	ActionLateAnswer         // an execution answered after its key had moved on
	ActionAcknowledge        // a person has seen to a doubt
)

var actionNames = names{"", "lookup", "retry", "reexecute", "park", "approve", "decline", "expire", "resolve", "wait", "late_answer", "acknowledge"}

// String returns the word used in the audit, spans and metrics.
func (a Action) String() string { return actionNames.text(uint8(a)) }

// ParseAction reads Action.String.
func ParseAction(s string) (Action, error) { return parse[Action](actionNames, "action", s) }

// Standing is the receipt's status and version in one word: "unknown 1.4".
func (r *Receipt) Standing() string { return fmt.Sprintf("%s %d.%d", r.Status, r.Fence, r.Version) }
