package intentstore_test

import (
	"errors"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

func TestCursor(t *testing.T) {
	t.Parallel()
	err := quick.Check(func(key intent.Key, micros uint32) bool {
		r := intent.Receipt{Key: key, CreatedAt: time.UnixMicro(int64(micros) * 1e6).Add(999 * time.Nanosecond)}
		c := intentstore.CursorOf(&r)
		got, ok, err := intentstore.ParseCursor(c.String())
		kept := intentstore.Kept(r)
		return err == nil && ok && got == c && !got.Before(&kept)
	}, nil)
	if err != nil {
		t.Error(err)
	}
	if _, ok, err := intentstore.ParseCursor(""); ok || err != nil {
		t.Errorf("the empty cursor: %v, %v; want the top of the list", ok, err)
	}
}

func FuzzParseCursor(f *testing.F) {
	f.Add("")
	f.Add("AQ")
	f.Add("AQA00000000000000000000000AAAAAAAAAAAAAAAAARAAAAAAAAAAJ")
	f.Add("AQA00000000000000000000000AAAAAAAAAAAAAAAAARAAAAAAAAAAI\n")
	f.Add(intentstore.Cursor{At: time.UnixMicro(1)}.String())
	f.Fuzz(func(t *testing.T, s string) {
		c, ok, err := intentstore.ParseCursor(s)
		if err != nil && !errors.Is(err, intent.ErrBadCursor) {
			t.Errorf("%q: %v", s, err)
		}
		if ok && c.String() != s {
			t.Errorf("%q is read as %q", s, c)
		}
	})
}

func TestPage(t *testing.T) {
	t.Parallel()
	rows := make([]intent.Receipt, 3)
	for i := range rows {
		rows[i] = intent.Receipt{Key: intent.Key{byte(i + 1)}, CreatedAt: time.UnixMicro(9)}
	}
	for limit, want := range map[int]int{1: 1, 2: 2, 3: 3, 4: 3, 0: 3, -5: 1, 1000: 3} {
		page, next := intentstore.Page(rows, limit)
		if len(page) != want || (next == "") != (want == 3) {
			t.Errorf("limit %d: %d rows, next %q", limit, len(page), next)
		}
	}
	if intentstore.PageLimit(1000) != intentstore.MaxLimit {
		t.Error("a page may be as long as its caller likes")
	}
}

func TestRepeats(t *testing.T) {
	t.Parallel()
	at := time.UnixMicro(5)
	r := intent.Receipt{Key: intent.Key{1}, Fence: 1, Status: intent.Started}
	m := r.CompleteMove("downstream", &intent.Outcome{HTTPStatus: 200, Body: []byte{}}, at)
	after, err := r.Apply(m)
	if err != nil {
		t.Fatal(err)
	}
	tombstone := intentstore.Tombstone(after)
	for name, c := range map[string]struct {
		row   intent.Receipt
		spoil func(*intent.Settlement)
		want  bool
	}{
		"the same":              {after, func(*intent.Settlement) {}, true},
		"nil for an empty body": {after, func(m *intent.Settlement) { m.Outcome = &intent.Outcome{HTTPStatus: 200} }, true},
		"before the move":       {r, func(*intent.Settlement) {}, false},
		"other fence":           {after, func(m *intent.Settlement) { m.Fence = 2 }, false},
		"other key":             {after, func(m *intent.Settlement) { m.Key = intent.Key{2} }, false},
		"other status":          {after, func(m *intent.Settlement) { m.Status = intent.Rejected }, false},
		"no outcome":            {after, func(m *intent.Settlement) { m.Outcome = nil }, false},
		"other body":            {after, func(m *intent.Settlement) { m.Outcome = &intent.Outcome{HTTPStatus: 200, Body: []byte("x")} }, false},
		"other header": {after, func(m *intent.Settlement) {
			m.Outcome = &intent.Outcome{HTTPStatus: 200, Headers: map[string]string{"a": "b"}}
		}, false},
		"tombstone, same time":  {tombstone, func(*intent.Settlement) {}, true},
		"tombstone, other time": {tombstone, func(m *intent.Settlement) { m.At = at.Add(time.Second) }, false},
	} {
		m := m
		c.spoil(&m)
		if got := intentstore.Repeats(&c.row, &m); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestRowError(t *testing.T) {
	t.Parallel()
	r := intent.Receipt{}
	err := intentstore.CheckReceipt(&r)
	if bad, ok := errors.AsType[*intentstore.RowError](err); !ok || !strings.Contains(err.Error(), bad.Field) {
		t.Errorf("%v, want a RowError that names its field", err)
	}
}
