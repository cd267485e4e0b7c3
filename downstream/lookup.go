package downstream

import (
	"context"

	"github.com/latchkey-gateway/latchkey/intent"
)

// Proof is what a lookup proved.
type Proof uint8

const (
	// Nothing was proved, for whatever reason.
	Nothing Proof = iota
	// Happened: completed_when was true, and absent_when was not.
	Happened
	// Absent: absent_when was true, and completed_when was not. Whether it came too early and
	// whether it counts at all is for the caller to say (DESIGN §5).
	Absent
)

// Finding is what a lookup found out.
type Finding struct {
	Proof    Proof
	Outcome  *intent.Outcome // of what happened, for callers; nil where the answer does not hold it
	Evidence []byte          // JSON for the receipt, without redacted arguments
	Why      string          // bounded word: why nothing was proved
}

// Lookup asks the downstream whether the action happened. call.Tool MUST have a lookup. It
// only asks, so it may be called as often as anybody likes.
func (c *Client) Lookup(ctx context.Context, call Call) Finding {
	return Finding{Why: notSentRequest, Evidence: []byte("{}")}
}
