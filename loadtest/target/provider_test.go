package target

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/history"
)

// patience is short: tests wait for what hangs.
const patience = 40 * time.Millisecond

func provider(t *testing.T, mix Mix) (*Provider, string) {
	t.Helper()
	p := NewProvider(Script{Seed: 1, Mix: mix, Patience: patience})
	web := httptest.NewServer(p)
	t.Cleanup(web.Close)
	return p, web.URL
}

// send orders something and returns the status, 0 for no whole answer, and the effect's id.
func send(t *testing.T, url, key, body string) (status int, effect string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	req.GetBody = nil // the transport must not send it again by itself
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if errors.Is(err, io.ErrUnexpectedEOF) || err != nil {
		return 0, ""
	}
	var e history.Effect
	_ = json.Unmarshal(text, &e) // a refusal has no effect
	return resp.StatusCode, e.ID
}

// Each mode commits or does not, and answers or does not; the ledger knows.
func TestModes(t *testing.T) {
	t.Parallel()
	for mode, want := range map[Mode]struct{ status, effects int }{
		OK: {200, 1}, Slow: {200, 1}, HangAfter: {0, 1}, ResetAfter: {0, 1}, ErrorAfter: {500, 1}, CutAfter: {0, 1}, Late: {0, 1},
		RefuseInput: {422, 0}, RefuseNow: {429, 0}, ErrorBefore: {503, 0}, ResetBefore: {0, 0}, HangBefore: {0, 0},
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			p, url := provider(t, Mix{mode: 1})
			status, effect := send(t, url+"/mail", "k1", `{"ref":"r1","to":" A@x ","memo":"m"}`)
			list := p.Effects()
			if status != want.status || len(list) != want.effects {
				t.Fatalf("status %d, effects %+v", status, list)
			}
			if len(list) == 0 {
				return
			}
			if e := list[0]; e.Ref != "r1" || e.Key != "k1" || e.Service != "mail" || e.Mode != string(mode) || e.Wording != "a@x | m" || status == 200 && e.ID != effect {
				t.Errorf("%+v, answered %q", e, effect)
			}
		})
	}
	if len(Mixes["faulty"]) != 12 {
		t.Errorf("the faulty mix has %d modes", len(Mixes["faulty"]))
	}
}

// A service that dedupes acts once per key, also for requests side by side; the others act
// each time.
func TestKeysAreHonouredOrIgnored(t *testing.T) {
	t.Parallel()
	p, url := provider(t, Mixes["clean"])
	for _, service := range []string{"charge", "mail"} {
		var mu sync.Mutex
		seen := map[string]bool{}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				_, effect := send(t, url+"/"+service, "k1", `{"ref":"r1"}`)
				mu.Lock()
				seen[effect] = true
				mu.Unlock()
			})
		}
		all.Wait()
		want := map[string]int{"charge": 1, "mail": 8}[service]
		if len(seen) != want || seen[""] {
			t.Errorf("%s: %v, want %d effects", service, seen, want)
		}
	}
	send(t, url+"/charge", "k2", `{"ref":"r1"}`)
	send(t, url+"/charge", "", `{"ref":"r2"}`)
	send(t, url+"/charge", "", `{"ref":"r2"}`)
	if s := p.Summary(); s["charge"] != (Summary{Requests: 11, Effects: 4, Refs: 2, Repeated: 2}) ||
		s["mail"] != (Summary{Requests: 8, Effects: 8, Refs: 1, Repeated: 7, RepeatedKeys: 7}) {
		t.Errorf("%+v", s)
	}
}

// A first request that did not commit leaves the key free, and one that committed without
// an answer does not.
func TestALostAnswerIsStillRememberedByItsKey(t *testing.T) {
	t.Parallel()
	for mode, want := range map[Mode]int{ResetAfter: 1, ResetBefore: 0} {
		p, url := provider(t, Mix{mode: 1})
		for range 3 {
			send(t, url+"/charge", "k1", `{"ref":"r1"}`)
		}
		if n := len(p.Effects()); n != want {
			t.Errorf("%s: %d effects, want %d", mode, n, want)
		}
	}
}

// The same seed gives each ref the same fate; another seed another.
func TestScriptsFollowTheirSeed(t *testing.T) {
	t.Parallel()
	fates := func(seed uint64) (all string) {
		s := Script{Seed: seed, Mix: Mixes["faulty"], Patience: patience}
		for n := range 50 {
			mode, _ := s.draw("mail", "r1", n)
			all += string(mode) + " "
		}
		return all
	}
	if one := fates(1); fates(1) != one || fates(2) == one {
		t.Error("the seed does not decide")
	}
	if mode, _ := (Script{}).draw("mail", "r1", 0); mode != OK {
		t.Errorf("no mix: %s", mode)
	}
}

// A lookup shows an effect once its lag is over, and never one that is not there.
func TestLookupsLagBehind(t *testing.T) {
	t.Parallel()
	l := newLedger()
	l.commit(history.Effect{Service: "mail", Ref: "r1", Key: "k1"}, time.Minute)
	now := time.Now()
	for _, c := range []struct {
		service, key string
		at           time.Time
		want         int
	}{{"mail", "k1", now, 0}, {"mail", "k1", now.Add(2 * time.Minute), 1}, {"wire", "k1", now.Add(2 * time.Minute), 0}, {"mail", "k2", now.Add(2 * time.Minute), 0}} {
		if got := l.lookup(c.service, c.key, c.at); got == nil || len(got) != c.want {
			t.Errorf("%s %s at %s: %v, want %d", c.service, c.key, c.at.Sub(now), got, c.want)
		}
	}
	_, url := provider(t, Mixes["clean"])
	send(t, url+"/mail", "k1", `{"ref":"r1"}`)
	var found struct{ Data []history.Effect }
	resp, err := http.Get(url + "/mail?reference=k1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&found); err != nil || len(found.Data) != 1 || found.Data[0].ID != "mail-1" {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestOrdersWithoutARefAreRefused(t *testing.T) {
	t.Parallel()
	p, url := provider(t, Mixes["clean"])
	for _, body := range []string{"", "{}", `{"ref":7}`} {
		if status, _ := send(t, url+"/mail", "k", body); status != http.StatusBadRequest {
			t.Errorf("%q: %d", body, status)
		}
	}
	if n := len(p.Effects()); n != 0 {
		t.Errorf("%d effects", n)
	}
}
