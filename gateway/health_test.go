package gateway_test

import (
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore/memstore"
	"github.com/latchkey-gateway/latchkey/lock/memlock"
)

func (a *replica) both() []string { return []string{a.agents.URL, a.operators.URL} }

func TestLivezTouchesNothing(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	var touched atomic.Int64
	w.lockFault.Store(new(memlock.Fault(func(string, int) (bool, error) { touched.Add(1); return false, errors.New("down") })))
	w.store.SetFault(func(memstore.Verb, intent.Key) memstore.Fault { touched.Add(1); return memstore.Refused })
	w.unreachable.Store(true)
	a.gateway.Drain()
	for _, server := range a.both() {
		if got := a.do("GET", server+"/livez", "", ""); got.code != 200 {
			t.Errorf("HTTP %d: %s", got.code, got.body)
		}
	}
	if n := touched.Load(); n != 0 {
		t.Errorf("%d uses of Redis or the store", n)
	}
}

func TestReadyz(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	ready := func(code int, checks map[string]string) {
		t.Helper()
		for _, server := range a.both() {
			got := a.do("GET", server+"/readyz", "", "")
			var state struct {
				Ready  bool
				Checks map[string]string
			}
			if err := json.Unmarshal(got.body, &state); err != nil {
				t.Fatal(err)
			}
			if got.code != code || state.Ready != (code == 200) || len(state.Checks) < 2 {
				t.Errorf("HTTP %d, want %d: %s", got.code, code, got.body)
			}
			for name, ok := range map[string]bool{"redis": checks["redis"] == "", "store": checks["store"] == "", "gateway": checks["gateway"] == ""} {
				if there := state.Checks[name]; (there == "ok" || there == "" && name == "gateway") != ok {
					t.Errorf("%s: %q", name, there)
				}
			}
			got.hides("10.1.2.3", "injected") // the cause belongs in the log
		}
	}
	// A load balancer that would rather have a gateway without Redis than none.
	degraded := func(code int, without bool) {
		t.Helper()
		for _, server := range a.both() {
			got := a.do("GET", server+"/readyz?degraded=ok", "", "")
			var state struct{ Ready, Degraded bool }
			if err := json.Unmarshal(got.body, &state); err != nil {
				t.Fatal(err)
			}
			if got.code != code || state.Ready != (code == 200) || state.Degraded != without {
				t.Errorf("degraded=ok: HTTP %d, want %d: %s", got.code, code, got.body)
			}
		}
	}
	ready(200, nil)
	degraded(200, false)
	a.ready.Store(new(errors.New("dial tcp 10.1.2.3: refused")))
	ready(503, map[string]string{"redis": "down"})
	degraded(200, true)
	w.store.SetFault(func(v memstore.Verb, _ intent.Key) memstore.Fault {
		if v == memstore.Ready {
			return memstore.Refused
		}
		return memstore.Healthy
	})
	ready(503, map[string]string{"redis": "down", "store": "down"})
	degraded(503, true)
	a.ready.Store(nil)
	ready(503, map[string]string{"store": "down"})
	degraded(503, false)
	w.store.SetFault(nil)
	ready(200, nil)
	degraded(200, false)

	// Draining takes no more calls from a load balancer, but serves those that still come.
	a.gateway.Drain()
	ready(503, map[string]string{"gateway": "draining"})
	degraded(503, false)
	a.call("mail", `{"id":1}`).completed()
}

// No other path is open to who has no key.
func TestOnlyProbesNeedNoKey(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	for _, server := range a.both() {
		for _, path := range []string{"/v1/tools", "/v1/receipts", "/v1/receipts/x", "/v1/receipts/x/attempts"} {
			a.do("GET", server+path, "", "").problem(401, "unauthenticated", "corrected")
		}
	}
	a.do("POST", a.agents.URL+"/v1/tools/mail/calls", "", body()).problem(401, "unauthenticated", "corrected")
	w.untouched(0, 0)
}
