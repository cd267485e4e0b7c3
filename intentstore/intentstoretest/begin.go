package intentstoretest

import (
	"errors"
	"strings"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

var beginTests = []test{
	{"begin writes the row as asked", func(b *bench) {
		r := b.started()
		b.same("Begin", b.begin(r), r)
		b.same("Get", b.get(r.Key), r)
	}},
	{"begin again with the same claim is one ask", func(b *bench) {
		r := b.started()
		b.begin(r)
		b.same("second Begin", b.begin(r), r)
		b.same("Get", b.get(r.Key), r)
	}},
	{"another claim of a started key is not mine", func(b *bench) {
		r := b.begin(b.started())
		other := r
		other.ClaimID = b.claim()
		b.same("row in the way", b.refused(other, r.Key), r)
		other.Fingerprint = b.digest("corrected", 0)
		b.same("row in the way of other arguments", b.refused(other, r.Key), r)
	}},
	{"a claim is spent once its key is settled", func(b *bench) {
		asked := b.started()
		r := b.begin(asked)
		lost := b.settle(r.LoseMove("lease_lost", nil, intent.Plan{}, epoch))
		b.same("row in the way", b.refused(asked, r.Key), lost)
		done := b.settle(r.CompleteMove("lookup", outcome("{}"), epoch))
		b.same("row in the way", b.refused(asked, r.Key), done)
	}},
	{"a guard is held by one key until it is rejected", func(b *bench) {
		first := b.begin(b.started())
		second := b.started()
		second.Guard = first.Guard
		b.same("started holder", b.refused(second, first.Key), first)
		lost := b.settle(first.LoseMove("timeout", nil, intent.Plan{}, epoch))
		b.same("unknown holder", b.refused(second, first.Key), lost)
		b.settle(first.RejectMove("lookup", intent.RetrySameKey, 0, "absent", nil, false, epoch))
		b.begin(second)

		third := b.started()
		third.Guard = second.Guard
		b.settle(second.CompleteMove("downstream", nil, epoch))
		b.refused(third, second.Key)
		if _, err := b.s.Get(b.ctx, third.Key); !errors.Is(err, intent.ErrNone) {
			b.Errorf("Get of a refused key: %v, want ErrNone", err)
		}
	}},
	{"a key may wait for approval", func(b *bench) {
		r := b.awaiting()
		b.same("Begin", b.begin(r), r)
		b.same("second Begin", b.begin(r), r)
		other := r
		other.ClaimID = b.claim()
		b.refused(other, r.Key)
		conflict := b.started()
		conflict.Guard = r.Guard
		b.refused(conflict, r.Key)
	}},
	{"a row that cannot be stored says why and stores nothing", func(b *bench) {
		for field, spoil := range map[string]func(*intent.Receipt){
			"key":         func(r *intent.Receipt) { r.Key = intent.Key{} },
			"claim_id":    func(r *intent.Receipt) { r.ClaimID = intent.ClaimID{} },
			"tenant":      func(r *intent.Receipt) { r.Tenant = "" },
			"tool":        func(r *intent.Receipt) { r.Tool = "a\x00b" },
			"run_id":      func(r *intent.Receipt) { r.RunID = "\xff" },
			"step_id":     func(r *intent.Receipt) { r.StepID = strings.Repeat("x", intentstore.MaxText+1) },
			"args":        func(r *intent.Receipt) { r.Args = []byte("\xff") },
			"class":       func(r *intent.Receipt) { r.Class = 0 },
			"durability":  func(r *intent.Receipt) { r.Durability = 0 },
			"retry":       func(r *intent.Receipt) { r.Retry = 0 },
			"status":      func(r *intent.Receipt) { r.Status = intent.Completed },
			"fence":       func(r *intent.Receipt) { r.Fence = 0 },
			"occurrence":  func(r *intent.Receipt) { r.Occurrence = -1 },
			"created_at":  func(r *intent.Receipt) { r.CreatedAt = time.Time{} },
			"started_at":  func(r *intent.Receipt) { r.StartedAt = time.Time{} },
			"outcome":     func(r *intent.Receipt) { r.Outcome = outcome("{}") },
			"settle_by":   func(r *intent.Receipt) { r.SettleBy = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
			"traceparent": func(r *intent.Receipt) { r.Traceparent = "\x00" },
		} {
			r := b.started()
			spoil(&r)
			_, err := b.s.Begin(b.ctx, r)
			bad, ok := errors.AsType[*intentstore.RowError](err)
			if !ok || bad.Field != field {
				b.Errorf("%s spoiled: error %v, want a RowError that names it", field, err)
			}
			if _, err := b.s.Get(b.ctx, r.Key); !errors.Is(err, intent.ErrNone) {
				b.Errorf("%s spoiled: Get gives %v, want ErrNone", field, err)
			}
		}
	}},
}

var againTests = []test{
	{"a same_key rejection lets the same call act again", func(b *bench) {
		row := b.rejected(intent.RetrySameKey)
		next := b.started()
		next.Key, next.Guard, next.Fingerprint = row.Key, row.Guard, row.Fingerprint
		want, err := row.ApplyAgain(next)
		if err != nil {
			b.Fatal(err)
		}
		b.same("Begin", b.begin(next), want)
		b.same("Get", b.get(row.Key), want)
		b.same("Begin again after a lost reply", b.begin(next), want)
		if want.Fence != 2 || want.Executions != 2 || !want.CreatedAt.Equal(row.CreatedAt) {
			b.Errorf("fence %d, executions %d: the move itself is not what the test is about", want.Fence, want.Executions)
		}
		b.executions(row.Key, row, want)
	}},
	{"a corrected rejection lets only another call act again", func(b *bench) {
		row := b.rejected(intent.RetryCorrected)
		next := b.started()
		next.Key, next.Guard, next.Fingerprint = row.Key, row.Guard, row.Fingerprint
		b.same("row in the way", b.refused(next, row.Key), row)
		next.Fingerprint = b.digest("corrected", 0)
		want, _ := row.ApplyAgain(next)
		b.same("Begin", b.begin(next), want)
	}},
	{"an unsent execution does not count but is kept", func(b *bench) {
		r := b.begin(b.started())
		row := b.settle(r.RejectMove("gateway", intent.RetrySameKey, time.Second, "breaker_open", nil, true, epoch))
		next := b.started()
		next.Key, next.Guard, next.Fingerprint = row.Key, row.Guard, row.Fingerprint
		again := b.begin(next)
		if again.Fence != 2 || again.Executions != 1 {
			b.Errorf("fence %d, executions %d; want 2, 1", again.Fence, again.Executions)
		}
		b.executions(row.Key, row, again)
	}},
	{"acting again needs the guard", func(b *bench) {
		row := b.rejected(intent.RetrySameKey)
		holder := b.started()
		holder.Guard = row.Guard
		holder = b.begin(holder)
		next := b.started()
		next.Key, next.Guard, next.Fingerprint = row.Key, row.Guard, row.Fingerprint
		b.same("row in the way", b.refused(next, holder.Key), holder)
		b.same("Get", b.get(row.Key), row)
		b.executions(row.Key, row)
	}},
	{"a rejected key may come to wait for approval", func(b *bench) {
		row := b.rejected(intent.RetrySameKey)
		next := b.awaiting()
		next.Key, next.Guard, next.Fingerprint = row.Key, row.Guard, row.Fingerprint
		want, _ := row.ApplyAgain(next)
		b.same("Begin", b.begin(next), want)
		b.executions(row.Key, row)
	}},
	{"acting many times keeps every execution", func(b *bench) {
		row := b.rejected(intent.RetrySameKey)
		rows := []intent.Receipt{row}
		for range 3 {
			next := b.started()
			next.Key, next.Guard, next.Fingerprint = row.Key, row.Guard, row.Fingerprint
			r := b.begin(next)
			row = b.settle(r.RejectMove("downstream", intent.RetrySameKey, 0, "rate_limited",
				&intent.Outcome{HTTPStatus: 429}, false, r.StartedAt.Add(time.Second)))
			rows = append(rows, row)
		}
		b.executions(row.Key, rows...)
	}},
}

// executions compares what Attempts gives with the executions of those rows.
func (b *bench) executions(k intent.Key, rows ...intent.Receipt) {
	b.Helper()
	_, _, got, err := b.s.Attempts(b.ctx, k, 10)
	if err != nil {
		b.Fatalf("Attempts: %v", err)
	}
	var want []intent.Execution
	for _, r := range rows {
		e, _ := r.Execution()
		want = append(want, e)
	}
	if len(got) != len(want) {
		b.Fatalf("executions: %+v, want %+v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			b.Errorf("execution %d: %+v, want %+v", i, got[i], want[i])
		}
	}
}
