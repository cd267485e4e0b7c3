package postgres

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// column gathers one value of every item into an array parameter. FlatArray spares pgx the
// reflection that a bare slice would cost for each element.
func column[I, T any](items []I, value func(I) T) pgtype.FlatArray[T] {
	c := make(pgtype.FlatArray[T], len(items))
	for i, item := range items {
		c[i] = value(item)
	}
	return c
}

// sparse is a column that hardly any row has: no values at all where none has one, which
// unnest fills up with NULL, so that the rows of an ordinary batch cost nothing.
func sparse[I, T any](items []I, value func(I) (v T, set bool)) pgtype.FlatArray[T] {
	for _, item := range items {
		if _, set := value(item); set {
			return column(items, func(item I) T { v, _ := value(item); return v })
		}
	}
	return pgtype.FlatArray[T]{}
}

// moments and words are sparse columns of times and words.
func moments[I any](items []I, at func(I) time.Time) pgtype.FlatArray[pgtype.Timestamptz] {
	return sparse(items, func(item I) (pgtype.Timestamptz, bool) { v := stamp(at(item)); return v, v.Valid })
}

func words[I any](items []I, text func(I) string) pgtype.FlatArray[pgtype.Text] {
	return sparse(items, func(item I) (pgtype.Text, bool) { v := word(text(item)); return v, v.Valid })
}

type receiptPtr = *intent.Receipt

// beginColumns are the parameters of begin.sql, in its order.
func beginColumns(rows []receiptPtr) []any {
	return []any{
		column(rows, func(r receiptPtr) []byte { return r.Key[:] }),
		column(rows, func(r receiptPtr) []byte { return r.Guard[:] }),
		column(rows, func(r receiptPtr) []byte { return r.Fingerprint[:] }),
		column(rows, func(r receiptPtr) string { return r.Tenant }),
		column(rows, func(r receiptPtr) string { return r.Tool }),
		column(rows, func(r receiptPtr) string { return r.Class.String() }),
		column(rows, func(r receiptPtr) string { return r.Durability.String() }),
		column(rows, func(r receiptPtr) string { return r.RunID }),
		column(rows, func(r receiptPtr) string { return r.StepID }),
		column(rows, func(r receiptPtr) int32 { return int32(r.Occurrence) }),
		column(rows, func(r receiptPtr) []byte { return r.Args }),
		column(rows, func(r receiptPtr) string { return r.Status.String() }),
		column(rows, func(r receiptPtr) string { return r.Retry.String() }),
		column(rows, func(r receiptPtr) int64 { return r.RetryAfter.Microseconds() }),
		column(rows, func(r receiptPtr) string { return r.Reason }),
		column(rows, func(r receiptPtr) int64 { return int64(r.Fence) }),
		column(rows, func(r receiptPtr) int64 { return int64(r.Version) }),
		column(rows, func(r receiptPtr) []byte { return r.ClaimID[:] }),
		column(rows, func(r receiptPtr) int32 { return int32(r.Attempts) }),
		column(rows, func(r receiptPtr) int32 { return int32(r.Executions) }),
		column(rows, func(r receiptPtr) pgtype.Timestamptz { return stamp(r.CreatedAt) }),
		column(rows, func(r receiptPtr) pgtype.Timestamptz { return stamp(r.StartedAt) }),
		column(rows, func(r receiptPtr) pgtype.Timestamptz { return stamp(r.SettleBy) }),
		column(rows, func(r receiptPtr) string { return r.Traceparent }),
		column(rows, func(r receiptPtr) string { return r.Replica }),
		column(rows, func(r receiptPtr) string { return r.Region }),
		moments(rows, func(r receiptPtr) time.Time { return r.NextCheck }),
		moments(rows, func(r receiptPtr) time.Time { return r.NotifyAt }),
		column(rows, func(r receiptPtr) string { return r.Template }),
		sparse(rows, func(r receiptPtr) ([]byte, bool) { return r.Sealed, r.Sealed != nil }),
	}
}

// archiveColumns are the parameters of archive.sql, in its order.
func archiveColumns(rows []receiptPtr) []any {
	b := beginColumns(rows)
	c := make([]any, 0, 46)
	c = append(c, b[:15]...) // key to reason
	c = append(c, column(rows, func(r receiptPtr) bool { return r.Expired }))
	c = append(c, b[15:23]...) // fence to settle_by
	c = append(c,
		column(rows, func(r receiptPtr) pgtype.Timestamptz { return stamp(r.UnknownSince) }),
		column(rows, func(r receiptPtr) pgtype.Timestamptz { return stamp(r.SettledAt) }),
		column(rows, func(r receiptPtr) string { return r.SettledBy }),
		column(rows, func(r receiptPtr) []byte { return r.Evidence }))
	c = append(c, b[23:26]...) // traceparent to region
	c = append(c, outcomeColumns(rows, func(r receiptPtr) *intent.Outcome { return r.Outcome })...)
	return append(c,
		b[26], // next_check
		words(rows, func(r receiptPtr) string { return r.Parked.String() }),
		b[27], // notify_at
		column(rows, func(r receiptPtr) int32 { return int32(r.Notices) }),
		column(rows, func(r receiptPtr) int32 { return int32(r.Checks) }),
		column(rows, func(r receiptPtr) []byte { return people(r.ApprovedBy) }),
		words(rows, func(r receiptPtr) string { return r.Doubt.String() }),
		b[28], b[29]) // template, sealed
}

// word is a word's column value; "" is NULL.
func word(s string) pgtype.Text { return pgtype.Text{String: s, Valid: s != ""} }

// people is the column value of approved_by; nobody is NULL.
func people(ids []string) []byte {
	if len(ids) == 0 {
		return nil
	}
	b, _ := json.Marshal(ids) // strings always encode
	return b
}

// outcomeColumns are outcome_status to outcome_sha256; NULL where there is no outcome.
func outcomeColumns[I any](items []I, of func(I) *intent.Outcome) []any {
	outcomes := make([]*intent.Outcome, len(items))
	for i, item := range items {
		outcomes[i] = of(item)
	}
	some := func(o *intent.Outcome) intent.Outcome {
		if o == nil {
			return intent.Outcome{}
		}
		return *o
	}
	return []any{
		column(outcomes, func(o *intent.Outcome) pgtype.Int4 {
			return pgtype.Int4{Int32: int32(some(o).HTTPStatus), Valid: o != nil}
		}),
		column(outcomes, headers),
		column(outcomes, func(o *intent.Outcome) []byte { return some(o).Body }),
		column(outcomes, func(o *intent.Outcome) bool { return some(o).Truncated }),
		column(outcomes, func(o *intent.Outcome) int64 { return some(o).Length }),
		column(outcomes, func(o *intent.Outcome) string { return some(o).SHA256 }),
	}
}

type movePtr = *intent.Settlement

// settleColumns are the parameters of settle.sql, in its order.
func settleColumns(moves []movePtr) []any {
	c := make([]any, 0, 20)
	c = append(c,
		column(moves, func(m movePtr) []byte { return m.Key[:] }),
		column(moves, func(m movePtr) int64 { return int64(m.Fence) }),
		column(moves, fromWords),
		column(moves, func(m movePtr) string { return m.Status.String() }),
		column(moves, func(m movePtr) string { return m.Retry.String() }),
		column(moves, func(m movePtr) int64 { return m.RetryAfter.Microseconds() }),
		column(moves, func(m movePtr) string { return m.Reason }),
		column(moves, func(m movePtr) string { return m.SettledBy }),
		sparse(moves, func(m movePtr) ([]byte, bool) { return m.Evidence, m.Evidence != nil }))
	c = append(c, outcomeColumns(moves, func(m movePtr) *intent.Outcome { return m.Outcome })...)
	return append(c,
		column(moves, func(m movePtr) pgtype.Timestamptz { return stamp(m.At) }),
		column(moves, func(m movePtr) int32 {
			if m.Unsent {
				return 1
			}
			return 0
		}),
		moments(moves, func(m movePtr) time.Time { return m.Plan.NextCheck }),
		words(moves, func(m movePtr) string { return m.Plan.Parked.String() }),
		moments(moves, func(m movePtr) time.Time { return m.Plan.NotifyAt }))
}

// fromWords lists the statuses that a move leads from, as the moves table has them.
func fromWords(m movePtr) string {
	from := intent.RuleOf(m.Verb).From
	words := make([]string, len(from))
	for i, s := range from {
		words[i] = s.String()
	}
	return strings.Join(words, " ")
}

// attemptColumns are the parameters of record.sql, in its order.
func attemptColumns(attempts []*intent.Attempt) []any {
	return []any{
		column(attempts, func(a *intent.Attempt) []byte { return a.Key[:] }),
		column(attempts, func(a *intent.Attempt) string { return a.Tenant }),
		column(attempts, func(a *intent.Attempt) string { return a.Tool }),
		column(attempts, func(a *intent.Attempt) pgtype.Timestamptz { return stamp(a.At) }),
		column(attempts, func(a *intent.Attempt) string { return a.Decision.String() }),
		column(attempts, func(a *intent.Attempt) string { return a.TraceID }),
		column(attempts, func(a *intent.Attempt) string { return a.SpanID }),
		column(attempts, func(a *intent.Attempt) string { return a.Replica }),
		column(attempts, func(a *intent.Attempt) string { return a.Region }),
		column(attempts, func(a *intent.Attempt) string { return a.Credential }),
	}
}

// countColumns are the parameters of count.sql, in its order.
func countColumns(counts []intentstore.MinuteCount) []any {
	return []any{
		column(counts, func(c intentstore.MinuteCount) string { return c.Tenant }),
		column(counts, func(c intentstore.MinuteCount) int64 { return c.Minute }),
		column(counts, func(c intentstore.MinuteCount) string { return c.Tool }),
		column(counts, func(c intentstore.MinuteCount) string { return c.Kind }),
		column(counts, func(c intentstore.MinuteCount) string { return c.Word }),
		column(counts, func(c intentstore.MinuteCount) int64 { return c.N }),
	}
}

// bound is a query's time; nil does not narrow.
func bound(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return intent.Micros(t)
}
