package downstream

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
)

// lossy counts what really happens behind a client with faults.
func lossy(t *testing.T, fault Fault, seed uint64) (f *Faulty, tool *Tool, effects *atomic.Int64) {
	t.Helper()
	effects = new(atomic.Int64)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		effects.Add(1)
		answer(http.StatusOK, nil, `{"id":"em_1"}`)(w, r)
	}))
	t.Cleanup(web.Close)
	spec := emailSpec()
	spec.Timeout = 300 * time.Millisecond
	c, tool := client(t, web.URL, spec, Options{})
	f, err := c.WithFaults(map[string]Fault{"send": fault}, seed)
	if err != nil {
		t.Fatal(err)
	}
	return f, tool, effects
}

// A lost answer is unknown and never anything else, and the effect is there; what was
// refused before is not.
func TestFaultsLoseAnswersAndNotEffects(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		fault   Fault
		effects int64
		status  intent.Status
		reason  string
	}{
		{"none", Fault{}, 1, intent.Completed, ""},
		{"timeout", Fault{AfterEffectTimeout: 1}, 1, intent.Unknown, "sent, but not answered within the tool's timeout"},
		{"reset", Fault{AfterEffectReset: 1}, 1, intent.Unknown, "sent, but the connection broke before an answer"},
		{"truncate", Fault{AfterEffectTruncate: 1}, 1, intent.Unknown, "sent, but the answer did not come whole"},
		{"refuse", Fault{BeforeEffectRefuse: 1}, 0, intent.Rejected, "not sent: dial"},
		{"delay", Fault{Delay: 20 * time.Millisecond}, 1, intent.Completed, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, tool, effects := lossy(t, c.fault, 1)
			began := time.Now()
			v := Classify(tool, f.Execute(t.Context(), call(t, tool, `{}`)))
			took := time.Since(began)
			if v.Status != c.status || v.Reason != c.reason || effects.Load() != c.effects {
				t.Errorf("%s (%s) with %d effects", v.Status, v.Reason, effects.Load())
			}
			if c.fault.AfterEffectTimeout == 1 && took < tool.Timeout || took < c.fault.Delay {
				t.Errorf("it took %s", took)
			}
			if c.status == intent.Unknown && v.Outcome != nil {
				t.Error("a lost answer has an outcome")
			}
		})
	}
}

// What was not sent has no answer that could be lost: it stays provably not sent.
func TestFaultsDoNotMakeUnsentCallsUnknown(t *testing.T) {
	t.Parallel()
	f, tool, effects := lossy(t, Fault{AfterEffectReset: 1}, 1)
	too := call(t, tool, `{}`)
	too.MayBegin = func() bool { return false }
	if v := Classify(tool, f.Execute(t.Context(), too)); v.Status != intent.Rejected || !v.Unsent || effects.Load() != 0 {
		t.Errorf("%+v with %d effects", v, effects.Load())
	}
	f, tool, effects = lossy(t, Fault{Delay: time.Hour}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if v := Classify(tool, f.Execute(ctx, call(t, tool, `{}`))); !v.Unsent || effects.Load() != 0 {
		t.Errorf("cancelled in its delay: %+v", v)
	}
}

func TestFaultsComeOnTheirShareAndAgainWithTheirSeed(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) (statuses string, lost int) {
		f, tool, _ := lossy(t, Fault{AfterEffectReset: 0.3, BeforeEffectRefuse: 0.2}, seed)
		for range 200 {
			status := Classify(tool, f.Execute(t.Context(), call(t, tool, `{}`))).Status
			statuses += status.String()[:1]
			if status != intent.Completed {
				lost++
			}
		}
		return statuses, lost
	}
	once, lost := run(7)
	if again, _ := run(7); again != once {
		t.Error("the same seed lost other answers")
	}
	if other, _ := run(8); other == once {
		t.Error("another seed lost the same answers")
	}
	if lost < 60 || lost > 140 {
		t.Errorf("%d of 200 calls were hit, want about 100", lost)
	}
}

func TestFaultsAreChecked(t *testing.T) {
	t.Parallel()
	c, _ := client(t, "http://127.0.0.1:1", emailSpec(), Options{})
	for _, bad := range []Fault{{AfterEffectReset: 1.1}, {AfterEffectTimeout: -0.1}, {AfterEffectReset: 0.6, BeforeEffectRefuse: 0.6}, {Delay: -1}} {
		if _, err := c.WithFaults(map[string]Fault{"send": bad}, 1); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}
