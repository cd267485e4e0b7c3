package intentstoretest

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// opening is an execution that somebody begins after the first.
func (b *bench) opening() intent.Opening {
	return intent.Opening{ClaimID: b.claim(), At: epoch.Add(time.Hour), SettleBy: epoch.Add(2 * time.Hour), Template: "send_invoice_email/1",
		Traceparent: "00-cccccccccccccccccccccccccccccccc-00f067aa0ba902b7-01", Replica: "replica-2", Region: "us-east-1"}
}

// entry is a line of the audit for a change.
func entry(a intent.Action, was, now intent.Receipt) *intent.Entry {
	return &intent.Entry{Key: was.Key, Tenant: was.Tenant, Tool: was.Tool, At: epoch.Add(time.Hour), Actor: "ann", Action: a,
		Reason: "because: ü\n\"x\"", Before: was.Standing(), After: now.Standing(), Evidence: []byte(`{"status":200}`), Traceparent: "00-a-b-01"}
}

// replace must be applied.
func (b *bench) replace(was, now intent.Receipt, e *intent.Entry) intent.Receipt {
	b.Helper()
	got, err := b.s.Replace(b.ctx, was, now, e)
	if err != nil {
		b.Fatalf("Replace of %s by %s: %v", was.Standing(), now.Standing(), err)
	}
	b.same("Replace", got, now)
	b.same("Get after Replace", b.get(was.Key), now)
	return got
}

// stale must change nothing.
func (b *bench) stale(what string, was, now, standing intent.Receipt) {
	b.Helper()
	got, err := b.s.Replace(b.ctx, was, now, entry(intent.ActionWait, was, now))
	if !errors.Is(err, intent.ErrStale) {
		b.Fatalf("%s: %v, want ErrStale", what, err)
	}
	b.same(what+", row that stands", got, standing)
	b.same(what+", Get", b.get(standing.Key), standing)
}

// audited compares the actions of a key's audit.
func (b *bench) audited(k intent.Key, want ...intent.Action) {
	b.Helper()
	entries, err := b.s.Audit(b.ctx, k, 100)
	if err != nil {
		b.Fatalf("Audit: %v", err)
	}
	var got []intent.Action
	for _, e := range entries {
		got = append(got, e.Action)
	}
	if !slices.Equal(got, want) {
		b.Fatalf("the audit says %v, want %v", got, want)
	}
}

// unknown is a row that was lost, with a plan.
func (b *bench) unknown(p intent.Plan) intent.Receipt {
	b.Helper()
	asked := b.started()
	asked.Sealed = []byte("sealed")
	r := b.begin(asked)
	return b.settle(r.LoseMove("lease_lost", nil, p, epoch))
}

func must[T any](b *bench) func(T, error) T {
	return func(v T, err error) T {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
		return v
	}
}

var soon = intent.Plan{NextCheck: epoch.Add(time.Minute), NotifyAt: epoch.Add(2 * time.Minute)}

var deskTests = []test{
	{"what people decide about a key that awaits approval", func(b *bench) {
		made := must[intent.Receipt](b)
		asked := b.awaiting()
		asked.Plan, asked.Sealed, asked.Template = soon, []byte{0, 1}, "send_invoice_email/1"
		r := b.begin(asked)
		b.same("Begin", r, asked)
		endorsed := made(r.Endorse("ann"))
		r = b.replace(r, endorsed, entry(intent.ActionApprove, r, endorsed))
		approved := made(r.Approve("bob", b.opening()))
		r = b.replace(r, approved, entry(intent.ActionApprove, r, approved))
		b.executions(r.Key, r)
		if !slices.Equal(r.ApprovedBy, []string{"ann", "bob"}) || r.Fence != 1 || !bytes.Equal(r.Sealed, asked.Sealed) {
			b.Errorf("approved by %v, fence %d, sealed %q", r.ApprovedBy, r.Fence, r.Sealed)
		}
		done := b.settle(r.CompleteMove("downstream", outcome("{}"), epoch.Add(2*time.Hour)))
		want, _ := r.Apply(r.CompleteMove("downstream", outcome("{}"), epoch.Add(2*time.Hour)))
		b.same("settled", done, want)
		b.audited(r.Key, intent.ActionApprove, intent.ActionApprove)

		for _, reason := range []string{intent.ReasonDeclined, intent.ReasonExpired} {
			r := b.begin(b.awaiting())
			declined := made(r.Decline("operator", reason, []byte(`{"by":"ann"}`), epoch.Add(time.Hour)))
			r = b.replace(r, declined, entry(intent.ActionDecline, r, declined))
			b.executions(r.Key)
			next := b.started() // it has let go of its guard
			next.Guard = r.Guard
			b.begin(next)
		}
	}},
	{"an unknown key acts again and keeps what is superseded", func(b *bench) {
		made := must[intent.Receipt](b)
		first := b.unknown(soon)
		second := made(first.Reexecute(b.opening()))
		second = b.replace(first, second, entry(intent.ActionRetry, first, second))
		if second.Fence != 2 || second.Executions != 2 || second.Checks != 1 {
			b.Errorf("fence %d, executions %d, checks %d; want 2, 2, 1", second.Fence, second.Executions, second.Checks)
		}
		b.executions(first.Key, first, second)
		if got, err := b.s.Settle(b.ctx, first.CompleteMove("downstream", outcome("{}"), epoch)); !errors.Is(err, intent.ErrStale) {
			b.Errorf("an answer of the first execution: %s, %v; want ErrStale", got.Standing(), err)
		}
		lost := b.settle(second.LoseMove("timeout", nil, intent.Plan{Parked: intent.ParkedTries}, epoch.Add(time.Hour)))
		third := made(lost.Reexecute(b.opening()))
		b.replace(lost, third, nil)
		b.executions(first.Key, first, lost, third)
		b.audited(first.Key, intent.ActionRetry)
	}},
	{"plans, checks and doubts leave the version alone", func(b *bench) {
		r := b.unknown(intent.Plan{})
		for _, now := range []func(intent.Receipt) intent.Receipt{
			func(r intent.Receipt) intent.Receipt { return r.Wait(soon) },
			func(r intent.Receipt) intent.Receipt { return r.Checked([]byte(`{"n":1}`), soon) },
			func(r intent.Receipt) intent.Receipt { return r.Checked(nil, intent.Plan{Parked: intent.ParkedGaveUp}) },
			func(r intent.Receipt) intent.Receipt { return r.Suspect(intent.DoubtLateAnswer, epoch) },
			func(r intent.Receipt) intent.Receipt { r.Notices++; return r },
			func(r intent.Receipt) intent.Receipt { return r.Suspect(0, time.Time{}) },
		} {
			r = b.replace(r, now(r), nil)
		}
		if r.Fence != 1 || r.Version != 2 {
			b.Errorf("fence %d, version %d; want 1, 2", r.Fence, r.Version)
		}
		for _, status := range []intent.Status{intent.AwaitingApproval, intent.Started, intent.Unknown, intent.Completed, intent.Rejected} {
			r := b.inStatus(status)
			b.replace(r, r.Suspect(intent.DoubtContradicted, epoch), nil)
		}
	}},
	{"whoever does not know the row as it is changes nothing", func(b *bench) {
		row := b.unknown(soon)
		for what, spoil := range map[string]func(*intent.Receipt){
			"status": func(r *intent.Receipt) {
				r.Status, r.StartedAt, r.Sealed = intent.AwaitingApproval, time.Time{}, nil
			},
			"fence":       func(r *intent.Receipt) { r.Fence++ },
			"version":     func(r *intent.Receipt) { r.Version++ },
			"next_check":  func(r *intent.Receipt) { r.NextCheck = r.NextCheck.Add(time.Microsecond) },
			"no check":    func(r *intent.Receipt) { r.NextCheck = time.Time{} },
			"notify_at":   func(r *intent.Receipt) { r.NotifyAt = r.NotifyAt.Add(-time.Microsecond) },
			"no notice":   func(r *intent.Receipt) { r.NotifyAt = time.Time{} },
			"parked":      func(r *intent.Receipt) { r.Parked = intent.ParkedNoTool },
			"checks":      func(r *intent.Receipt) { r.Checks++ },
			"notices":     func(r *intent.Receipt) { r.Notices++ },
			"doubt":       func(r *intent.Receipt) { r.Doubt = intent.DoubtLateAnswer },
			"approved_by": func(r *intent.Receipt) { r.ApprovedBy = []string{"ann"} },
		} {
			was := row
			spoil(&was)
			b.stale(what, was, was.Wait(intent.Plan{NextCheck: epoch.Add(time.Hour)}), row)
		}
		b.audited(row.Key)
		other := row
		other.Key, other.Guard = b.digest("none", 0), b.digest("none", 1)
		if _, err := b.s.Replace(b.ctx, other, other.Wait(intent.Plan{}), nil); !errors.Is(err, intent.ErrNone) {
			b.Errorf("Replace of no row: %v, want ErrNone", err)
		}
	}},
	{"what may not be is refused", func(b *bench) {
		row := b.unknown(soon)
		done := b.completed()
		for what, c := range map[string]struct {
			was, now intent.Receipt
			entry    func(*intent.Entry)
		}{
			"another key":       {was: row, now: func() intent.Receipt { r := row; r.Key[0]++; return r }()},
			"another tenant":    {was: row, now: func() intent.Receipt { r := row; r.Tenant = "x"; return r }()},
			"a version skipped": {was: row, now: func() intent.Receipt { r := row; r.Version += 2; return r }()},
			"a fence alone":     {was: row, now: func() intent.Receipt { r := row; r.Fence++; return r }()},
			"completed no more": {was: done, now: func() intent.Receipt {
				r := done
				r.Status, r.Version = intent.Unknown, r.Version+1
				return r
			}()},
			"parked although settled": {was: done, now: func() intent.Receipt { r := done; r.Parked = intent.ParkedGaveUp; return r }()},
			"an audit of another key": {was: row, now: row, entry: func(e *intent.Entry) { e.Key[0]++ }},
			"nobody did it":           {was: row, now: row, entry: func(e *intent.Entry) { e.Actor = "" }},
			"nothing was done":        {was: row, now: row, entry: func(e *intent.Entry) { e.Action = 0 }},
			"a reason with NUL":       {was: row, now: row, entry: func(e *intent.Entry) { e.Reason = "\x00" }},
			"bytes as evidence":       {was: row, now: row, entry: func(e *intent.Entry) { e.Evidence = []byte{0xff} }},
		} {
			e := entry(intent.ActionResolve, c.was, c.now)
			if c.entry != nil {
				c.entry(e)
			}
			_, err := b.s.Replace(b.ctx, c.was, c.now, e)
			if _, bad := errors.AsType[*intentstore.RowError](err); !bad {
				b.Errorf("%s: %v, want a RowError", what, err)
			}
			b.same(what+", Get", b.get(c.was.Key), c.was)
		}
		b.audited(row.Key)
		b.audited(done.Key)
	}},
	{"what names an intent does not change", func(b *bench) {
		row := b.unknown(soon)
		now := row.Wait(intent.Plan{NextCheck: epoch.Add(time.Hour)})
		want := now
		now.Args, now.Tool, now.RunID, now.CreatedAt, now.Fingerprint = []byte(`{}`), "other", "other", epoch.Add(9*time.Hour), b.digest("x", 0)
		got, err := b.s.Replace(b.ctx, row, now, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.same("Replace", got, want)
		b.same("Get", b.get(row.Key), want)
	}},
	{"a result does not change with a plan", func(b *bench) {
		row := b.completed()
		now := row.Suspect(intent.DoubtContradicted, epoch)
		want := now
		now.Outcome, now.SettledBy, now.ClaimID, now.Executions = outcome(`"other"`), "lookup", b.claim(), 7
		got, err := b.s.Replace(b.ctx, row, now, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.same("Replace", got, want)
		b.same("Get", b.get(row.Key), want)
	}},
	{"a move asked again is one move", func(b *bench) {
		made := must[intent.Receipt](b)
		r := b.begin(b.awaiting())
		approved := made(r.Approve("ann", b.opening()))
		for range 3 {
			b.replace(r, approved, entry(intent.ActionApprove, r, approved))
		}
		b.audited(r.Key, intent.ActionApprove)
		b.stale("another approval", r, made(r.Approve("ann", b.opening())), approved)

		lost := b.unknown(soon)
		again := made(lost.Reexecute(b.opening()))
		for range 2 {
			b.replace(lost, again, entry(intent.ActionRetry, lost, again))
		}
		b.audited(lost.Key, intent.ActionRetry)
		b.executions(lost.Key, lost, again)
	}},
	{"a plan asked again may be another's", func(b *bench) {
		r := b.unknown(soon)
		taken := b.replace(r, r.Wait(intent.Plan{NextCheck: epoch.Add(time.Hour)}), nil)
		b.stale("the same plan", r, r.Wait(intent.Plan{NextCheck: epoch.Add(time.Hour)}), taken)
	}},
	{"settling clears the plan and knows what went on", func(b *bench) {
		asked := b.started()
		asked.Sealed, asked.Template = []byte("secret"), "send_invoice_email/1"
		r := b.begin(asked)
		plan := intent.Plan{NextCheck: epoch.Add(time.Minute), NotifyAt: epoch.Add(2 * time.Minute), Parked: intent.ParkedByPolicy}
		lost := b.settle(r.LoseMove("timeout", nil, plan, epoch))
		want, _ := r.Apply(r.LoseMove("timeout", nil, plan, epoch))
		b.same("lost", lost, want)
		b.same("lost, Get", b.get(r.Key), want)

		// Somebody checks and doubts meanwhile; the versions do not show it.
		now := b.replace(lost, lost.Checked([]byte(`{}`), plan).Suspect(intent.DoubtLateAnswer, epoch), nil)
		got := b.settle(lost.CompleteMove("lookup", outcome("{}"), epoch.Add(time.Minute)))
		want, _ = now.Apply(lost.CompleteMove("lookup", outcome("{}"), epoch.Add(time.Minute)))
		b.same("settled", got, want)
		b.same("settled, Get", b.get(r.Key), want)
		if got.Checks != 1 || got.Doubt != intent.DoubtLateAnswer || got.Plan != (intent.Plan{}) || got.Sealed != nil {
			b.Errorf("checks %d, doubt %q, plan %+v, sealed %q", got.Checks, got.Doubt, got.Plan, got.Sealed)
		}
	}},
	{"acting again begins with no plan but the doubt stays", func(b *bench) {
		row := b.rejected(intent.RetrySameKey)
		row = b.replace(row, row.Suspect(intent.DoubtContradicted, epoch), nil)
		next := b.started()
		next.Key, next.Guard, next.Fingerprint = row.Key, row.Guard, row.Fingerprint
		next.Template, next.Sealed = "send_invoice_email/2", []byte("sealed")
		want := must[intent.Receipt](b)(row.ApplyAgain(next))
		b.same("Begin", b.begin(next), want)
		b.same("Get", b.get(row.Key), want)
		if want.Doubt != intent.DoubtContradicted || !want.NotifyAt.IsZero() {
			b.Errorf("doubt %q, told at %v", want.Doubt, want.NotifyAt)
		}
	}},
}
