package postgres

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/latchkey-gateway/latchkey/intent"
)

// row holds the columns of one row as they are scanned, in the order of the files in
// queries/.
type row struct {
	key, guard, fingerprint, claim           pgtype.DriverBytes
	class, durability, status, retry         string
	retryAfter, fence, version               int64
	started, settleBy, unknownSince, settled pgtype.Timestamptz
	created                                  time.Time
	outcomeStatus                            pgtype.Int4
	outcomeHeaders                           pgtype.DriverBytes
	nextCheck, notifyAt                      pgtype.Timestamptz
	parked, doubt                            pgtype.Text
	approvedBy                               pgtype.DriverBytes
	outcome                                  intent.Outcome
	receipt                                  intent.Receipt
	targets                                  []any
}

func newRow() *row {
	w := new(row)
	r, o := &w.receipt, &w.outcome
	w.targets = []any{
		&w.key, &w.guard, &w.fingerprint, &r.Tenant, &r.Tool, &w.class, &w.durability, &r.RunID, &r.StepID, &r.Occurrence, &r.Args,
		&w.status, &w.retry, &w.retryAfter, &r.Reason, &r.Expired, &w.fence, &w.version, &w.claim, &r.Attempts, &r.Executions,
		&w.created, &w.started, &w.settleBy, &w.unknownSince, &w.settled, &r.SettledBy, &r.Evidence, &r.Traceparent, &r.Replica, &r.Region,
		&w.outcomeStatus, &w.outcomeHeaders, &o.Body, &o.Truncated, &o.Length, &o.SHA256,
		&w.nextCheck, &w.parked, &w.notifyAt, &r.Notices, &r.Checks, &w.approvedBy, &w.doubt, &r.Template, &r.Sealed,
	}
	return w
}

// scan reads the current row.
func (w *row) scan(rows pgx.Rows) (intent.Receipt, error) {
	w.receipt, w.outcome = intent.Receipt{}, intent.Outcome{} // fresh bytes for every receipt
	if err := rows.Scan(w.targets...); err != nil {
		return intent.Receipt{}, err
	}
	r := w.receipt
	copy(r.Key[:], w.key)
	copy(r.Guard[:], w.guard)
	copy(r.Fingerprint[:], w.fingerprint)
	copy(r.ClaimID[:], w.claim)
	var err error
	if r.Class, err = intent.ParseClass(w.class); err != nil {
		return r, err
	}
	if r.Durability, err = intent.ParseDurability(w.durability); err != nil {
		return r, err
	}
	if r.Status, err = intent.ParseStatus(w.status); err != nil {
		return r, err
	}
	if r.Retry, err = intent.ParseRetry(w.retry); err != nil {
		return r, err
	}
	r.RetryAfter = time.Duration(w.retryAfter) * time.Microsecond
	r.Fence, r.Version = uint64(w.fence), uint64(w.version)
	r.CreatedAt, r.StartedAt, r.SettleBy = w.created.UTC(), moment(w.started), moment(w.settleBy)
	r.UnknownSince, r.SettledAt = moment(w.unknownSince), moment(w.settled)
	r.NextCheck, r.NotifyAt = moment(w.nextCheck), moment(w.notifyAt)
	if r.Parked, err = intent.ParseParking(w.parked.String); err != nil {
		return r, err
	}
	if r.Doubt, err = intent.ParseDoubt(w.doubt.String); err != nil {
		return r, err
	}
	if w.approvedBy != nil {
		if err := json.Unmarshal(w.approvedBy, &r.ApprovedBy); err != nil {
			return r, fmt.Errorf("approved_by of %s: %w", r.Key.Short(), err)
		}
	}
	r.Durable = true // whoever reads it reads an acknowledged row
	if w.outcomeStatus.Valid {
		o := w.outcome
		o.HTTPStatus = int(w.outcomeStatus.Int32)
		if err := json.Unmarshal(w.outcomeHeaders, &o.Headers); err != nil {
			return r, fmt.Errorf("outcome_headers of %s: %w", r.Key.Short(), err)
		}
		r.Outcome = &o
	}
	return r, nil
}

// receipts reads all rows of a query that returns whole ones.
func receipts(rows pgx.Rows, err error) ([]intent.Receipt, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []intent.Receipt
	w := newRow()
	for rows.Next() {
		r, err := w.scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

func moment(t pgtype.Timestamptz) time.Time {
	if !t.Valid {
		return time.Time{}
	}
	return t.Time.UTC()
}

// stamp is a time's column value; the zero time is NULL.
func stamp(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: intent.Micros(t), Valid: !t.IsZero()}
}

// headers is the column value of an outcome's headers: never NULL where there is an outcome.
func headers(o *intent.Outcome) []byte {
	if o == nil {
		return nil
	}
	if len(o.Headers) == 0 {
		return []byte("{}")
	}
	b, _ := json.Marshal(o.Headers) // a map of strings always encodes
	return b
}
