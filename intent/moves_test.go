package intent_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	. "github.com/latchkey-gateway/latchkey/intent"
)

// none stands for a key that does not exist; it is no valid status.
const none Status = 0

var (
	statuses = []Status{AwaitingApproval, Started, Unknown, Completed, Rejected}
	verbs    = []Verb{Begin, Hold, Approve, Decline, Complete, Reject, Lose, Again, Reexecute}
	epoch    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// picture is DESIGN §3 written out a second time, as edges: the tests trust it and not Moves.
var picture = map[[2]Status][]Verb{
	{none, Started}:              {Begin},
	{none, AwaitingApproval}:     {Hold},
	{AwaitingApproval, Started}:  {Approve},
	{AwaitingApproval, Rejected}: {Decline},
	{Started, Completed}:         {Complete},
	{Started, Rejected}:          {Reject},
	{Started, Unknown}:           {Lose},
	{Unknown, Completed}:         {Complete},
	{Unknown, Rejected}:          {Reject},
	{Unknown, Started}:           {Reexecute},
	{Rejected, Started}:          {Again},
}

// drawn says whether the picture has an edge for this verb out of that status.
func drawn(v Verb, from Status) (to Status, ok bool) {
	for edge, labels := range picture {
		if edge[0] == from && labels[0] == v {
			return edge[1], true
		}
	}
	return none, false
}

func TestMovesAreThePicture(t *testing.T) {
	t.Parallel()
	if len(Moves) != len(verbs) {
		t.Errorf("Moves has %d rows for %d verbs", len(Moves), len(verbs))
	}
	for _, v := range verbs {
		rule := RuleOf(v)
		if rule.Verb != v {
			t.Errorf("RuleOf(%v) is the row of %v", v, rule.Verb)
		}
		if claims := slices.Contains([]Verb{Begin, Hold, Again, Reexecute}, v); rule.NewFence != claims {
			t.Errorf("%v: new fence %v, but a new claim %v", v, rule.NewFence, claims)
		}
		for _, from := range append([]Status{none}, statuses...) {
			in := from == none && len(rule.From) == 0
			for _, s := range rule.From {
				in = in || s == from
			}
			to, ok := drawn(v, from)
			if in != ok || ok && to != rule.To {
				t.Errorf("%v from %v: the table says %v to %v, the picture %v to %v", v, from, in, rule.To, ok, to)
			}
		}
	}
}

func TestRuleOfNoVerbPanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a verb that is none was given a rule")
		}
	}()
	RuleOf(0)
}

// at makes a receipt in a status with everything that such a receipt would carry.
func at(s Status, fence uint64) Receipt {
	r := Receipt{Key: Key{1}, Guard: Guard{2}, Fingerprint: Fingerprint{3}, Tenant: "acme", Tool: "mail", Class: Effectful,
		Durability: Durable, Status: s, Retry: RetryNever, Fence: fence, Version: 7, ClaimID: ClaimID{4},
		Attempts: 3, Executions: int(fence), CreatedAt: epoch, StartedAt: epoch, SettleBy: epoch.Add(time.Minute)}
	switch s {
	case AwaitingApproval: // the fence waits with it; nothing was begun under it
		r.StartedAt, r.SettleBy, r.Executions = time.Time{}, time.Time{}, int(fence)-1
		r.NextCheck, r.NotifyAt, r.Sealed = epoch.Add(time.Hour), epoch, []byte("sealed")
	case Started:
		r.Retry, r.Sealed = RetrySameKey, []byte("sealed")
	case Unknown:
		r.UnknownSince, r.Reason, r.Sealed = epoch.Add(time.Second), "timeout", []byte("sealed")
		r.NextCheck, r.NotifyAt, r.Checks, r.Notices = epoch.Add(time.Minute), epoch.Add(time.Hour), 2, 1
	case Completed:
		r.SettledAt, r.SettledBy, r.Outcome = epoch.Add(time.Second), "downstream", &Outcome{HTTPStatus: 200}
	case Rejected:
		r.SettledAt, r.SettledBy, r.Retry = epoch.Add(time.Second), "downstream", RetryCorrected
	}
	return r
}

// settlements are one of each kind that the constructors make for r.
func settlements(r *Receipt) map[string]Settlement {
	out, when := &Outcome{HTTPStatus: 422, Body: []byte("no")}, epoch.Add(1500*time.Nanosecond)
	return map[string]Settlement{
		"complete":            r.CompleteMove("lookup", &Outcome{HTTPStatus: 201}, when),
		"complete, untold":    r.CompleteMove("operator", nil, when),
		"reject, corrected":   r.RejectMove("downstream", RetryCorrected, 0, "answered 422", out, false, when),
		"reject, same key":    r.RejectMove("downstream", RetrySameKey, time.Minute, "answered 429", out, false, when),
		"reject, not sent":    r.RejectMove("gateway", RetrySameKey, time.Second, "not sent: dial", nil, true, when),
		"lose":                r.LoseMove("timeout", nil, Plan{}, when),
		"lose, to be checked": r.LoseMove("timeout", nil, Plan{NextCheck: when.Add(time.Minute), NotifyAt: when.Add(time.Hour)}, when),
		"lose, parked":        r.LoseMove("timeout", nil, Plan{Parked: ParkedByPolicy}, when),
		"lose, with answer":   r.LoseMove("answered 500", out, Plan{}, when),
		"complete, stranger":  func() Settlement { s := r.CompleteMove("lookup", nil, when); s.Key[31]++; return s }(),
	}
}

func TestApplyExhaustively(t *testing.T) {
	t.Parallel()
	for _, status := range statuses {
		for name := range settlements(&Receipt{}) {
			for _, delta := range []int64{-1, 0, 1} {
				t.Run(fmt.Sprintf("%v/%s/fence%+d", status, name, delta), func(t *testing.T) {
					t.Parallel()
					before := at(status, 5)
					made := at(status, uint64(5+delta)) // the copy that the move was made from
					s := settlements(&made)[name]
					after, err := before.Apply(s)

					if to, ok := drawn(s.Verb, status); !ok || delta != 0 || s.Key != before.Key {
						if !errors.Is(err, ErrStale) || !reflect.DeepEqual(after, before) {
							t.Fatalf("a move that must not apply: %v, and the receipt became %+v", err, after)
						}
						return
					} else if err != nil || after.Status != to {
						t.Fatalf("to %v: %v", after.Status, err)
					}
					want := before
					want.Status, want.Retry, want.RetryAfter, want.Reason = s.Status, s.Retry, s.RetryAfter, s.Reason
					want.Outcome, want.SettledBy, want.Version = s.Outcome, s.SettledBy, before.Version+1
					want.Plan, want.Notices = s.Plan, 0
					if moment := epoch.Add(time.Microsecond); s.Verb == Lose {
						want.UnknownSince = moment
					} else {
						want.SettledAt, want.Sealed = moment, nil
					}
					if name == "reject, not sent" {
						want.Executions--
					}
					if !reflect.DeepEqual(after, want) {
						t.Errorf("became\n%+v, want\n%+v", after, want)
					}
				})
			}
		}
	}
}

func TestApplyAgainExhaustively(t *testing.T) {
	t.Parallel()
	for _, status := range statuses {
		for _, retry := range []Retry{RetryNever, RetrySameKey, RetryCorrected} {
			for _, corrected := range []bool{false, true} {
				for _, stranger := range []bool{false, true} {
					before := at(status, 5)
					before.Retry, before.Executions, before.Doubt = retry, 4, DoubtLateAnswer
					next := Receipt{Key: before.Key, Fingerprint: before.Fingerprint, Status: Started, Retry: RetrySameKey,
						Fence: 1, Version: 1, Executions: 1, Attempts: 1, ClaimID: ClaimID{9}, Args: []byte("{}"),
						CreatedAt: epoch.Add(time.Hour), StartedAt: epoch.Add(time.Hour), Traceparent: "00-a-b-01"}
					if corrected {
						next.Fingerprint = Fingerprint{99}
					}
					if stranger {
						next.Key = Key{99}
					}
					name := fmt.Sprintf("%v, retry %v, corrected %v, stranger %v", status, retry, corrected, stranger)
					may := status == Rejected && (corrected || retry == RetrySameKey)
					if MayRunAgain(status, retry, before.Fingerprint, next.Fingerprint) != may {
						t.Errorf("%s: MayRunAgain is not %v", name, may)
					}
					after, err := before.ApplyAgain(next)
					if !may || stranger {
						if !errors.Is(err, ErrStale) || !reflect.DeepEqual(after, before) {
							t.Errorf("%s: %v, and the receipt became %+v", name, err, after)
						}
						continue
					}
					want := next // its claim, arguments and trace; the row's history
					want.Fence, want.Version, want.Executions, want.Attempts, want.CreatedAt = 6, 8, 5, 3, epoch
					want.Doubt = DoubtLateAnswer // a person has still to look at it
					if err != nil || !reflect.DeepEqual(after, want) {
						t.Errorf("%s: %v\n%+v, want\n%+v", name, err, after, want)
					}
					next.Status = AwaitingApproval // a person is asked first: no execution begins yet
					if held, err := before.ApplyAgain(next); err != nil || held.Fence != 6 || held.Executions != 4 || held.Status != AwaitingApproval {
						t.Errorf("%s, held: %v %+v", name, err, held)
					}
				}
			}
		}
	}
}

// TestRestate: a copy that was settled while the store was down is told to the row later.
// The row, still started or already lost, must come to say the same.
func TestRestate(t *testing.T) {
	t.Parallel()
	afterUnsent := at(Started, 2)
	afterUnsent.Executions = 1 // fence 1 was not sent, fence 2 is
	histories := map[string]Receipt{"first": at(Started, 1), "after sent ones": at(Started, 3), "after an unsent one": afterUnsent}
	for past, started := range histories {
		lost, err := started.Apply(started.LoseMove("lease_expired", nil, Plan{}, epoch.Add(time.Minute)))
		if err != nil {
			t.Fatal(err)
		}
		for name, s := range settlements(&started) {
			for _, base := range []Receipt{started, lost} {
				kept, err := base.Apply(s)
				if err != nil {
					continue // not a move of this status
				}
				kept.Evidence = []byte(`{"seen":1}`)
				if s.Verb == Lose {
					kept.Evidence = nil
				}
				for _, row := range []Receipt{started, lost} {
					if s.Verb == Lose && row.Status == Unknown {
						continue // the row knows already
					}
					after, err := row.Apply(kept.RestateMove())
					want := kept
					want.Version, want.Checks = row.Version+1, row.Checks
					if s.Verb != Lose {
						want.UnknownSince = row.UnknownSince
					}
					if err != nil || !reflect.DeepEqual(after, want) {
						t.Errorf("%s, %s, copy from %v, row %v: %v\n%+v, want\n%+v", past, name, base.Status, row.Status, err, after, want)
					}
				}
			}
		}
	}
}

// rank orders the statuses of one fence, as doc.go's fifth invariant means it.
func rank(s Status) int {
	return map[Status]int{Started: 1, Unknown: 2, Completed: 3, Rejected: 3}[s]
}

// TestRandomHistories lets claimants, late answers from any earlier copy, lost leases,
// restatements and repeated calls meet one row in any order.
func TestRandomHistories(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		row := at(Started, 1)
		copies := []Receipt{row}      // what any holder, living or dead, may still act on
		begun := map[uint64]int{1: 1} // fence -> how often it was started
		unsent := map[uint64]bool{}   // fence -> proven not sent
		accept := func(after Receipt, err error) {
			switch {
			case errors.Is(err, ErrStale):
				if !reflect.DeepEqual(after, row) {
					t.Fatalf("a stale move changed the row: %+v", after)
				}
				return
			case err != nil:
				t.Fatalf("neither applied nor stale: %v", err)
			case row.Status == Completed:
				t.Fatalf("a completed row moved to %v", after.Status)
			case after.Fence < row.Fence || after.Fence == row.Fence && rank(after.Status) <= rank(row.Status):
				t.Fatalf("(%d, %v) moved to (%d, %v)", row.Fence, row.Status, after.Fence, after.Status)
			case after.Version != row.Version+1:
				t.Fatalf("version %d after %d", after.Version, row.Version)
			}
			if after.Status == Started {
				begun[after.Fence]++
			}
			row = after
			copies = append(copies, row)
		}
		t.Repeat(map[string]func(*rapid.T){
			"settle": func(t *rapid.T) {
				holder := rapid.SampledFrom(copies).Draw(t, "holder")
				kind := rapid.SampledFrom([]string{"complete", "reject, corrected", "reject, same key", "reject, not sent", "lose"}).Draw(t, "kind")
				was := row
				accept(row.Apply(settlements(&holder)[kind]))
				if row.Version != was.Version && kind == "reject, not sent" {
					unsent[row.Fence] = true
				}
			},
			"restate": func(t *rapid.T) {
				kept := rapid.SampledFrom(copies).Draw(t, "copy")
				if kept.Status == Started {
					t.Skip("nothing to restate")
				}
				was := row
				accept(row.Apply(kept.RestateMove()))
				if row.Version != was.Version {
					t.Fatalf("a copy that the row itself made was told to it as news: %+v", kept)
				}
			},
			"again": func(t *rapid.T) {
				next := at(Started, 1)
				next.Fingerprint[0] = rapid.ByteRange(3, 4).Draw(t, "fingerprint")
				accept(row.ApplyAgain(next))
			},
			"": func(t *rapid.T) {
				sent := 0
				for fence := uint64(1); fence <= row.Fence; fence++ {
					if begun[fence] != 1 {
						t.Fatalf("fence %d was started %d times", fence, begun[fence])
					}
					if !unsent[fence] {
						sent++
					}
				}
				if row.Executions != sent {
					t.Fatalf("%d executions at fence %d, of which %d were not sent", row.Executions, row.Fence, len(unsent))
				}
			},
		})
	})
}
