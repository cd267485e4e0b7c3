package intentstoretest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

var keeperTests = []test{
	{"overdue finds started rows, oldest first", func(b *bench) {
		first, second, third := b.begin(b.started()), b.begin(b.started()), b.begin(b.started())
		b.completed()
		b.rejected(intent.RetrySameKey)
		b.begin(b.awaiting())
		lost := b.begin(b.started())
		b.settle(lost.LoseMove("lease_lost", nil, intent.Plan{}, epoch))
		for _, c := range []struct {
			before time.Time
			limit  int
			want   []intent.Receipt
		}{
			{epoch.Add(time.Hour), 10, []intent.Receipt{first, second, third}},
			{epoch.Add(time.Hour), 2, []intent.Receipt{first, second}},
			{third.StartedAt, 10, []intent.Receipt{first, second}},
			{epoch, 10, nil},
			{epoch.Add(time.Hour), 0, nil},
		} {
			got, err := b.s.Overdue(b.ctx, c.before, c.limit)
			if err != nil || len(got) != len(c.want) {
				b.Fatalf("Overdue(%v, %d): %d rows, %v; want %d", c.before, c.limit, len(got), err, len(c.want))
			}
			for i := range got {
				b.same("overdue row", got[i], c.want[i])
			}
		}
	}},
	{"expire leaves tombstones, forget removes them", func(b *bench) {
		done, no := b.completed(), b.rejected(intent.RetryCorrected)
		young := b.begin(b.started())
		young = b.settle(young.CompleteMove("downstream", outcome("{}"), epoch.Add(48*time.Hour)))
		running := b.begin(b.started())
		lost := b.begin(b.started())
		lost = b.settle(lost.LoseMove("timeout", outcome("{}"), intent.Plan{}, epoch))
		waiting := b.begin(b.awaiting())
		attempt := intent.Attempt{Key: done.Key, Tenant: b.tenant, At: epoch, Decision: intent.Executed, TraceID: "t", SpanID: "s"}
		if err := b.s.Record(b.ctx, []intent.Attempt{attempt}); err != nil {
			b.Fatal(err)
		}
		limit := epoch.Add(24 * time.Hour)
		if n, err := b.s.Forget(b.ctx, limit, 10); n != 0 || err != nil {
			b.Fatalf("Forget before Expire: %d, %v; want 0", n, err)
		}
		if n, err := b.s.Expire(b.ctx, limit, 1); n != 1 || err != nil {
			b.Fatalf("Expire(1): %d, %v", n, err)
		}
		if n, err := b.s.Expire(b.ctx, limit, 10); n != 1 || err != nil {
			b.Fatalf("Expire: %d, %v; want the other one", n, err)
		}
		if n, err := b.s.Expire(b.ctx, limit, 10); n != 0 || err != nil {
			b.Fatalf("Expire again: %d, %v; want 0", n, err)
		}
		b.same("tombstone of completed", b.get(done.Key), intentstore.Tombstone(done))
		b.same("tombstone of rejected", b.get(no.Key), intentstore.Tombstone(no))
		for _, r := range []intent.Receipt{young, running, lost, waiting} {
			b.same("left alone", b.get(r.Key), r)
		}
		late := b.started()
		late.Key, late.Guard, late.Fingerprint = done.Key, done.Guard, done.Fingerprint
		b.refused(late, done.Key)
		if got := b.settle(done.CompleteMove("downstream", done.Outcome, done.SettledAt)); !got.Expired {
			b.Error("a repeated settlement brought an expired result back")
		}

		if n, err := b.s.Forget(b.ctx, limit, 1); n != 1 || err != nil {
			b.Fatalf("Forget(1): %d, %v", n, err)
		}
		if n, err := b.s.Forget(b.ctx, limit, 10); n != 1 || err != nil {
			b.Fatalf("Forget: %d, %v", n, err)
		}
		for _, k := range []intent.Key{done.Key, no.Key} {
			if _, err := b.s.Get(b.ctx, k); !errors.Is(err, intent.ErrNone) {
				b.Errorf("Get of a forgotten key: %v, want ErrNone", err)
			}
		}
		attempts, n, executions, err := b.s.Attempts(b.ctx, done.Key, 10)
		if len(attempts) != 0 || n != 0 || len(executions) != 0 || err != nil {
			b.Errorf("Attempts of a forgotten key: %d of %d, %d executions, %v", len(attempts), n, len(executions), err)
		}
		for _, r := range []intent.Receipt{young, running, lost, waiting} {
			b.same("left alone", b.get(r.Key), r)
		}
		next := b.started()
		next.Guard = done.Guard
		b.begin(next) // the tombstone no longer holds it
	}},
	{"expire and forget go through many rows", func(b *bench) {
		for range 450 {
			r := b.started()
			done, _ := r.Apply(r.CompleteMove("downstream", outcome("{}"), epoch))
			done.Durability = intent.Hot
			if _, err := b.s.Archive(b.ctx, done); err != nil {
				b.Fatal(err)
			}
		}
		if n, err := b.s.Expire(b.ctx, epoch.Add(time.Second), 1000); n != 450 || err != nil {
			b.Fatalf("Expire: %d, %v; want 450", n, err)
		}
		if n, err := b.s.Forget(b.ctx, epoch.Add(time.Second), 440); n != 440 || err != nil {
			b.Fatalf("Forget: %d, %v; want 440", n, err)
		}
	}},
	{"ready, and closed", func(b *bench) {
		if err := b.s.Ready(b.ctx); err != nil {
			b.Fatalf("Ready: %v", err)
		}
		r := b.begin(b.started())
		for range 2 {
			if err := b.s.Close(); err != nil {
				b.Fatalf("Close: %v", err)
			}
		}
		if err := b.s.Ready(b.ctx); err == nil {
			b.Error("Ready of a closed store gives no error")
		}
		if _, err := b.s.Begin(b.ctx, b.started()); err == nil {
			b.Error("Begin on a closed store gives no error")
		}
		if _, err := b.s.Settle(b.ctx, r.CompleteMove("downstream", nil, epoch)); err == nil {
			b.Error("Settle on a closed store gives no error")
		}
	}},
}

var journalTests = []test{
	{"arrivals are kept in order", func(b *bench) {
		r := b.begin(b.started())
		var all []intent.Attempt
		for i, d := range []intent.Decision{intent.Executed, intent.Collapsed, intent.Replayed, intent.Mismatch, intent.StepConflict, intent.Refused, intent.Pending} {
			all = append(all, intent.Attempt{Key: r.Key, Tenant: b.tenant, At: epoch.Add(time.Duration(i) * time.Microsecond), Decision: d,
				TraceID: fmt.Sprintf("%032x", i), SpanID: fmt.Sprintf("%016x", i), Replica: "replica-1", Region: "eu", Credential: "fleet-a"})
		}
		shuffled := []intent.Attempt{all[3], all[0], all[6], all[1]}
		if err := b.s.Record(b.ctx, shuffled); err != nil {
			b.Fatal(err)
		}
		if err := b.s.Record(b.ctx, []intent.Attempt{all[5], all[2], all[4]}); err != nil {
			b.Fatal(err)
		}
		for _, limit := range []int{7, 100, 3, 1, 0} {
			got, total, executions, err := b.s.Attempts(b.ctx, r.Key, limit)
			if err != nil || total != 7 {
				b.Fatalf("Attempts: %d in all, %v", total, err)
			}
			if want := all[7-min(7, limit):]; !slices.Equal(got, want) {
				b.Errorf("Attempts(%d): %+v, want %+v", limit, got, want)
			}
			if e, _ := r.Execution(); len(executions) != 1 || executions[0] != e {
				b.Errorf("executions: %+v, want %+v", executions, e)
			}
		}
	}},
	{"arrivals of a key without a row", func(b *bench) {
		k := b.started().Key
		if err := b.s.Record(b.ctx, []intent.Attempt{{Key: k, Tenant: b.tenant, At: epoch, Decision: intent.Refused}}); err != nil {
			b.Fatal(err)
		}
		got, total, executions, err := b.s.Attempts(b.ctx, k, 10)
		if err != nil || total != 1 || len(got) != 1 || len(executions) != 0 {
			b.Errorf("Attempts: %+v of %d, %+v, %v", got, total, executions, err)
		}
	}},
	{"a bad arrival does not lose its neighbours", func(b *bench) {
		k := b.started().Key
		good := intent.Attempt{Key: k, Tenant: b.tenant, At: epoch, Decision: intent.Replayed}
		bad := good
		bad.Replica = "a\x00b"
		worse := good
		worse.Decision = 0
		if err := b.s.Record(b.ctx, []intent.Attempt{good, bad, worse, good}); err == nil {
			b.Error("Record of a bad arrival gives no error")
		}
		if _, total, _, err := b.s.Attempts(b.ctx, k, 10); total != 2 || err != nil {
			b.Errorf("Attempts: %d in all, %v; want 2", total, err)
		}
		if err := b.s.Record(b.ctx, nil); err != nil {
			b.Errorf("Record of nothing: %v", err)
		}
	}},
	{"nothing is executed while a key waits for approval", func(b *bench) {
		r := b.begin(b.awaiting())
		b.executions(r.Key)
	}},
}
