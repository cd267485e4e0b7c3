package intentstore

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
)

// Search is what Query.Q asks for: a row matches if its key lies in the range of the
// prefix, or a trace of it has the id, or all the
// words occur in its run, step, arguments or result.
type Search struct {
	KeyLow, KeyHigh []byte // both 32 bytes; nil: q is no key or prefix of one
	TraceID         string // 32 lower-case hex digits; "": q is no trace id
	Words           []string
}

// ParseSearch reads Query.Q. A text of 8 to 64 hex digits may begin a key, one of 32 may be
// a trace id, and either may just as well be a word, such as an order number of 8 digits.
func ParseSearch(q string) Search {
	words := strings.Fields(strings.ToValidUTF8(strings.ReplaceAll(q, "\x00", " "), "\uFFFD"))
	s := Search{Words: words}
	for i, w := range words {
		words[i] = lower(w)
	}
	if len(words) != 1 || len(words[0]) < 8 || len(words[0]) > 64 || strings.Trim(words[0], "0123456789abcdef") != "" {
		return s
	}
	digits := words[0]
	rest := 64 - len(digits)
	s.KeyLow, _ = hex.DecodeString(digits + strings.Repeat("0", rest))
	s.KeyHigh, _ = hex.DecodeString(digits + strings.Repeat("f", rest))
	if len(digits) == 32 {
		s.TraceID = digits
	}
	return s
}

// Matches says whether the row is one that the search asks for. traced says whether one of
// its attempts has the search's trace id.
func (s *Search) Matches(r *intent.Receipt, traced bool) bool {
	switch {
	case len(s.Words) == 0, traced:
		return true
	case s.KeyLow != nil && bytes.Compare(r.Key[:], s.KeyLow) >= 0 && bytes.Compare(r.Key[:], s.KeyHigh) <= 0:
		return true
	case s.TraceID != "" && s.TraceID == r.TraceID():
		return true
	}
	run, step, args, result := []byte(lower(r.RunID)), []byte(lower(r.StepID)), lowered(r.Args), []byte(nil)
	if r.Outcome != nil && bytes.IndexByte(r.Outcome.Body, 0) < 0 { // with NUL it is no text
		result = lowered(r.Outcome.Body)
	}
	for _, w := range s.Words {
		if w := []byte(w); !bytes.Contains(run, w) && !bytes.Contains(step, w) && !bytes.Contains(args, w) && !bytes.Contains(result, w) {
			return false
		}
	}
	return true
}

// lower folds ASCII letters alone, as every database does in every locale.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// lowered is lower for bytes that need not be valid UTF-8.
func lowered(b []byte) []byte {
	b = bytes.Clone(b)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return b
}

// MaxLimit is the most rows that one page of List holds.
const MaxLimit = 200

// PageLimit brings Query.Limit into 1..MaxLimit; 0 asks for a page of 50.
func PageLimit(n int) int {
	if n == 0 {
		return 50
	}
	return min(max(n, 1), MaxLimit)
}

// Cursor is a place in a list: rows older than At, or as old and with a greater key.
type Cursor struct {
	At  time.Time
	Key intent.Key
}

// CursorOf returns the place right after a row.
func CursorOf(r *intent.Receipt) Cursor { return Cursor{intent.Micros(r.CreatedAt), r.Key} }

const cursorVersion = 1

// String returns the opaque form that a caller hands back.
func (c Cursor) String() string {
	b := binary.BigEndian.AppendUint64([]byte{cursorVersion}, uint64(c.At.UnixMicro()))
	return base64.RawURLEncoding.EncodeToString(append(b, c.Key[:]...))
}

// ParseCursor reads Cursor.String. "" is the top of the list, with ok false; anything that
// is no cursor is intent.ErrBadCursor.
func ParseCursor(s string) (c Cursor, ok bool, err error) {
	if s == "" {
		return Cursor{}, false, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != 1+8+32 || b[0] != cursorVersion {
		return Cursor{}, false, intent.ErrBadCursor
	}
	c.At = time.UnixMicro(int64(binary.BigEndian.Uint64(b[1:]))).UTC()
	if c.At.Year() < 1 || c.At.Year() > 9999 {
		return Cursor{}, false, intent.ErrBadCursor
	}
	copy(c.Key[:], b[9:])
	if c.String() != s { // base64 reads more than it writes
		return Cursor{}, false, intent.ErrBadCursor
	}
	return c, true, nil
}

// Before says whether r comes after the cursor in a list that is newest first.
func (c Cursor) Before(r *intent.Receipt) bool {
	if !r.CreatedAt.Equal(c.At) {
		return r.CreatedAt.Before(c.At)
	}
	return bytes.Compare(r.Key[:], c.Key[:]) > 0
}

// Page cuts rows, read up to one beyond the limit, to a page and says where the next one
// begins: "" when there is none.
func Page(rows []intent.Receipt, limit int) ([]intent.Receipt, string) {
	limit = PageLimit(limit)
	if len(rows) <= limit {
		return rows, ""
	}
	rows = rows[:limit]
	return rows, CursorOf(&rows[limit-1]).String()
}

// Narrows says whether a row passes everything in the query but Q and Cursor.
func (q *Query) Narrows(r *intent.Receipt) bool {
	return r.Tenant == q.Tenant &&
		(q.RunID == "" || r.RunID == q.RunID) &&
		(q.StepID == "" || r.StepID == q.StepID) &&
		(q.Tool == "" || r.Tool == q.Tool) &&
		(q.Status == 0 || r.Status == q.Status) &&
		(!q.Attention || r.Attention()) &&
		(q.Since.IsZero() || !r.CreatedAt.Before(intent.Micros(q.Since))) &&
		(q.Until.IsZero() || r.CreatedAt.Before(intent.Micros(q.Until)))
}
