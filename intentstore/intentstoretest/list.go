package intentstoretest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// list reads all pages of a query and returns the keys in order.
func (b *bench) list(q intentstore.Query) (keys []intent.Key) {
	b.Helper()
	q.Tenant = b.tenant
	for page := 0; ; page++ {
		rows, next, err := b.s.List(b.ctx, q)
		if err != nil {
			b.Fatalf("List(%+v): %v", q, err)
		}
		if q.Limit > 0 && len(rows) > q.Limit {
			b.Fatalf("List(%+v) gives %d rows", q, len(rows))
		}
		for _, r := range rows {
			keys = append(keys, r.Key)
		}
		if next == "" {
			return keys
		}
		if len(rows) == 0 || page > 100 {
			b.Fatalf("List(%+v) does not end", q)
		}
		q.Cursor = next
	}
}

func (b *bench) lists(q intentstore.Query, want ...intent.Key) {
	b.Helper()
	if got := b.list(q); !slices.Equal(got, want) {
		b.Errorf("List(%+v): %s, want %s", q, short(got), short(want))
	}
}

func short(keys []intent.Key) (s []string) {
	for _, k := range keys {
		s = append(s, k.Short())
	}
	return s
}

var listTests = []test{
	{"pages are newest first and complete", func(b *bench) {
		var rows []intent.Receipt
		for i := range 11 {
			r := b.started()
			r.CreatedAt = epoch.Add(time.Duration(i/4) * time.Second) // several of one age
			rows = append(rows, b.begin(r))
		}
		slices.SortFunc(rows, func(x, y intent.Receipt) int {
			if c := y.CreatedAt.Compare(x.CreatedAt); c != 0 {
				return c
			}
			return slices.Compare(x.Key[:], y.Key[:])
		})
		var want []intent.Key
		for _, r := range rows {
			want = append(want, r.Key)
		}
		for _, limit := range []int{0, 1, 2, 4, 10, 11, 12, intentstore.MaxLimit} {
			b.lists(intentstore.Query{Limit: limit}, want...)
		}
	}},
	{"a page is not moved by rows that are newer", func(b *bench) {
		first := b.begin(b.started())
		b.begin(b.started())
		_, next, err := b.s.List(b.ctx, intentstore.Query{Tenant: b.tenant, Limit: 1})
		if err != nil {
			b.Fatal(err)
		}
		b.begin(b.started())
		b.lists(intentstore.Query{Cursor: next}, first.Key)
	}},
	{"filters", func(b *bench) {
		x := b.started()
		x.RunID, x.StepID, x.Tool = "run-x", "1", "send"
		x = b.begin(x)
		y := b.started()
		y.RunID, y.StepID, y.Tool = "run-x", "2", "charge"
		y = b.begin(y)
		z := b.completed()
		b.lists(intentstore.Query{}, z.Key, y.Key, x.Key)
		b.lists(intentstore.Query{RunID: "run-x"}, y.Key, x.Key)
		b.lists(intentstore.Query{RunID: "run-x", StepID: "1"}, x.Key)
		b.lists(intentstore.Query{Tool: "charge"}, y.Key)
		b.lists(intentstore.Query{Status: intent.Completed}, z.Key)
		b.lists(intentstore.Query{Status: intent.Unknown})
		b.lists(intentstore.Query{Since: y.CreatedAt}, z.Key, y.Key)
		b.lists(intentstore.Query{Until: y.CreatedAt}, x.Key)
		b.lists(intentstore.Query{Since: y.CreatedAt, Until: z.CreatedAt, RunID: "run-x"}, y.Key)
		b.lists(intentstore.Query{RunID: "run-X"})
	}},
	{"tenants do not see each other", func(b *bench) {
		b.begin(b.started())
		r := b.started()
		r.Tenant += "/other"
		b.begin(r)
		rows, _, err := b.s.List(b.ctx, intentstore.Query{Tenant: r.Tenant, Q: r.Key.String()})
		if err != nil || len(rows) != 1 || rows[0].Key != r.Key {
			b.Errorf("List: %d rows, %v; want the other tenant's one", len(rows), err)
		}
		b.lists(intentstore.Query{Q: r.Key.String()})
		if _, _, err := b.s.List(b.ctx, intentstore.Query{}); err == nil {
			b.Error("List without a tenant gives no error")
		}
	}},
	{"search", func(b *bench) {
		x := b.started()
		x.RunID, x.StepID = "Invoice-Run", "step 100%"
		x.Args = []byte(`{"to":"Ann@Example.com","order":"20240131","note":"Größe_1"}`)
		x.Traceparent = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-00f067aa0ba902b7-01"
		x = b.begin(x)
		y := b.started()
		y.Args = nil
		y = b.begin(y)
		attempt := intent.Attempt{Key: y.Key, Tenant: b.tenant, At: epoch, Decision: intent.Collapsed, TraceID: "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"}
		if err := b.s.Record(b.ctx, []intent.Attempt{attempt}); err != nil {
			b.Fatal(err)
		}
		hex := x.Key.String()
		for q, want := range map[string][]intent.Key{
			hex:                                {x.Key},
			hex[:8]:                            {x.Key},
			hex[:9]:                            {x.Key},
			hex[:63]:                           {x.Key},
			hex[:7]:                            nil,
			"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": {x.Key},
			"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb": {y.Key},
			"BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB": {y.Key},
			"cccccccccccccccccccccccccccccccc": nil,
			"20240131":                         {x.Key}, // eight hex digits, and a word
			"ann@example.COM":                  {x.Key},
			"invoice-run ANN":                  {x.Key},
			"invoice-run bob":                  nil,
			"100%":                             {x.Key},
			"10_%":                             nil,
			"Größe_1":                          {x.Key},
			`"to":"ann`:                        {x.Key},
			"  ":                               {y.Key, x.Key},
			"\x00":                             {y.Key, x.Key},
			"a\xff":                            nil,
			"run-":                             {y.Key},
		} {
			if got := b.list(intentstore.Query{Q: q}); !slices.Equal(got, want) {
				b.Errorf("List with q %q: %s, want %s", q, short(got), short(want))
			}
		}
		b.lists(intentstore.Query{Q: "ann", RunID: y.RunID})
		b.lists(intentstore.Query{Q: "ann", RunID: "Invoice-Run", Limit: 1}, x.Key)
	}},
	{"search in results", func(b *bench) {
		with := func(body string) intent.Key {
			r := b.begin(b.started())
			return b.settle(r.CompleteMove("downstream", &intent.Outcome{HTTPStatus: 200, Body: []byte(body)}, epoch)).Key
		}
		id := with(`{"id":"EM_2f9c","to":"Zoë"}`)
		odd := with("\xff\xfe raw \\x41 100% Größe303")
		nul := with("a\x00nul_7")
		none := with("")
		b.begin(b.started())
		for q, want := range map[string][]intent.Key{
			"em_2f9c":         {id},
			"EM_2F9C":         {id},
			"zoë":             {id},
			"zoe":             nil,
			"em_2f9c zoë":     {id},
			"em_2f9c raw":     nil,
			"raw":             {odd},
			`\x41`:            {odd},
			"größe303":        {odd},
			"303":             {odd},
			"376":             nil, // no byte is found by its number
			"nul_7":           nil, // with NUL it is no text
			"\xff":            nil,
			"inv-1 em_2f":     {id}, // some in the arguments, some in the result
			none.String():     {none},
			nul.String()[:12]: {nul},
		} {
			if got := b.list(intentstore.Query{Q: q}); !slices.Equal(got, want) {
				b.Errorf("List with q %q: %s, want %s", q, short(got), short(want))
			}
		}
	}},
	{"a cursor that is none is refused", func(b *bench) {
		b.begin(b.started())
		b.begin(b.started())
		_, next, err := b.s.List(b.ctx, intentstore.Query{Tenant: b.tenant, Limit: 1})
		if err != nil || next == "" {
			b.Fatalf("List: next %q, %v", next, err)
		}
		for _, cursor := range []string{"x", "\x00", next[1:], next + "AAAA", "_" + next[1:], fmt.Sprintf("%055d", 0),
			"AX" + next[2:] + "="} {
			_, _, err := b.s.List(b.ctx, intentstore.Query{Tenant: b.tenant, Cursor: cursor})
			if !errors.Is(err, intent.ErrBadCursor) {
				b.Errorf("List with cursor %q: %v, want ErrBadCursor", cursor, err)
			}
		}
	}},
	{"text that no row can hold matches none", func(b *bench) {
		b.begin(b.started())
		for _, q := range []intentstore.Query{{RunID: "a\x00"}, {StepID: "\xff"}, {Tool: "\x00"}} {
			q.Tenant = b.tenant
			rows, next, err := b.s.List(b.ctx, q)
			if _, bad := errors.AsType[*intentstore.RowError](err); !bad || len(rows) != 0 || next != "" {
				b.Errorf("List(%+v): %d rows, %v; want a RowError", q, len(rows), err)
			}
		}
	}},
}
