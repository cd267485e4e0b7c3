package intent_test

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	. "github.com/latchkey-gateway/latchkey/intent"
)

// TestMayReplaceExhaustively compares it with the picture for every pair of statuses, and
// every step of fence and version.
func TestMayReplaceExhaustively(t *testing.T) {
	t.Parallel()
	for _, from := range statuses {
		for _, to := range statuses {
			for fence := -1; fence <= 2; fence++ {
				for version := -1; version <= 2; version++ {
					was, now := at(from, 5), at(to, uint64(5+fence))
					now.Version = uint64(int(was.Version) + version)
					want := version == 1 && slices.ContainsFunc(picture[[2]Status{from, to}], func(v Verb) bool {
						claims := 0
						if v == Reexecute {
							claims = 1
						}
						return v != Again && fence == claims // another call acts again, in Begin
					})
					if from == to && fence == 0 { // another recovery; one of several approvals
						want = version == 0 || version == 1 && from == AwaitingApproval
					}
					if got := MayReplace(&was, &now); got != want {
						t.Errorf("%s by %s: %v, want %v", was.Standing(), now.Standing(), got, want)
					}
					for name, spoil := range map[string]func(){
						"key": func() { now.Key[0]++ }, "guard": func() { now.Guard[0]++ }, "tenant": func() { now.Tenant += "x" },
					} {
						kept := now
						if spoil(); MayReplace(&was, &now) {
							t.Errorf("%s by %s with another %s", was.Standing(), now.Standing(), name)
						}
						now = kept
					}
				}
			}
		}
	}
}

// opening is an execution that begins later.
var opening = Opening{ClaimID: ClaimID{7}, At: epoch.Add(time.Hour + 1), SettleBy: epoch.Add(2*time.Hour + 1), Template: "mail/2",
	Traceparent: "00-b-c-01", Replica: "r2", Region: "us"}

// opened is what any opening makes of a receipt.
func opened(r Receipt) Receipt {
	r.Status, r.Retry, r.RetryAfter, r.Reason = Started, RetrySameKey, 0, ""
	r.Outcome, r.Evidence, r.SettledBy, r.UnknownSince = nil, nil, "", time.Time{}
	r.Plan, r.Notices = Plan{}, 0
	r.ClaimID, r.StartedAt, r.SettleBy = ClaimID{7}, epoch.Add(time.Hour), epoch.Add(2*time.Hour)
	r.Template, r.Traceparent, r.Replica, r.Region = "mail/2", "00-b-c-01", "r2", "us"
	r.Executions++
	r.Version++
	return r
}

// TestDecisionsExhaustively tries every constructor from every status: what it makes may
// replace what it was made of, and is that with nothing else changed.
func TestDecisionsExhaustively(t *testing.T) {
	t.Parallel()
	plan := Plan{NextCheck: epoch.Add(time.Minute + 1), Parked: ParkedTries, NotifyAt: epoch.Add(time.Hour + 1)}
	cut := Plan{NextCheck: epoch.Add(time.Minute), Parked: ParkedTries, NotifyAt: epoch.Add(time.Hour)}
	evidence := []byte(`{"n":1}`)
	always := statuses
	for name, c := range map[string]struct {
		from []Status
		make func(Receipt) (Receipt, error)
		want func(Receipt) Receipt
	}{
		"approve": {[]Status{AwaitingApproval}, func(r Receipt) (Receipt, error) { return r.Approve("bob", opening) },
			func(r Receipt) Receipt {
				r = opened(r)
				r.ApprovedBy = []string{"ann", "bob"}
				return r
			}},
		"endorse": {[]Status{AwaitingApproval}, func(r Receipt) (Receipt, error) { return r.Endorse("bob") },
			func(r Receipt) Receipt {
				r.ApprovedBy, r.Version = []string{"ann", "bob"}, r.Version+1
				return r
			}},
		"endorse twice": {nil, func(r Receipt) (Receipt, error) { return r.Endorse("ann") }, nil},
		"decline": {[]Status{AwaitingApproval},
			func(r Receipt) (Receipt, error) {
				return r.Decline("operator", ReasonDeclined, evidence, epoch.Add(time.Second+1))
			},
			func(r Receipt) Receipt {
				r.Status, r.Retry, r.Reason, r.SettledBy, r.SettledAt = Rejected, RetryCorrected, "declined", "operator", epoch.Add(time.Second)
				r.Evidence, r.Sealed, r.Plan, r.Notices, r.Version = evidence, nil, Plan{}, 0, r.Version+1
				return r
			}},
		"reexecute": {[]Status{Unknown}, func(r Receipt) (Receipt, error) { return r.Reexecute(opening) },
			func(r Receipt) Receipt {
				r = opened(r)
				r.Fence, r.Checks = r.Fence+1, r.Checks+1
				return r
			}},
		"wait": {always, func(r Receipt) (Receipt, error) { return r.Wait(plan), nil },
			func(r Receipt) Receipt { r.Plan = cut; return r }},
		"checked": {always, func(r Receipt) (Receipt, error) { return r.Checked(evidence, plan), nil },
			func(r Receipt) Receipt { r.Plan, r.Checks, r.Evidence = cut, r.Checks+1, evidence; return r }},
		"suspect": {always, func(r Receipt) (Receipt, error) { return r.Suspect(DoubtContradicted, epoch.Add(1)), nil },
			func(r Receipt) Receipt { r.Doubt, r.NotifyAt, r.Notices = DoubtContradicted, epoch, 0; return r }},
		"acknowledge": {always, func(r Receipt) (Receipt, error) { return r.Suspect(0, time.Time{}), nil },
			func(r Receipt) Receipt { r.Doubt, r.NotifyAt, r.Notices = 0, time.Time{}, 0; return r }},
	} {
		for _, status := range statuses {
			was := at(status, 5)
			was.Doubt, was.Notices = DoubtLateAnswer, 4
			was.ApprovedBy = append(make([]string, 0, 8), "ann") // room, where a careless append would write
			before := was
			before.ApprovedBy = []string{"ann"}
			now, err := c.make(was)
			what := fmt.Sprintf("%s from %v", name, status)
			if spare := was.ApprovedBy[:2][1]; !reflect.DeepEqual(was, before) || spare != "" {
				t.Errorf("%s changed what it was made of", what)
			}
			if !slices.Contains(c.from, status) {
				if !errors.Is(err, ErrStale) || !reflect.DeepEqual(now, before) {
					t.Errorf("%s: %v, and it became %+v", what, err, now)
				}
				continue
			}
			if want := c.want(before); err != nil || !reflect.DeepEqual(now, want) {
				t.Errorf("%s: %v\n%+v, want\n%+v", what, err, now, want)
			}
			if !MayReplace(&was, &now) {
				t.Errorf("%s: %s may not replace %s", what, now.Standing(), was.Standing())
			}
		}
	}
}

func TestAttention(t *testing.T) {
	t.Parallel()
	for _, status := range statuses {
		for _, doubt := range []Doubt{0, DoubtLateAnswer} {
			r := at(status, 1)
			r.Doubt = doubt
			if got, want := r.Attention(), status == Unknown || status == AwaitingApproval || doubt != 0; got != want {
				t.Errorf("%v, doubt %q: %v, want %v", status, doubt, got, want)
			}
			if r.Expired = true; r.Attention() {
				t.Errorf("a tombstone of %v asks for attention", status)
			}
		}
	}
}

func TestStanding(t *testing.T) {
	t.Parallel()
	r := at(Unknown, 3)
	if got := r.Standing(); got != "unknown 3.7" {
		t.Errorf("it stands at %q", got)
	}
}

// TestDecisionsInAnyOrder lets people, reconcilers, holders and callers act on any copy of
// one row that they may still have. The row is changed as a store changes it.
func TestDecisionsInAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		row := at(AwaitingApproval, 1)
		copies := []Receipt{row}
		begun := map[uint64]int{} // fence -> how often an execution began under it
		put := func(now Receipt) {
			if now.Fence < row.Fence || now.Fence == row.Fence && now.Version < row.Version {
				t.Fatalf("%s fell to %s", row.Standing(), now.Standing())
			}
			if row.Status == Completed && now.Status != Completed {
				t.Fatalf("completed became %v", now.Status)
			}
			if now.Status == Started && now.Version != row.Version {
				if begun[now.Fence]++; now.ClaimID == (ClaimID{}) {
					t.Fatal("an execution began without a claim")
				}
			}
			row = now
			copies = append(copies, row)
		}
		replace := func(was, now Receipt, err error) {
			switch {
			case errors.Is(err, ErrStale):
				if !reflect.DeepEqual(was, now) {
					t.Fatalf("a refused decision made %+v", now)
				}
			case err != nil:
				t.Fatal(err)
			case !MayReplace(&was, &now):
				t.Fatalf("%s may not replace %s, of which it was made", now.Standing(), was.Standing())
			case was.Status == row.Status && was.Fence == row.Fence && was.Version == row.Version && reflect.DeepEqual(was.Recovery, row.Recovery):
				put(now)
			}
		}
		person := rapid.SampledFrom([]string{"ann", "bob"})
		some := func(t *rapid.T) Receipt { return rapid.SampledFrom(copies).Draw(t, "copy") }
		plans := rapid.SampledFrom([]Plan{{}, {NextCheck: epoch}, {Parked: ParkedGaveUp}, {NotifyAt: epoch}})
		t.Repeat(map[string]func(*rapid.T){
			"approve": func(t *rapid.T) {
				was := some(t)
				now, err := was.Approve(person.Draw(t, "by"), opening)
				replace(was, now, err)
			},
			"endorse": func(t *rapid.T) {
				was := some(t)
				now, err := was.Endorse(person.Draw(t, "by"))
				replace(was, now, err)
			},
			"decline": func(t *rapid.T) {
				was := some(t)
				now, err := was.Decline("gateway", ReasonExpired, nil, epoch)
				replace(was, now, err)
			},
			"reexecute": func(t *rapid.T) { was := some(t); now, err := was.Reexecute(opening); replace(was, now, err) },
			"check":     func(t *rapid.T) { was := some(t); replace(was, was.Checked(nil, plans.Draw(t, "plan")), nil) },
			"doubt":     func(t *rapid.T) { was := some(t); replace(was, was.Suspect(DoubtLateAnswer, epoch), nil) },
			"settle": func(t *rapid.T) {
				holder := some(t)
				moves := settlements(&holder)
				delete(moves, "complete, stranger")
				s := moves[rapid.SampledFrom(slices.Sorted(maps.Keys(moves))).Draw(t, "move")]
				if s.Unsent && row.Status != Started {
					t.Skip("only who is about to send can prove that nothing was sent")
				}
				if now, err := row.Apply(s); err == nil {
					put(now)
				}
			},
			"again": func(t *rapid.T) {
				next := at(rapid.SampledFrom([]Status{Started, AwaitingApproval}).Draw(t, "status"), 1)
				next.Fingerprint[0] = rapid.ByteRange(3, 4).Draw(t, "fingerprint")
				if now, err := row.ApplyAgain(next); err == nil {
					put(now)
				}
			},
			"": func(t *rapid.T) {
				if row.Executions < 0 || row.Executions > int(row.Fence) {
					t.Fatalf("%d executions at fence %d", row.Executions, row.Fence)
				}
				for fence, n := range begun {
					if n > 1 {
						t.Fatalf("%d executions began under fence %d", n, fence)
					}
				}
				if e, ok := row.Execution(); ok != (begun[row.Fence] == 1) || ok && e.Fence != row.Fence {
					t.Fatalf("%s: execution %v %+v, begun %v", row.Standing(), ok, e, begun)
				}
				if row.Status.Settled() && row.Sealed != nil {
					t.Fatalf("settled, and %q is still sealed", row.Sealed)
				}
			},
		})
	})
}
