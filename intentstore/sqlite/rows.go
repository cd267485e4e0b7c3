package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
)

// columns are a row's values in the order of insert.sql and move.sql.
func columns(r *intent.Receipt) []any {
	c := make([]any, 0, 49) // and the three conditions of move.sql
	c = append(c,
		r.Key[:], r.Guard[:], r.Fingerprint[:], r.Tenant, r.Tool, r.Class.String(), r.Durability.String(), r.RunID, r.StepID,
		r.Occurrence, blob(r.Args),
		r.Status.String(), r.Retry.String(), r.RetryAfter.Microseconds(), r.Reason, r.Expired, int64(r.Fence), int64(r.Version),
		r.ClaimID[:], r.Attempts, r.Executions,
		stamp(r.CreatedAt), stamp(r.StartedAt), stamp(r.SettleBy), stamp(r.UnknownSince), stamp(r.SettledAt), r.SettledBy,
		blob(r.Evidence), r.Traceparent, r.Replica, r.Region)
	if o := r.Outcome; o == nil {
		c = append(c, nil, nil, nil, false, 0, "")
	} else {
		headers := []byte("{}")
		if len(o.Headers) > 0 {
			headers, _ = json.Marshal(o.Headers) // a map of strings always encodes
		}
		c = append(c, o.HTTPStatus, headers, blob(o.Body), o.Truncated, o.Length, o.SHA256)
	}
	var approvedBy []byte
	if len(r.ApprovedBy) > 0 {
		approvedBy, _ = json.Marshal(r.ApprovedBy) // strings always encode
	}
	return append(c, stamp(r.NextCheck), narrow(r.Parked.String()), stamp(r.NotifyAt), r.Notices, r.Checks, blob(approvedBy),
		narrow(r.Doubt.String()), r.Template, blob(r.Sealed))
}

// blob is the value of a BLOB: nil is NULL, and no bytes are an empty one.
func blob(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

// stamp is a time's value, microseconds; the zero time is NULL.
func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

func moment(micros sql.NullInt64) time.Time {
	if !micros.Valid {
		return time.Time{}
	}
	return time.UnixMicro(micros.Int64).UTC()
}

func executionColumns(e *intent.Execution) []any {
	return []any{e.Key[:], int64(e.Fence), e.ClaimID[:], stamp(e.StartedAt), stamp(e.EndedAt), e.Status.String(), e.Retry.String(),
		e.Reason, e.HTTPStatus, e.Traceparent, e.Replica, e.Region}
}

// one reads a single row; intent.ErrNone when there is none.
func one(rows *sql.Rows, err error) (intent.Receipt, error) {
	found, err := receipts(rows, err)
	if err != nil {
		return intent.Receipt{}, err
	}
	if len(found) == 0 {
		return intent.Receipt{}, intent.ErrNone
	}
	return found[0], nil
}

func receipts(rows *sql.Rows, err error) ([]intent.Receipt, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []intent.Receipt
	for rows.Next() {
		r, err := receipt(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

func receipt(rows *sql.Rows) (r intent.Receipt, err error) {
	var (
		key, guard, fingerprint, claim            sql.RawBytes
		class, durability, status, retry          string
		retryAfter, fence, version                int64
		created, started, settleBy, lost, settled sql.NullInt64
		outcomeStatus                             sql.NullInt64
		headers                                   sql.RawBytes
		o                                         intent.Outcome
		check, notify                             sql.NullInt64
		parked, doubt                             sql.NullString
		approvedBy                                sql.RawBytes
	)
	err = rows.Scan(
		&key, &guard, &fingerprint, &r.Tenant, &r.Tool, &class, &durability, &r.RunID, &r.StepID, &r.Occurrence, &r.Args,
		&status, &retry, &retryAfter, &r.Reason, &r.Expired, &fence, &version, &claim, &r.Attempts, &r.Executions,
		&created, &started, &settleBy, &lost, &settled, &r.SettledBy, &r.Evidence, &r.Traceparent, &r.Replica, &r.Region,
		&outcomeStatus, &headers, &o.Body, &o.Truncated, &o.Length, &o.SHA256,
		&check, &parked, &notify, &r.Notices, &r.Checks, &approvedBy, &doubt, &r.Template, &r.Sealed)
	if err != nil {
		return r, err
	}
	copy(r.Key[:], key)
	copy(r.Guard[:], guard)
	copy(r.Fingerprint[:], fingerprint)
	copy(r.ClaimID[:], claim)
	if r.Class, err = intent.ParseClass(class); err != nil {
		return r, err
	}
	if r.Durability, err = intent.ParseDurability(durability); err != nil {
		return r, err
	}
	if r.Status, err = intent.ParseStatus(status); err != nil {
		return r, err
	}
	if r.Retry, err = intent.ParseRetry(retry); err != nil {
		return r, err
	}
	r.RetryAfter = time.Duration(retryAfter) * time.Microsecond
	r.Fence, r.Version = uint64(fence), uint64(version)
	r.CreatedAt, r.StartedAt, r.SettleBy = moment(created), moment(started), moment(settleBy)
	r.UnknownSince, r.SettledAt = moment(lost), moment(settled)
	r.NextCheck, r.NotifyAt = moment(check), moment(notify)
	if r.Parked, err = intent.ParseParking(parked.String); err != nil {
		return r, err
	}
	if r.Doubt, err = intent.ParseDoubt(doubt.String); err != nil {
		return r, err
	}
	if approvedBy != nil {
		if err := json.Unmarshal(approvedBy, &r.ApprovedBy); err != nil {
			return r, fmt.Errorf("approved_by of %s: %w", r.Key.Short(), err)
		}
	}
	r.Durable = true // whoever reads it reads a committed row
	if outcomeStatus.Valid {
		o.HTTPStatus = int(outcomeStatus.Int64)
		if err := json.Unmarshal(headers, &o.Headers); err != nil {
			return r, fmt.Errorf("outcome_headers of %s: %w", r.Key.Short(), err)
		}
		r.Outcome = &o
	}
	return r, nil
}
