package postgres

import (
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// againParameters are those of again.sql: the row as it shall be, the version it was made
// from, and the execution that ends.
func againParameters(next receiptPtr, version uint64, ended intent.Execution) []any {
	return append([]any{
		next.Key[:], next.Guard[:], next.Fingerprint[:], next.Tenant, next.Tool, next.Class.String(), next.Durability.String(),
		next.RunID, next.StepID, int32(next.Occurrence), next.Args,
		next.Status.String(), next.Retry.String(), next.RetryAfter.Microseconds(), next.Reason, int64(next.Fence), int64(next.Version),
		next.ClaimID[:], int32(next.Attempts), int32(next.Executions),
		stamp(next.StartedAt), stamp(next.SettleBy), next.Traceparent, next.Replica, next.Region,
		stamp(next.NextCheck), stamp(next.NotifyAt), next.Template, next.Sealed,
		int64(version),
	}, executionParameters(ended)...)
}

// executionParameters are those of an execution that ends, twelve less its key.
func executionParameters(ended intent.Execution) []any {
	return []any{
		int64(ended.Fence), ended.ClaimID[:], stamp(ended.StartedAt), stamp(ended.EndedAt), ended.Status.String(), ended.Retry.String(),
		ended.Reason, int32(ended.HTTPStatus), ended.Traceparent, ended.Replica, ended.Region,
	}
}

// replaceParameters are those of replace.sql: what the row must still be, what it shall be,
// the execution that ends, and the entry.
func replaceParameters(was, now receiptPtr, entry *intent.Entry) []any {
	p := make([]any, 0, 67)
	p = append(p, was.Key[:], was.Status.String(), int64(was.Fence), int64(was.Version), int32(was.Checks), int32(was.Notices),
		stamp(was.NextCheck), stamp(was.NotifyAt), word(was.Parked.String()), word(was.Doubt.String()), people(was.ApprovedBy))
	p = append(p, now.Status.String(), now.Retry.String(), now.RetryAfter.Microseconds(), now.Reason, now.Expired,
		int64(now.Fence), int64(now.Version), now.ClaimID[:], int32(now.Executions),
		stamp(now.StartedAt), stamp(now.SettleBy), stamp(now.UnknownSince), stamp(now.SettledAt), now.SettledBy, now.Evidence,
		now.Traceparent, now.Replica, now.Region)
	p = append(p, outcomeParameters(now.Outcome)...)
	p = append(p, stamp(now.NextCheck), word(now.Parked.String()), stamp(now.NotifyAt), int32(now.Notices), int32(now.Checks),
		people(now.ApprovedBy), word(now.Doubt.String()), now.Template, now.Sealed)
	var ended intent.Execution
	if e, ok := intentstore.Superseded(was, now); ok {
		ended = e
	}
	p = append(p, executionParameters(ended)...)
	if entry == nil {
		return append(p, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil)
	}
	c := intentstore.CountOfEntry(entry)
	return append(p, entry.Tenant, entry.Tool, stamp(entry.At), entry.Actor, entry.Action.String(), entry.Reason, entry.Before, entry.After,
		entry.Evidence, entry.Traceparent, c.Minute, c.Kind)
}

// outcomeParameters are outcome_status to outcome_sha256 of one row.
func outcomeParameters(o *intent.Outcome) []any {
	if o == nil {
		return []any{pgtype.Int4{}, nil, nil, false, int64(0), ""}
	}
	return []any{pgtype.Int4{Int32: int32(o.HTTPStatus), Valid: true}, headers(o), o.Body, o.Truncated, o.Length, o.SHA256}
}
