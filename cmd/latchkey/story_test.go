package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/gateway/auth"
	"github.com/latchkey-gateway/latchkey/intentstore/intentstoretest"
	"github.com/latchkey-gateway/latchkey/lock/locktest"
)

// mailAPI is a mail provider as they are: it ignores idempotency keys, accepts a mail only
// after some time, whether or not anybody still waits for it, and can be asked what it sent.
type mailAPI struct {
	mu    sync.Mutex
	mails []map[string]any
	takes time.Duration
}

func (m *mailAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodGet {
		m.mu.Lock()
		defer m.mu.Unlock()
		found := []map[string]any{}
		for _, mail := range m.mails {
			if mail["reference"] == r.URL.Query().Get("reference") {
				found = append(found, mail)
			}
		}
		json.NewEncoder(w).Encode(map[string]any{"data": found})
		return
	}
	var mail map[string]any
	if err := json.NewDecoder(r.Body).Decode(&mail); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	time.Sleep(m.takes) // the provider's own queue: a client that hung up does not end it
	m.mu.Lock()
	mail["id"] = fmt.Sprintf("em_%d", len(m.mails)+1)
	m.mails = append(m.mails, mail)
	m.mu.Unlock()
	json.NewEncoder(w).Encode(mail)
}

func (m *mailAPI) sent() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.mails)
}

const storyConfig = `
region: eu-test-1
listen: 127.0.0.1:0
operator_listen: 127.0.0.1:0
redis: {addrs: [%q], prefix: story}
store: {dsn: %q}
limits: {wait: 1m}
auth:
  keys:
    - {id: fleet, sha256: %q, tenant: acme, roles: [agent]}
downstreams:
  mail: {base_url: %q}
tools:
  send_email:
    class: effectful
    downstream: mail
    timeout: 30s
    request: {method: POST, path: /mails, body: {invoice: "{args.invoice}", to: "{args.to}", text: "{args.text}", reference: "{key}"}}
    identity: [/invoice, /to]
    on_unknown: lookup
    lookup:
      request: {method: GET, path: "/mails?reference={key}"}
      settle_after: 2m
      every: 200ms
      completed_when: "response.status == 200 && size(response.body.data) > 0"
      result: "response.body.data[0]"
      absent_when: "response.status == 200 && size(response.body.data) == 0"
      absence_is_proof: true
`

// TestFoundingStory: the provider accepts a mail after 31 seconds, the gateway gives up on
// the answer at 30. The agent tries again, as it was and reworded, through another replica.
// There is one mail, the receipt goes from unknown to completed by a lookup, and nothing
// that the agent reads on the way claims success too early or invites a repeat.
func TestFoundingStory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as the story")
	}
	t.Parallel()
	api := &mailAPI{takes: 31 * time.Second}
	provider := httptest.NewServer(api)
	t.Cleanup(provider.Close)
	file := filepath.Join(t.TempDir(), "latchkey.yaml")
	config := fmt.Sprintf(storyConfig, locktest.Redis(t), intentstoretest.Postgres(t), auth.Hash("key-a"), provider.URL)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	one, two := startServer(t, "serve", "--config", file), startServer(t, "serve", "--config", file)

	call := func(p *server, text string) reply {
		t.Helper()
		body := fmt.Sprintf(`{"run_id":"run-1","step_id":"7","args":{"invoice":"inv-1","to":"ada@example.com","text":%q}}`, text)
		r, err := p.do(t.Context(), "key-a", "POST", "/v1/tools/send_email/calls", body)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	// While nobody knows, the agent must read that, and nothing that could be taken for a yes
	// or for leave to try again.
	pending := func(what string, r reply) {
		t.Helper()
		text := strings.ToLower(string(r.body))
		for _, wrong := range []string{`"status":"completed"`, `"retry":"same_key"`, `"retry":"corrected"`, "safe to send", "was sent", "succeeded"} {
			if strings.Contains(text, wrong) {
				t.Errorf("%s: the agent reads %q: %s", what, wrong, r.body)
			}
		}
		if !strings.Contains(text, "do not") || r.header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: the agent is not told to leave it: %s", what, r.body)
		}
	}

	first := call(one, "Here is your invoice.")
	first.want(t, "the answer after 30 seconds", http.StatusAccepted, "unknown", "never")
	pending("first", first)
	again := call(two, "Here is your invoice.")
	if again.receipt.Status != "completed" { // the lookup may have been quick
		again.want(t, "the same call at once", http.StatusAccepted, "unknown", "never")
		pending("again", again)
	}
	reworded := call(two, "Please find the invoice attached.")
	reworded.want(t, "the reworded call", http.StatusUnprocessableEntity, "", "never")
	pending("reworded", reworded)
	if reworded.receipt.Code != "idempotency_conflict" || reworded.receipt.Earlier != first.receipt.Key {
		t.Errorf("the reworded call is told %s, earlier %s", reworded.receipt.Code, reworded.receipt.Earlier)
	}

	settled, err := two.do(t.Context(), "key-a", "GET", "/v1/receipts/"+first.receipt.Key+"?wait=60", "")
	if err != nil {
		t.Fatal(err)
	}
	settled.want(t, "the receipt", http.StatusOK, "completed", "never")
	var receipt struct {
		SettledBy    string  `json:"settled_by"`
		UnknownSince *string `json:"unknown_since"`
		Executions   int     `json:"executions"`
		Outcome      struct {
			Body struct{ ID string }
		} `json:"outcome"`
		Evidence map[string]any `json:"evidence"`
	}
	if err := json.Unmarshal(settled.body, &receipt); err != nil {
		t.Fatal(err)
	}
	if receipt.SettledBy != "lookup" || receipt.UnknownSince == nil || receipt.Executions != 1 || receipt.Outcome.Body.ID != "em_1" || len(receipt.Evidence) == 0 {
		t.Errorf("settled as %s", settled.body)
	}
	for _, p := range []*server{one, two} {
		last := call(p, "Here is your invoice.")
		last.want(t, "the same call at last", http.StatusOK, "completed", "never")
		if !last.receipt.Replayed {
			t.Errorf("not a replay: %s", last.body)
		}
	}
	if n := api.sent(); n != 1 {
		t.Errorf("%d mails were sent", n)
	}
}
