package fleet

import (
	"reflect"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/history"
)

func TestPlansFollowTheirSeed(t *testing.T) {
	t.Parallel()
	one, again, other := Plan(1, Usual, time.Second), Plan(1, Usual, time.Second), Plan(2, Usual, time.Second)
	same := 0
	for i := range 500 {
		if !reflect.DeepEqual(one(i), again(i)) {
			t.Fatalf("intent %d: %+v and %+v", i, one(i), again(i))
		}
		if one(i).Memo == other(i).Memo {
			same++
		}
	}
	if same > 5 {
		t.Errorf("%d of 500 intents are the same under another seed", same)
	}
}

// Every intent has a ref and a slot of its own; twins share everything that a gateway could
// confuse, but the tenant.
func TestIntentsAreDistinctAndTwinsAlike(t *testing.T) {
	t.Parallel()
	plan := Plan(1, Usual, time.Second)
	type slot struct {
		tenant          int
		run, step, tool string
	}
	refs, slots := map[string]bool{}, map[slot]bool{}
	for i := range 1000 {
		it := plan(i)
		s := slot{it.Tenant, it.RunID, it.StepID, it.Tool.Name}
		if refs[it.Ref] || slots[s] {
			t.Errorf("intent %d: %s or %+v is there twice", i, it.Ref, s)
		}
		refs[it.Ref], slots[s] = true, true
		if twin := plan(i ^ 1); twin.RunID != it.RunID || twin.StepID != it.StepID || twin.Tool != it.Tool || twin.Explicit != it.Explicit || twin.Tenant == it.Tenant {
			t.Errorf("intents %d and %d are no twins: %+v, %+v", i, i^1, it, twin)
		}
		if len(it.Copies) == 0 || it.Copies[0].Why != history.First || it.Copies[0].After != 0 {
			t.Errorf("intent %d does not begin: %+v", i, it.Copies)
		}
	}
}

// Habits come on their shares, and every tool is called.
func TestHabitsComeOnTheirShares(t *testing.T) {
	t.Parallel()
	const n = 4000
	plan := Plan(3, Usual, time.Second)
	count, tools := map[history.Why]int{}, map[string]int{}
	obeys := 0
	for i := range n {
		it := plan(i)
		tools[it.Tool.Name]++
		if it.Obeys {
			obeys++
		}
		seen := map[history.Why]bool{}
		for _, c := range it.Copies {
			seen[c.Why] = true
		}
		for why := range seen {
			count[why]++
		}
	}
	for why, share := range map[history.Why]float64{history.Parallel: Usual.Parallel, history.Dispatch: Usual.Dispatch, history.Restart: Usual.Restart} {
		if got := float64(count[why]) / n; got < share*0.7 || got > share*1.3 {
			t.Errorf("%s: %.3f of the intents, want %.3f", why, got, share)
		}
	}
	if share := float64(obeys) / n; share < 0.5 || share > 0.7 {
		t.Errorf("%.2f obey", share)
	}
	for _, tool := range history.Tools {
		if tools[tool.Name] < n*tool.Share/100/2 {
			t.Errorf("%s was called %d times", tool.Name, tools[tool.Name])
		}
	}
}
