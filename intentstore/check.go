package intentstore

import (
	"math"

	"github.com/latchkey-gateway/latchkey/intent"
)

// RowError says why one receipt or settlement cannot be stored. Nothing was written, and
// asking again with the same value gives the same error.
type RowError struct {
	Field string // as the column is called
	Why   string
}

func (e *RowError) Error() string { return "intentstore: " + e.Field + " " + e.Why }

// Limits of what one row may hold, in bytes. They are far above what the gateway lets in
// (limits.body, limits.result) and keep one absurd row from failing a whole batch.
const (
	MaxText   = 1 << 10
	MaxBody   = 64 << 20
	MaxReason = 8 << 10 // a person's words in the audit

	longText = "is longer than 1024 bytes"
	longBody = "is longer than 64 MiB"
)

// CheckReceipt says whether a receipt can be a row, before it is put into a batch: a bad
// row must fail alone and not take its neighbours along. The rules on status are those of
// the tables' CHECK constraints. The error is a *RowError.
func CheckReceipt(r *intent.Receipt) error {
	var c checker
	c.digest("key", intent.Digest(r.Key))
	c.digest("guard", intent.Digest(r.Guard))
	c.word("class", r.Class.String())
	c.word("durability", r.Durability.String())
	c.word("status", r.Status.String())
	c.word("retry", r.Retry.String())
	c.text("tenant", r.Tenant)
	c.text("tool", r.Tool)
	c.text("run_id", r.RunID)
	c.text("step_id", r.StepID)
	c.text("reason", r.Reason)
	c.text("settled_by", r.SettledBy)
	c.text("traceparent", r.Traceparent)
	c.text("replica", r.Replica)
	c.text("region", r.Region)
	c.text("template", r.Template)
	c.readable("args", r.Args)
	c.readable("evidence", r.Evidence)
	c.must("sealed", len(r.Sealed) <= MaxBody, longBody)
	c.outcome(r.Outcome)
	c.recovery(&r.Recovery)
	c.must("tenant", r.Tenant != "", "must not be empty")
	c.must("claim_id", r.ClaimID != intent.ClaimID{}, "must not be zero")
	c.must("occurrence", r.Occurrence >= 0 && r.Occurrence <= math.MaxInt32, "is out of range")
	c.must("attempts", r.Attempts >= 0 && r.Attempts <= math.MaxInt32, "is out of range")
	c.must("executions", r.Executions >= 0 && r.Executions <= math.MaxInt32, "is out of range")
	c.must("fence", r.Fence >= 1 && r.Fence <= math.MaxInt64, "is out of range")
	c.must("version", r.Version <= math.MaxInt64, "is out of range")
	c.must("retry_after", r.RetryAfter >= 0, "is negative")
	c.must("created_at", !r.CreatedAt.IsZero(), "must be set")
	c.time("created_at", r.CreatedAt)
	c.time("started_at", r.StartedAt)
	c.time("settle_by", r.SettleBy)
	c.time("unknown_since", r.UnknownSince)
	c.time("settled_at", r.SettledAt)
	c.state(r)
	return c.error()
}

// CheckBegin says whether a receipt can be written ahead of an effect.
func CheckBegin(r *intent.Receipt) error {
	if r.Status != intent.Started && r.Status != intent.AwaitingApproval {
		return &RowError{"status", "must be started or awaiting_approval to begin"}
	}
	return CheckReceipt(r)
}

// CheckQuery says whether a query can be asked; the error is a *RowError. Without a tenant
// it would show one tenant's receipts to another.
func CheckQuery(q *Query) error {
	var c checker
	c.must("tenant", q.Tenant != "", "must be set in a query")
	c.text("tenant", q.Tenant)
	c.text("run_id", q.RunID)
	c.text("step_id", q.StepID)
	c.text("tool", q.Tool)
	return c.error()
}

// state repeats the CHECK constraints of the tables.
func (c *checker) state(r *intent.Receipt) {
	c.must("retry", r.Retry == intent.RetryNever || r.Status == intent.Started || r.Status == intent.Rejected,
		"must be never unless the row is started or rejected")
	c.plan(&r.Plan, r.Status)
	c.must("sealed", !r.Status.Settled() || r.Sealed == nil, "must be gone where the row is completed or rejected")
	c.must("settled_at", r.Status.Settled() != r.SettledAt.IsZero(), "must be set if and only if the row is completed or rejected")
	c.must("settled_by", !r.Status.Settled() || r.SettledBy != "", "must be set where the row is completed or rejected")
	switch r.Status {
	case intent.AwaitingApproval:
		c.must("outcome", r.Outcome == nil, "must be nil before an execution")
		c.must("started_at", r.StartedAt.IsZero(), "must not be set before an execution")
	case intent.Started:
		c.must("outcome", r.Outcome == nil, "must be nil while started")
		fallthrough
	case intent.Completed:
		c.must("started_at", !r.StartedAt.IsZero(), "must be set once started")
	case intent.Unknown:
		c.must("started_at", !r.StartedAt.IsZero(), "must be set once started")
		c.must("unknown_since", !r.UnknownSince.IsZero(), "must be set where the row is unknown")
	}
}

// CheckSettlement says whether a settlement can be stored; the error is a *RowError.
func CheckSettlement(s *intent.Settlement) error {
	var c checker
	c.digest("key", intent.Digest(s.Key))
	c.word("verb", s.Verb.String())
	c.word("status", s.Status.String())
	c.word("retry", s.Retry.String())
	c.text("reason", s.Reason)
	c.text("settled_by", s.SettledBy)
	c.readable("evidence", s.Evidence)
	c.outcome(s.Outcome)
	c.must("fence", s.Fence <= math.MaxInt64, "is out of range")
	c.must("retry_after", s.RetryAfter >= 0, "is negative")
	c.must("settled_at", !s.At.IsZero(), "must be set")
	c.time("settled_at", s.At)
	c.must("settled_by", !s.Status.Settled() || s.SettledBy != "", "must be set where the move settles")
	c.must("retry", s.Retry == intent.RetryNever || s.Status == intent.Rejected, "must be never unless the move rejects")
	c.plan(&s.Plan, s.Status)
	if c.err == nil {
		c.must("status", intent.RuleOf(s.Verb).To == s.Status, "is not where this verb leads")
	}
	return c.error()
}

// CheckReplace says whether now and the entry may be stored in the place of was; the error
// is a *RowError. entry may be nil.
func CheckReplace(was, now *intent.Receipt, entry *intent.Entry) error {
	if !intent.MayReplace(was, now) {
		return &RowError{"status", "cannot become " + now.Standing() + " from " + was.Standing()}
	}
	if err := CheckReceipt(now); err != nil || entry == nil {
		return err
	}
	var c checker
	c.must("audit.key", entry.Key == now.Key, "is another key's")
	c.must("audit.tenant", entry.Tenant == now.Tenant, "is another tenant's")
	c.word("audit.action", entry.Action.String())
	c.must("audit.actor", entry.Actor != "", "must not be empty")
	c.must("audit.at", !entry.At.IsZero(), "must be set")
	c.time("audit.at", entry.At)
	c.text("audit.tool", entry.Tool)
	c.text("audit.actor", entry.Actor)
	c.must("audit.reason", len(entry.Reason) <= MaxReason, "is longer than 8192 bytes")
	c.readable("audit.reason", []byte(entry.Reason))
	c.text("audit.before", entry.Before)
	c.text("audit.after", entry.After)
	c.text("audit.traceparent", entry.Traceparent)
	c.readable("audit.evidence", entry.Evidence)
	return c.error()
}

// CheckStats says whether numbers can be asked for; the error is a *RowError.
func CheckStats(q *StatsQuery) error {
	var c checker
	c.must("tenant", q.Tenant != "", "must be set in a query")
	c.text("tenant", q.Tenant)
	c.time("since", q.Since)
	c.time("until", q.Until)
	return c.error()
}

// CheckAttempt says whether an attempt can be stored; the error is a *RowError.
func CheckAttempt(a *intent.Attempt) error {
	var c checker
	c.digest("key", intent.Digest(a.Key))
	c.word("decision", a.Decision.String())
	c.text("tenant", a.Tenant)
	c.text("tool", a.Tool)
	c.text("trace_id", a.TraceID)
	c.text("span_id", a.SpanID)
	c.text("replica", a.Replica)
	c.text("region", a.Region)
	c.text("credential", a.Credential)
	c.must("at", !a.At.IsZero(), "must be set")
	c.time("at", a.At)
	return c.error()
}
