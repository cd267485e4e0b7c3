package intentstore

import (
	"bytes"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/latchkey-gateway/latchkey/intent"
)

// checker keeps the first thing that is wrong.
type checker struct{ err *RowError }

func (c *checker) error() error {
	if c.err == nil {
		return nil
	}
	return c.err
}

func (c *checker) must(field string, ok bool, why string) {
	if !ok && c.err == nil {
		c.err = &RowError{field, why}
	}
}

func (c *checker) digest(field string, d intent.Digest) {
	c.must(field, d != intent.Digest{}, "must not be zero")
}

func (c *checker) word(field, word string) {
	c.must(field, word != "invalid", "is not one of its words")
}

// text: PostgreSQL refuses NUL and invalid UTF-8 in text, and with it the whole batch.
func (c *checker) text(field, s string) {
	c.must(field, len(s) <= MaxText, longText)
	c.must(field, strings.IndexByte(s, 0) < 0, "contains NUL")
	c.must(field, utf8.ValidString(s), "is not valid UTF-8")
}

// readable bytes are searched as text by List, where one bad row would fail every search.
func (c *checker) readable(field string, b []byte) {
	c.must(field, len(b) <= MaxBody, longBody)
	c.must(field, utf8.Valid(b), "is not valid UTF-8")
	c.must(field, bytes.IndexByte(b, 0) < 0, "contains NUL")
}

func (c *checker) time(field string, t time.Time) {
	c.must(field, t.IsZero() || t.Year() >= 1 && t.Year() <= 9999, "is outside the years 1 to 9999")
}

func (c *checker) outcome(o *intent.Outcome) {
	if o == nil {
		return
	}
	c.must("outcome_status", o.HTTPStatus >= 0 && o.HTTPStatus <= math.MaxInt16, "is out of range")
	c.must("outcome_body", len(o.Body) <= MaxBody, longBody)
	c.must("outcome_length", o.Length >= 0, "is negative")
	c.text("outcome_sha256", o.SHA256)
	n := 0
	for name, value := range o.Headers {
		n += len(name) + len(value)
		c.must("outcome_headers", utf8.ValidString(name) && utf8.ValidString(value), "is not valid UTF-8")
	}
	c.must("outcome_headers", n <= MaxBody, "is too long")
}

func (c *checker) recovery(r *intent.Recovery) {
	c.word("doubt", r.Doubt.String())
	c.must("checks", r.Checks >= 0 && r.Checks <= math.MaxInt32, "is out of range")
	c.must("notices", r.Notices >= 0 && r.Notices <= math.MaxInt32, "is out of range")
	c.must("approved_by", len(r.ApprovedBy) <= 100, "names more than 100 people")
	for _, by := range r.ApprovedBy {
		c.text("approved_by", by)
	}
}

// plan repeats the CHECK constraints on what happens next.
func (c *checker) plan(p *intent.Plan, status intent.Status) {
	c.word("parked", p.Parked.String())
	c.time("next_check", p.NextCheck)
	c.time("notify_at", p.NotifyAt)
	c.must("parked", p.Parked == 0 || status == intent.Unknown, "must not be set unless the row is unknown")
	c.must("next_check", p.NextCheck.IsZero() || status == intent.Unknown || status == intent.AwaitingApproval,
		"must not be set unless the row is unknown or awaits approval")
}
