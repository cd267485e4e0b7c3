package gateway

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-gateway/latchkey/intentstore"
)

// source gives one change per question after the first.
type source struct{ asked, fails atomic.Int64 }

func (s *source) changes(_ context.Context, _ string, after intentstore.Mark, _ int) ([]intentstore.Change, intentstore.Mark, error) {
	if n := s.asked.Add(1); s.fails.Load() >= n {
		return nil, after, errors.New("injected")
	}
	if after == (intentstore.Mark{}) {
		return nil, intentstore.Mark{Attempt: -1, Entry: -1}, nil
	}
	after.Attempt++
	return []intentstore.Change{{Word: "executed", At: time.Unix(after.Attempt, 0)}}, after, nil
}

func newFeeds() (*feeds, *source, chan struct{}) {
	s, f, drained := &source{}, &feeds{}, make(chan struct{})
	f.init(s.changes, drained, slog.New(slog.DiscardHandler))
	return f, s, drained
}

func TestAWatcherThatDoesNotReadIsLetGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, _, _ := newFeeds()
		slow, leaveSlow := f.watch("acme")
		quick, leaveQuick := f.watch("acme")
		got := 0
		for range 2 * feedBacklog {
			for b := range quick {
				if got += len(b.changes); len(b.changes) > 0 {
					break
				}
			}
		}
		behind := 0
		for range slow { // closed: else this would never end
			behind++
		}
		if got != 2*feedBacklog || behind != feedBacklog {
			t.Errorf("%d changes, %d batches", got, behind)
		}
		leaveSlow()
		leaveQuick()
	})
}

func TestNobodyWatchesNobodyAsks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, s, drained := newFeeds()
		_, leave := f.watch("acme")
		_, leaveToo := f.watch("acme")
		time.Sleep(10 * time.Second)
		leave()
		leaveToo() // returns when the goroutine has ended; synctest fails on one that is left
		asked := s.asked.Load()
		if asked < 6 || asked > 21 {
			t.Errorf("%d questions in 10s", asked)
		}
		time.Sleep(time.Minute)
		if s.asked.Load() != asked || len(f.tenants) != 0 {
			t.Errorf("%d questions more", s.asked.Load()-asked)
		}
		b, leave := f.watch("acme")
		other, leaveToo := f.watch("globex")
		time.Sleep(5 * time.Second)
		close(drained)
		for range b {
		}
		for range other {
		}
		leave()
		leaveToo()
	})
}

// A question that fails is asked again from the same place.
func TestAFailedQuestionLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, s, _ := newFeeds()
		s.fails.Store(3)
		batches, leave := f.watch("acme")
		next := int64(0)
		for b := range batches {
			for _, c := range b.changes {
				if c.At.Unix() != next {
					t.Errorf("change %d, want %d", c.At.Unix(), next)
				}
				if next++; next == 3 {
					s.fails.Store(s.asked.Load() + 4)
				}
			}
			if next == 10 {
				break
			}
		}
		leave()
	})
}

func TestMarks(t *testing.T) {
	t.Parallel()
	for _, m := range []intentstore.Mark{{}, {Attempt: -1, Entry: -1}, {Attempt: 1 << 62, Entry: 7}} {
		if got, ok := parseMark(markText(m)); !ok || got != m {
			t.Errorf("%+v is read as %+v", m, got)
		}
	}
}
