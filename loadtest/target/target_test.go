package target

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestDownstreamCountsEffectsAndIntentions(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(NewDownstream())
	t.Cleanup(web.Close)
	for _, ref := range []string{"a", "b", "a"} {
		status, text := post(t, web.URL+"/effects/one", `{"ref":"`+ref+`","n":1}`)
		var answer struct {
			Ref string `json:"ref"`
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil || status != 200 || answer.Ref != ref {
			t.Errorf("status %d, %q, %v", status, text, err)
		}
		if len(text) < 250 || len(text) > 350 {
			t.Errorf("the answer has %d bytes, want about 300", len(text))
		}
	}
	post(t, web.URL+"/effects/two", `{"ref":"a"}`)
	for _, body := range []string{"", `{}`, `{"ref":7}`, `{"ref":"cut`} {
		if status, _ := post(t, web.URL+"/effects/two", body); status != http.StatusBadRequest {
			t.Errorf("body %q: status %d", body, status)
		}
	}
	resp, err := http.Get(web.URL + "/counts")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var counts map[string]Count
	if err := json.NewDecoder(resp.Body).Decode(&counts); err != nil {
		t.Fatal(err)
	}
	if len(counts) != 2 || counts["one"] != (Count{3, 2}) || counts["two"] != (Count{1, 1}) {
		t.Errorf("counts %+v, want one: 3 effects for 2 refs, two: 1 for 1", counts)
	}
}

// The proxy keeps a connection per caller: the yardstick must not measure dialling.
func TestProxyKeepsItsConnections(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	peers := map[string]bool{}
	const callers = 8
	var together sync.WaitGroup // each round's requests are all in flight at once
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		peers[r.RemoteAddr] = true
		mu.Unlock()
		together.Done()
		together.Wait()
	}))
	t.Cleanup(web.Close)
	upstream, _ := url.Parse(web.URL)
	front := httptest.NewServer(NewProxy(upstream, callers))
	t.Cleanup(front.Close)
	for range 5 {
		together.Add(callers)
		var round sync.WaitGroup
		for range callers {
			round.Go(func() {
				if resp, err := http.Post(front.URL, "text/plain", strings.NewReader("x")); err != nil || resp.StatusCode != 200 {
					t.Errorf("%v, %v", resp, err)
				} else {
					resp.Body.Close()
				}
			})
		}
		round.Wait()
	}
	if len(peers) > 2*callers { // a connection may come back to the pool after the next caller looked
		t.Errorf("%d rounds of %d requests took %d connections", 5, callers, len(peers))
	}
}

func TestServeSaysItsAddressAndEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, NewDownstream(), w) }()
	addr, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := post(t, "http://"+strings.TrimSpace(addr)+"/effects/x", `{"ref":"a"}`); status != 200 {
		t.Errorf("status %d", status)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	r.Close()
	if err := Serve(t.Context(), NewDownstream(), w); err == nil {
		t.Error("served although nobody can learn the address")
	}
}
