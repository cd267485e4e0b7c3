package group_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-gateway/latchkey/intentstore/group"
)

// collector is a run function that takes as long as it is told and keeps the batches.
type collector struct {
	takes   time.Duration
	mu      sync.Mutex
	batches [][]int
	at      []time.Time
	flying  int
	most    int
}

func (c *collector) run(batch []int) {
	c.mu.Lock()
	c.batches, c.at = append(c.batches, batch), append(c.at, time.Now())
	c.flying++
	c.most = max(c.most, c.flying)
	c.mu.Unlock()
	time.Sleep(c.takes) // of the bubble's clock
	c.mu.Lock()
	c.flying--
	c.mu.Unlock()
}

func one(int) int { return 1 }

func TestBatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		options group.Options
		weigh   func(int) int
		items   int
		want    []int // sizes of the batches
		most    int   // in flight at once
	}{
		{"what arrives during a flight shares the next one", group.Options{}, one, 11, []int{1, 10}, 1},
		{"a batch is bounded", group.Options{Max: 4}, one, 10, []int{1, 4, 4, 1}, 1},
		{"a batch is bounded by weight", group.Options{Weight: 10}, func(i int) int { return i }, 8, []int{1, 4, 1, 1, 1}, 1},
		{"an item heavier than a batch goes alone", group.Options{Weight: 10}, func(int) int { return 100 }, 3, []int{1, 1, 1}, 1},
		{"two flights", group.Options{Flights: 2, Max: 4}, one, 10, []int{1, 1, 4, 4}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				got := &collector{takes: time.Second}
				w := group.New(c.options, c.weigh, got.run)
				for i := range c.items {
					if !w.Submit(i) {
						t.Fatal("refused")
					}
					if i < c.options.Flights || i == 0 {
						synctest.Wait() // the first ones are in the air
					}
				}
				w.Close()
				var sizes, all []int
				for _, b := range got.batches {
					sizes, all = append(sizes, len(b)), append(all, b...)
				}
				if !slices.Equal(sizes, c.want) || got.most != c.most {
					t.Errorf("batches of %v, %d at once; want %v, %d", sizes, got.most, c.want, c.most)
				}
				slices.Sort(all)
				for i := range c.items {
					if i >= len(all) || all[i] != i {
						t.Fatalf("%v were run, want each of %d once", all, c.items)
					}
				}
			})
		})
	}
}

func TestLinger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got := &collector{takes: 10 * time.Millisecond}
		w := group.New(group.Options{Linger: time.Millisecond, Max: 6}, one, got.run)
		start := time.Now()
		w.Submit(0)
		synctest.Wait()
		if len(got.at) != 1 || !got.at[0].Equal(start) {
			t.Errorf("a lone item was kept waiting: %v", got.at)
		}
		for i := range 3 {
			w.Submit(1 + i)
		}
		time.Sleep(10*time.Millisecond + 500*time.Microsecond)
		synctest.Wait()
		if len(got.batches) != 2 || len(got.batches[1]) != 3 || got.at[1].Sub(start) != 10*time.Millisecond {
			t.Errorf("batches %v at %v; want three to go at once", got.batches, got.at)
		}
		for i := range 4 {
			w.Submit(4 + i)
		}
		time.Sleep(10 * time.Millisecond)
		w.Submit(8) // in time for the batch that lingers
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if len(got.batches) != 3 || len(got.batches[2]) != 5 || got.at[2].Sub(start) != 21*time.Millisecond {
			t.Errorf("batches %v at %v; want the third with five items after 21 ms", got.batches, got.at)
		}
		for i := range 5 {
			w.Submit(9 + i)
		}
		time.Sleep(9*time.Millisecond + 600*time.Microsecond) // it lingers again
		w.Submit(14)                                          // full
		synctest.Wait()
		if len(got.batches) != 4 || len(got.batches[3]) != 6 || got.at[3].Sub(start) >= 32*time.Millisecond {
			t.Errorf("batches %v at %v; want a full batch not to linger on", got.batches, got.at)
		}
		w.Close()
	})
}

func TestClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got := &collector{takes: time.Second}
		w := group.New(group.Options{}, one, got.run)
		for i := range 3 {
			w.Submit(i)
		}
		w.Close()
		if w.Pending() != 0 || len(got.batches) == 0 || got.flying != 0 {
			t.Errorf("%d pending, %d in flight after Close", w.Pending(), got.flying)
		}
		w.Close()
		if w.Submit(9) {
			t.Error("an item was accepted after Close")
		}
	})
}
