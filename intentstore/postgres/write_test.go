package postgres

import (
	"slices"
	"testing"

	"github.com/latchkey-gateway/latchkey/intent"
)

// TestApart: whatever shares a statement must differ in every key and guard that the
// statement's answer is told apart by.
func TestApart(t *testing.T) {
	t.Parallel()
	begin := func(key, guard byte) *op {
		return &op{begin: &intent.Receipt{Key: intent.Key{key}, Guard: intent.Guard{guard}}}
	}
	settle := func(key, guard byte) *op {
		return &op{settle: &intent.Settlement{Key: intent.Key{key}, Guard: intent.Guard{guard}}}
	}
	archive := func(key, guard byte) *op {
		return &op{archive: &intent.Receipt{Key: intent.Key{key}, Guard: intent.Guard{guard}}}
	}
	for _, c := range []struct {
		name                string
		ops                 []*op
		now, crowded, later int
	}{
		{"nothing in common", []*op{begin(1, 1), begin(2, 2), settle(3, 3), archive(4, 4)}, 4, 0, 0},
		{"one guard", []*op{begin(1, 9), begin(2, 9), archive(3, 9)}, 1, 2, 0},
		{"one key", []*op{begin(1, 1), begin(1, 1), archive(1, 1)}, 1, 2, 0},
		{"one key under two guards", []*op{begin(1, 8), begin(2, 8), begin(1, 9)}, 1, 2, 0},
		{"settled while it begins", []*op{begin(1, 1), settle(1, 1)}, 2, 0, 0},
		{"settled twice", []*op{settle(1, 1), settle(1, 1), settle(1, 1), settle(2, 2)}, 2, 0, 2},
		{"settled twice under two guards", []*op{settle(1, 8), begin(1, 8), settle(1, 9)}, 2, 0, 1},
	} {
		slices.SortStableFunc(c.ops, order)
		now, crowded, later := apart(c.ops)
		if len(now) != c.now || len(crowded) != c.crowded || len(later) != c.later {
			t.Errorf("%s: %d now, %d crowded out, %d later; want %d, %d, %d", c.name, len(now), len(crowded), len(later), c.now, c.crowded, c.later)
		}
	}
}
