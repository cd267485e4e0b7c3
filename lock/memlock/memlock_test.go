package memlock_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/lock"
	"github.com/latchkey-gateway/latchkey/lock/locktest"
	"github.com/latchkey-gateway/latchkey/lock/memlock"
)

func TestExercise(t *testing.T) {
	t.Parallel()
	locktest.ExerciseIn(t, synctest.Test, func(t *testing.T) (locktest.Subject, func(time.Duration)) {
		return memlock.New(nil), time.Sleep
	})
}

func TestFaultTellsRefusedFromAnswerLost(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, applied := range []bool{false, true} {
		l := memlock.New(func(verb string, n int) (bool, error) {
			if verb == memlock.Claim && n == 2 {
				return applied, broken
			}
			return true, nil
		})
		one, two := locktest.NewAsk(), locktest.NewAsk()
		if _, err := l.Claim(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		if a, err := l.Claim(t.Context(), two); !errors.Is(err, broken) || a.Code != 0 {
			t.Fatalf("claim: %v, %v", a, err)
		}
		_, err := l.Get(t.Context(), two.Guard)
		if applied != (err == nil) || !applied && !errors.Is(err, intent.ErrNone) {
			t.Fatalf("applied is %v, and get says %v", applied, err)
		}
		if a, err := l.Claim(t.Context(), two); err != nil || a.Code != lock.Claimed {
			t.Fatalf("the claimant asks again: %v, %v", a, err)
		}
	}
}

func TestFlushForgets(t *testing.T) {
	t.Parallel()
	l := memlock.New(nil)
	a := locktest.NewAsk()
	if _, err := l.Claim(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	l.Flush()
	if _, err := l.Get(t.Context(), a.Guard); !errors.Is(err, intent.ErrNone) {
		t.Fatalf("get: %v", err)
	}
	if open, _ := l.Overdue(t.Context(), 0, 10); len(open) != 0 {
		t.Fatalf("overdue: %v", open)
	}
}
