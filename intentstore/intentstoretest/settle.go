package intentstoretest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

var settleTests = []test{
	{"every move from every status does what Apply says", func(b *bench) {
		at := epoch.Add(time.Hour)
		for _, status := range []intent.Status{intent.AwaitingApproval, intent.Started, intent.Unknown, intent.Completed, intent.Rejected} {
			for _, move := range []func(*intent.Receipt) intent.Settlement{
				func(r *intent.Receipt) intent.Settlement {
					return r.CompleteMove("downstream", outcome(`{"n":9007199254740993}`), at)
				},
				func(r *intent.Receipt) intent.Settlement {
					return r.RejectMove("gateway", intent.RetrySameKey, 1500*time.Millisecond, "breaker_open", nil, true, at)
				},
				func(r *intent.Receipt) intent.Settlement {
					return r.RejectMove("downstream", intent.RetryCorrected, 0, "not_accepted", outcome(`"no"`), false, at)
				},
				func(r *intent.Receipt) intent.Settlement {
					return r.LoseMove("timeout", &intent.Outcome{HTTPStatus: 504}, intent.Plan{}, at)
				},
			} {
				for _, fence := range []uint64{0, 1, 2, 3} {
					r := b.inStatus(status)
					m := move(&r)
					m.Fence = fence
					want, wantErr := r.Apply(m)
					if intentstore.Repeats(&r, &m) {
						wantErr = nil
					}
					got, err := b.s.Settle(b.ctx, m)
					what := fmt.Sprintf("%s from %s with fence %d", m.Verb, status, fence)
					if !errors.Is(err, wantErr) || wantErr == nil && err != nil {
						b.Fatalf("%s: %v, want %v", what, err, wantErr)
					}
					b.same(what, got, want)
					b.same(what+", Get", b.get(r.Key), want)
				}
			}
		}
	}},
	{"a late answer settles unknown", func(b *bench) {
		r := b.begin(b.started())
		lost := b.settle(r.LoseMove("lease_lost", nil, intent.Plan{}, epoch))
		done := b.settle(r.CompleteMove("downstream", outcome("{}"), epoch.Add(time.Minute)))
		want, _ := lost.Apply(r.CompleteMove("downstream", outcome("{}"), epoch.Add(time.Minute)))
		b.same("Settle", done, want)
		if !done.UnknownSince.Equal(epoch) {
			b.Errorf("unknown_since %v is forgotten, want %v", done.UnknownSince, epoch)
		}
	}},
	{"a repeat is success and changes nothing", func(b *bench) {
		r := b.begin(b.started())
		for _, m := range []intent.Settlement{
			r.LoseMove("timeout", &intent.Outcome{HTTPStatus: 504, Body: []byte("late")}, intent.Plan{}, epoch),
			r.CompleteMove("downstream", outcome("{}"), epoch.Add(time.Second)),
		} {
			first := b.settle(m)
			b.same("second Settle", b.settle(m), first)
			b.same("Get", b.get(r.Key), first)
		}
	}},
	{"the same status with another outcome is stale", func(b *bench) {
		r := b.begin(b.started())
		first := b.settle(r.CompleteMove("downstream", outcome("1"), epoch))
		got, err := b.s.Settle(b.ctx, r.CompleteMove("downstream", outcome("2"), epoch))
		if !errors.Is(err, intent.ErrStale) {
			b.Fatalf("Settle: %v, want ErrStale", err)
		}
		b.same("row that stands", got, first)
	}},
	{"an old fence is stale once the key acts again", func(b *bench) {
		row := b.rejected(intent.RetrySameKey)
		next := b.started()
		next.Key, next.Guard, next.Fingerprint = row.Key, row.Guard, row.Fingerprint
		again := b.begin(next)
		got, err := b.s.Settle(b.ctx, row.CompleteMove("downstream", outcome("{}"), epoch))
		if !errors.Is(err, intent.ErrStale) {
			b.Fatalf("Settle: %v, want ErrStale", err)
		}
		b.same("row that stands", got, again)
	}},
	{"a key without a row is none", func(b *bench) {
		r := b.started()
		if _, err := b.s.Settle(b.ctx, r.CompleteMove("downstream", nil, epoch)); !errors.Is(err, intent.ErrNone) {
			b.Errorf("Settle: %v, want ErrNone", err)
		}
		if _, err := b.s.Get(b.ctx, r.Key); !errors.Is(err, intent.ErrNone) {
			b.Errorf("Get: %v, want ErrNone", err)
		}
	}},
	{"evidence is kept", func(b *bench) {
		r := b.begin(b.started())
		b.settle(r.LoseMove("timeout", nil, intent.Plan{}, epoch))
		m := r.CompleteMove("operator", nil, epoch)
		m.Evidence, m.Reason = []byte(`{"seen":true,"n":12345678901234567890}`), "operator_resolved"
		if got := b.settle(m); !bytes.Equal(got.Evidence, m.Evidence) {
			b.Errorf("Settle gives evidence %s, want %s", got.Evidence, m.Evidence)
		}
		if got := b.get(r.Key); !bytes.Equal(got.Evidence, m.Evidence) || got.Reason != m.Reason {
			b.Errorf("Get gives evidence %s, reason %q", got.Evidence, got.Reason)
		}
	}},
	{"a settlement that cannot be stored says why", func(b *bench) {
		for field, spoil := range map[string]func(*intent.Settlement){
			"reason":          func(m *intent.Settlement) { m.Reason = "a\x00b" },
			"settled_by":      func(m *intent.Settlement) { m.SettledBy = "" },
			"settled_at":      func(m *intent.Settlement) { m.At = time.Time{} },
			"status":          func(m *intent.Settlement) { m.Status = intent.Rejected },
			"evidence":        func(m *intent.Settlement) { m.Evidence = []byte{0} },
			"outcome_headers": func(m *intent.Settlement) { m.Outcome.Headers["x"] = "\xff" },
		} {
			r := b.begin(b.started())
			m := r.CompleteMove("downstream", outcome("{}"), epoch)
			spoil(&m)
			_, err := b.s.Settle(b.ctx, m)
			if bad, ok := errors.AsType[*intentstore.RowError](err); !ok || bad.Field != field {
				b.Errorf("%s spoiled: error %v, want a RowError that names it", field, err)
			}
			b.same("Get", b.get(r.Key), r)
		}
	}},
}

// inStatus is a row that came to a status by moves alone.
func (b *bench) inStatus(status intent.Status) intent.Receipt {
	b.Helper()
	switch status {
	case intent.AwaitingApproval:
		return b.begin(b.awaiting())
	case intent.Completed:
		return b.completed()
	case intent.Rejected:
		return b.rejected(intent.RetrySameKey)
	case intent.Unknown:
		r := b.begin(b.started())
		return b.settle(r.LoseMove("lease_lost", nil, intent.Plan{}, epoch))
	}
	return b.begin(b.started())
}

var archiveTests = []test{
	{"archive stores a receipt in any status", func(b *bench) {
		for _, status := range []intent.Status{intent.AwaitingApproval, intent.Started, intent.Unknown, intent.Completed, intent.Rejected} {
			like := b.inStatus(status)
			r := b.started()
			key, guard := r.Key, r.Guard
			r = like
			r.Key, r.Guard, r.Durability = key, guard, intent.Hot
			got, err := b.s.Archive(b.ctx, r)
			if err != nil {
				b.Fatalf("Archive of %s: %v", status, err)
			}
			b.same("Archive", got, r)
			b.same("Get", b.get(key), r)
			if got, err = b.s.Archive(b.ctx, r); err != nil {
				b.Fatalf("second Archive of %s: %v", status, err)
			}
			b.same("second Archive", got, r)
		}
	}},
	{"archive never changes a row", func(b *bench) {
		row := b.begin(b.started())
		r, _ := row.Apply(row.CompleteMove("downstream", outcome("{}"), epoch))
		got, err := b.s.Archive(b.ctx, r)
		if err != nil {
			b.Fatal(err)
		}
		b.same("Archive", got, row)
		b.same("Get", b.get(row.Key), row)
	}},
	{"archive under a guard that another key holds is stale", func(b *bench) {
		row := b.begin(b.started())
		r := b.started()
		r.Guard = row.Guard
		got, err := b.s.Archive(b.ctx, r)
		if !errors.Is(err, intent.ErrStale) {
			b.Fatalf("Archive: %v, want ErrStale", err)
		}
		b.same("row that stands", got, row)
	}},
	{"a rejected receipt is archived whoever holds its guard", func(b *bench) {
		holder, like, r := b.begin(b.started()), b.rejected(intent.RetrySameKey), b.started()
		key := r.Key
		r = like
		r.Key, r.Guard = key, holder.Guard
		got, err := b.s.Archive(b.ctx, r)
		if err != nil {
			b.Fatalf("Archive: %v", err)
		}
		b.same("Archive", got, r)
		b.same("Get", b.get(key), r)
	}},
	{"an archived row holds its guard", func(b *bench) {
		like, r := b.completed(), b.started()
		key, guard := r.Key, r.Guard
		r = like
		r.Key, r.Guard = key, guard
		if _, err := b.s.Archive(b.ctx, r); err != nil {
			b.Fatal(err)
		}
		other := b.started()
		other.Guard = guard
		b.refused(other, key)
	}},
	{"every field comes back", func(b *bench) {
		r := b.started()
		r.Occurrence, r.Attempts, r.Executions, r.Fence, r.Version = 3, 5, 4, 7, 9
		r.Status, r.Retry, r.RetryAfter, r.Reason = intent.Rejected, intent.RetryCorrected, 2500*time.Millisecond, "not_accepted"
		r.Outcome = &intent.Outcome{HTTPStatus: 422, Headers: map[string]string{"content-type": "text/plain", "x-a": "ü\"\n"},
			Body: []byte{0, 1, 0xff}, Truncated: true, Length: 10 << 20, SHA256: "ab"}
		r.Expired = true // checked in a second row: a tombstone has no outcome
		r.UnknownSince, r.SettledAt, r.SettledBy = epoch.Add(1001*time.Microsecond), epoch.Add(2*time.Second), "operator"
		r.Evidence, r.Durable = []byte(`{"by":"me"}`), true
		r.NotifyAt, r.Notices, r.Checks = epoch.Add(3*time.Second), 2, 6
		r.ApprovedBy, r.Doubt, r.Template = []string{"ann", "b\"ü"}, intent.DoubtContradicted, "send_invoice_email/1"
		open := r // what only an open row has
		open.Key, open.Guard, open.Status, open.Retry = b.digest("open", 0), b.digest("open guard", 0), intent.Unknown, intent.RetryNever
		open.SettledAt, open.SettledBy, open.Expired = time.Time{}, "", false
		open.NextCheck, open.Parked, open.Sealed = epoch.Add(4*time.Second), intent.ParkedGaveUp, []byte{0, 0xff}
		for v, w, i := reflect.ValueOf(r), reflect.ValueOf(open), 0; i < v.NumField(); i++ {
			if v.Field(i).IsZero() && w.Field(i).IsZero() {
				b.Errorf("the test leaves %s out", v.Type().Field(i).Name)
			}
		}
		tombstone := r
		tombstone.Key, tombstone.Guard, tombstone.Outcome = b.digest("tombstone", 0), b.digest("tombstone guard", 0), nil
		r.Expired = false
		for _, r := range []intent.Receipt{r, tombstone, open} {
			got, err := b.s.Archive(b.ctx, r)
			if err != nil {
				b.Fatal(err)
			}
			b.same("Archive", got, r)
			b.same("Get", b.get(r.Key), r)
		}
	}},
}

var fidelityTests = []test{
	{"bodies come back byte for byte", func(b *bench) {
		png := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), bytes.Repeat([]byte{0, 0xff, 0x80}, 50_000)...)
		for name, o := range map[string]*intent.Outcome{
			"none":       nil,
			"204":        {HTTPStatus: 204},
			"empty":      {HTTPStatus: 200, Headers: map[string]string{}, Body: []byte{}},
			"null":       {HTTPStatus: 200, Body: []byte("null")},
			"zero":       {HTTPStatus: 200, Body: []byte("0")},
			"png":        {HTTPStatus: 200, Headers: map[string]string{"content-type": "image/png"}, Body: png},
			"exact":      {HTTPStatus: 201, Body: []byte(`{"id": 9007199254740993, "x": 1.10,"a":1e400}` + "\n")},
			"duplicates": {HTTPStatus: 200, Body: []byte(`{"a":1,"a":2}`)},
			"nul":        {HTTPStatus: 200, Body: []byte("a\x00b\xff")},
			"truncated":  {HTTPStatus: 200, Truncated: true, Length: 10 << 20, SHA256: fmt.Sprintf("%x", b.digest("body", 0))},
			"headers":    {HTTPStatus: 200, Headers: map[string]string{"location": "/x?a=1&b=<2>", "etag": `"a"`, "": "odd"}},
			"no status":  {Body: []byte("x")},
		} {
			r := b.started()
			r.Args = []byte(`{"n": 12345678901234567890, "s":"a\u0000b", "big":` + string(bytes.Repeat([]byte("9"), 40)) + `}`)
			r = b.begin(r)
			want, _ := r.Apply(r.CompleteMove("downstream", o, epoch))
			b.same(name+", Settle", b.settle(r.CompleteMove("downstream", o, epoch)), want)
			b.same(name+", Get", b.get(r.Key), want)
			rows, _, err := b.s.List(b.ctx, intentstore.Query{Tenant: b.tenant, RunID: r.RunID, Limit: 1})
			if err != nil || len(rows) != 1 {
				b.Fatalf("%s: List gives %d rows, %v", name, len(rows), err)
			}
			b.same(name+", List", rows[0], want)
		}
	}},
	{"arguments may be absent", func(b *bench) {
		r := b.started()
		r.Args, r.RunID, r.StepID = nil, "", ""
		b.same("Begin", b.begin(r), r)
		b.same("Get", b.get(r.Key), r)
	}},
	{"times are cut to microseconds in UTC", func(b *bench) {
		r := b.started()
		r.CreatedAt = time.Date(2026, 3, 29, 3, 0, 0, 999_999_999, time.FixedZone("east", 7200))
		r.StartedAt = r.CreatedAt
		want := r
		want.CreatedAt = intent.Micros(r.CreatedAt)
		want.StartedAt = want.CreatedAt
		got := b.begin(r)
		b.same("Begin", got, want)
		if got.CreatedAt != want.CreatedAt || b.get(r.Key).CreatedAt != want.CreatedAt {
			b.Errorf("created_at %v, want %v", got.CreatedAt, want.CreatedAt)
		}
	}},
}
