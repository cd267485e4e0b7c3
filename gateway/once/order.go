package once

import (
	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/tracing"
)

// Order is a person's decision about one receipt.
type Order struct {
	Tenant string
	Key    intent.Key
	By     string // id of the credential
	Reason string // MUST NOT be empty: it is kept in the audit
	If     *Tag   // the version that the person saw; nil: whatever stands
	Span   tracing.Span
}

// Tag is a receipt's ETag, taken apart.
type Tag struct{ Fence, Version uint64 }

// Resolution is what a person found out about an unknown key.
type Resolution struct {
	Status intent.Status // completed or rejected
	Retry  intent.Retry  // of a rejected one: same_key (0 means that) or corrected
	Result []byte        // JSON for callers, where completed; nil: none
}
