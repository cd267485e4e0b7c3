package demo_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/cmd/latchkey/demo"
)

const (
	email    = `{"invoice_id":"inv-1","to":"a@example.com","memo":"hello"}`
	card     = `{"invoice_id":"inv-1","card_number":"4242424242424242","amount":1200,"currency":"EUR"}`
	wire     = `{"payment_id":"pay-1","to_account":"DE02","amount":500,"currency":"EUR"}`
	note     = `{"text":"called back"}`
	closeAda = `{"status":"closed"}`
)

// world is a demo behind a real socket.
type world struct {
	t    *testing.T
	demo *demo.Demo
	url  string
}

func start(t *testing.T, o demo.Options) *world {
	t.Helper()
	d, err := demo.New(o)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(d)
	t.Cleanup(func() {
		s.Close()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return &world{t, d, s.URL}
}

// do makes one request; err is what a caller sees instead of a whole answer.
func (w *world) do(method, path, key, body string) (status int, answer string, err error) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, io.NopCloser(strings.NewReader(body)))
	if err != nil {
		w.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := http.DefaultClient.Do(req) // the opaque body keeps the transport from sending twice
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

// must is do for a request that is to be answered with this status.
func (w *world) must(status int, method, path, key, body string) string {
	w.t.Helper()
	got, answer, err := w.do(method, path, key, body)
	if err != nil || got != status {
		w.t.Fatalf("%s %s: got %d, %v, %q; want %d", method, path, got, err, answer, status)
	}
	return answer
}

func (w *world) ledger(query string) demo.Ledger {
	w.t.Helper()
	var l demo.Ledger
	if err := json.Unmarshal([]byte(w.must(200, "GET", "/ledger"+query, "", "")), &l); err != nil {
		w.t.Fatal(err)
	}
	return l
}

func TestWhatARepeatedRequestDoes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		service                  string
		effects                  int64
		same                     bool // both answers are equal
	}{
		{"mailer", "POST", "/emails", email, 200, demo.Emails, 2, false},
		{"charger", "POST", "/charges", card, 201, demo.Charges, 1, true},
		{"CRM", "PUT", "/contacts/c-1", closeAda, 200, demo.Contacts, 1, true},
		{"notes", "POST", "/contacts/c-1/notes", note, 201, demo.Notes, 2, false},
		{"wire", "POST", "/transfers", wire, 201, demo.Transfers, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := start(t, demo.Options{})
			first := w.must(c.status, c.method, c.path, "k1", c.body)
			second := w.must(c.status, c.method, c.path, "k1", c.body)
			if (first == second) != c.same {
				t.Errorf("answers %q and %q: same is %v, want %v", first, second, first == second, c.same)
			}
			l := w.ledger("?service=" + c.service)
			want := demo.Totals{Effects: c.effects, Repeated: c.effects - 1, Deduped: 2 - c.effects}
			if l.ByService[c.service] != want || l.Totals != want || int64(len(l.Effects)) != c.effects {
				t.Fatalf("ledger %+v, want totals %+v", l, want)
			}
			newest := l.Effects[0]
			if newest.Key != "k1" || newest.Service != c.service || int64(newest.Count) != c.effects || newest.BusinessID == "" {
				t.Errorf("newest effect %+v", newest)
			}
		})
	}
}

func TestTheChargerForgetsAKeyAfterItsWindow(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var mu sync.Mutex
	w := start(t, demo.Options{Now: func() time.Time { mu.Lock(); defer mu.Unlock(); return now }})
	advance := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }

	first := w.must(201, "POST", "/charges", "k1", card)
	advance(24*time.Hour - time.Nanosecond)
	if again := w.must(201, "POST", "/charges", "k1", card); again != first {
		t.Errorf("inside the window the answer was %q, first %q", again, first)
	}
	w.must(409, "POST", "/charges", "k1", strings.Replace(card, "1200", "1300", 1))
	advance(time.Nanosecond)
	if again := w.must(201, "POST", "/charges", "k1", card); again == first {
		t.Error("after the window the first charge was answered again")
	}
	if l := w.ledger(""); l.Totals.Effects != 2 || l.Effects[0].Count != 2 {
		t.Errorf("ledger %+v, want two charges", l)
	}
	w.must(201, "POST", "/charges", "", card)
	w.must(201, "POST", "/charges", "", card)
	if l := w.ledger(""); l.Totals.Effects != 4 {
		t.Errorf("%d charges; without a key nothing is deduped", l.Totals.Effects)
	}
}

func TestRefusedRequestsHaveNoEffect(t *testing.T) {
	t.Parallel()
	w := start(t, demo.Options{})
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/emails", `{"invoice_id":"inv-1","to":"nobody"}`, 422},
		{"POST", "/emails", `{"to":"a@example.com"}`, 422},
		{"POST", "/emails", `{`, 400},
		{"POST", "/emails", `[]`, 400},
		{"POST", "/emails", `{"memo":"` + strings.Repeat("x", 1<<20) + `"}`, 413},
		{"POST", "/charges", strings.Replace(card, "4242424242424242", "4000000000000002", 1), 402},
		{"POST", "/charges", strings.Replace(card, "1200", "0", 1), 422},
		{"POST", "/charges", strings.Replace(card, "1200", "1.5", 1), 400},
		{"POST", "/transfers", `{"payment_id":"pay-1"}`, 422},
		{"POST", "/contacts/nobody/notes", note, 404},
		{"POST", "/contacts/c-1/notes", `{}`, 422},
		{"GET", "/contacts/nobody", "", 404},
		{"GET", "/ledger?service=email", "", 400},
		{"GET", "/ledger?limit=x", "", 400},
		{"GET", "/nowhere", "", 404},
	} {
		w.must(c.status, c.method, c.path, "k1", c.body)
	}
	if l := w.ledger(""); l.Totals != (demo.Totals{}) || len(l.Effects) != 0 {
		t.Errorf("ledger %+v, want none", l)
	}
}

func TestLookups(t *testing.T) {
	t.Parallel()
	w := start(t, demo.Options{})
	for _, c := range []struct{ method, path, body, lookup string }{
		{"POST", "/emails", email, "/emails"},
		{"POST", "/charges", card, "/charges"},
		{"POST", "/transfers", wire, "/transfers"},
		{"POST", "/contacts/c-2/notes", note, "/contacts/c-2/notes"},
	} {
		if got := w.must(200, "GET", c.lookup+"?reference=k1", "", ""); got != `{"data":[]}`+"\n" {
			t.Errorf("%s before: %q", c.lookup, got)
		}
		_, answer, _ := w.do(c.method, c.path, "k1", c.body)
		w.do(c.method, c.path, "k2", strings.Replace(c.body, "1", "2", 1))
		if got := w.must(200, "GET", c.lookup+"?reference=k1", "", ""); got != `{"data":[`+strings.TrimSpace(answer)+`]}`+"\n" {
			t.Errorf("%s after: %q, want %q alone", c.lookup, got, answer)
		}
	}
	if got := w.must(200, "GET", "/contacts/c-1/notes", "", ""); got != `{"data":[]}`+"\n" {
		t.Errorf("another contact's notes: %q", got)
	}
}

func TestAReferenceMayComeInHeaderOrBody(t *testing.T) {
	t.Parallel()
	w := start(t, demo.Options{})
	w.must(200, "POST", "/emails", "", strings.Replace(email, `{`, `{"reference":"in-body",`, 1))
	req, err := http.NewRequestWithContext(t.Context(), "POST", w.url+"/emails", strings.NewReader(email))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Reference", "in-header")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	for _, key := range []string{"in-body", "in-header"} {
		if l := w.ledger("?key=" + key); l.Matched != 1 || l.Effects[0].Key != key {
			t.Errorf("key %s: %+v", key, l)
		}
	}
}

func TestContacts(t *testing.T) {
	t.Parallel()
	w := start(t, demo.Options{})
	if got := w.must(200, "GET", "/contacts?q=MARLOW+active", "", ""); !strings.Contains(got, `"total":1`) || !strings.Contains(got, "c-1") {
		t.Errorf("search: %s", got)
	}
	w.must(200, "PUT", "/contacts/c-1", "", closeAda)
	if got := w.must(200, "GET", "/contacts/c-1", "", ""); !strings.Contains(got, `"name":"Ada Marlow"`) || !strings.Contains(got, `"status":"closed"`) {
		t.Errorf("after PUT: %s; want one field changed and the others kept", got)
	}
	w.must(200, "PUT", "/contacts/new", "", `{}`)
	w.must(200, "GET", "/contacts/new", "", "")
	w.must(204, "DELETE", "/ledger", "", "")
	w.must(404, "GET", "/contacts/new", "", "")
	if got := w.must(200, "GET", "/contacts/c-1", "", ""); !strings.Contains(got, `"status":"active"`) {
		t.Errorf("after DELETE /ledger: %s", got)
	}
}

func TestRepeatsAtOnce(t *testing.T) {
	t.Parallel()
	w := start(t, demo.Options{})
	var wg sync.WaitGroup
	answers := make([]string, 64)
	for i := range answers {
		wg.Go(func() {
			if i%2 == 0 {
				_, answers[i], _ = w.do("POST", "/charges", "k1", card)
			} else {
				_, answers[i], _ = w.do("PUT", "/contacts/c-1", "k1", closeAda)
			}
		})
	}
	wg.Wait()
	for i, a := range answers {
		if a == "" || a != answers[i%2] {
			t.Errorf("answer %d: %q, want %q", i, a, answers[i%2])
		}
	}
	if l := w.ledger(""); l.Totals != (demo.Totals{Effects: 2, Deduped: 62}) {
		t.Errorf("totals %+v, want 2 effects and 62 recognised repeats", l.Totals)
	}
}

func TestTheLedgerNeverHoldsACardNumber(t *testing.T) {
	t.Parallel()
	w := start(t, demo.Options{})
	answer := w.must(201, "POST", "/charges", "k1", card)
	if all := answer + w.must(200, "GET", "/ledger", "", ""); strings.Contains(all, "424242") || !strings.Contains(all, "4242") {
		t.Errorf("want the last four digits and no more: %s", all)
	}
}
