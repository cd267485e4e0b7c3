package notify_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/gateway/notify"
	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore/memstore"
)

const secretBytes = "0123456789abcdef0123456789abcdef"

// got is one request that the receiver took whole.
type got struct {
	header http.Header
	body   []byte
}

// desk is a store, a receiver and a clock, shared by as many notifiers as a test starts.
type desk struct {
	testing.TB
	store  *memstore.Store
	server *httptest.Server
	log    bytes.Buffer

	mu     sync.Mutex
	now    time.Time
	answer http.HandlerFunc
	got    []got
	told   map[string]int
}

func newDesk(t testing.TB) *desk {
	d := &desk{TB: t, store: memstore.New(), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), told: map[string]int{}}
	d.reply(http.StatusNoContent)
	d.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		d.mu.Lock()
		d.got = append(d.got, got{r.Header.Clone(), body})
		answer := d.answer
		d.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(d.server.Close)
	return d
}

func (d *desk) reply(status int) {
	d.script(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
}

func (d *desk) script(h http.HandlerFunc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer = h
}

func (d *desk) notifier(change ...func(*notify.Options)) *notify.Notifier {
	d.Helper()
	o := notify.Options{
		Desk: d.store, URL: d.server.URL + "/hook?token=hidden", Secret: "whsec_" + base64.StdEncoding.EncodeToString([]byte(secretBytes)),
		Console: "https://ops.example/console/", Told: func(outcome string) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.told[outcome]++
		},
		Now: func() time.Time {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.now
		},
		Log: slog.New(slog.NewJSONHandler(&locked{mu: &d.mu, b: &d.log}, nil)),
	}
	for _, c := range change {
		c(&o)
	}
	n, err := notify.New(o)
	if err != nil {
		d.Fatal(err)
	}
	return n
}

type locked struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (d *desk) pass(n *notify.Notifier) {
	d.Helper()
	if err := n.Pass(d.Context()); err != nil {
		d.Error(err)
	}
}

func (d *desk) after(pause time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(pause)
}

func (d *desk) requests() []got {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]got(nil), d.got...)
}

// counts fails unless the receiver got n requests, and the outcomes are as given.
func (d *desk) counts(n int, told map[string]int) {
	d.Helper()
	if len(d.requests()) != n {
		d.Errorf("%d requests, want %d", len(d.requests()), n)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for outcome, want := range told {
		if d.told[outcome] != want {
			d.Errorf("%s: %d times, want %d (%v)", outcome, d.told[outcome], want, d.told)
		}
	}
}

// waiting stores a receipt that awaits approval since a minute ago and is to be told of.
func (d *desk) waiting(name byte) intent.Receipt {
	d.Helper()
	r := intent.Receipt{Key: intent.Key{name}, Guard: intent.Guard{name}, Fingerprint: intent.Fingerprint{name},
		Tenant: "acme", Tool: "wire", Class: intent.Irreversible, Durability: intent.Durable, Args: []byte(`{"amount":"SECRET-ARGUMENT"}`),
		Status: intent.AwaitingApproval, Retry: intent.RetryNever, Fence: 1, ClaimID: intent.ClaimID{name}, CreatedAt: d.now.Add(-time.Minute)}
	r.NextCheck, r.NotifyAt = d.now.Add(time.Hour), d.now
	begun, err := d.store.Begin(d.Context(), r)
	if err != nil || !begun.Mine {
		d.Fatalf("%+v %v", begun, err)
	}
	return begun.Row
}

// parked stores a receipt that became unknown and is parked.
func (d *desk) parked(name byte) intent.Receipt {
	d.Helper()
	r := d.waiting(name)
	opened, err := r.Approve("someone", intent.Opening{ClaimID: intent.ClaimID{name, 1}, At: d.now, SettleBy: d.now.Add(time.Minute)})
	if err != nil {
		d.Fatal(err)
	}
	d.replace(r, opened)
	lost, err := opened.Apply(opened.LoseMove("timeout", nil, intent.Plan{Parked: intent.ParkedByPolicy, NotifyAt: d.now}, d.now))
	if err != nil {
		d.Fatal(err)
	}
	return d.replace(opened, lost)
}

func (d *desk) replace(was, now intent.Receipt) intent.Receipt {
	d.Helper()
	after, err := d.store.Replace(d.Context(), was, now, nil)
	if err != nil {
		d.Fatal(err)
	}
	return after
}

func (d *desk) row(r intent.Receipt) intent.Receipt {
	d.Helper()
	now, err := d.store.Get(context.Background(), r.Key)
	if err != nil {
		d.Fatal(err)
	}
	return now
}

// signed checks the signature as a receiver does, by the words of the specification.
func (d *desk) signed(m got) {
	d.Helper()
	mac := hmac.New(sha256.New, []byte(secretBytes))
	io.WriteString(mac, m.header.Get("webhook-id")+"."+m.header.Get("webhook-timestamp")+"."+string(m.body))
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); m.header.Get("webhook-signature") != want {
		d.Errorf("signature %q, want %q", m.header.Get("webhook-signature"), want)
	}
}

func TestAMessage(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	r := d.waiting(1)
	n := d.notifier()
	d.pass(n)
	d.pass(n)
	d.counts(1, map[string]int{notify.Sent: 1, notify.Failed: 0})
	m := d.requests()[0]
	d.signed(m)
	if at := m.header.Get("webhook-timestamp"); at != "1772366400" || m.header.Get("Content-Type") != "application/json" || !strings.HasPrefix(m.header.Get("webhook-id"), "msg_") {
		t.Errorf("headers %v", m.header)
	}
	var body map[string]any
	if err := json.Unmarshal(m.body, &body); err != nil {
		t.Fatal(err)
	}
	want := `{"data":{"age_seconds":60,"class":"irreversible","doubt":"","expires_at":"2026-03-01T13:00:00Z","key":"` + r.Key.String() +
		`","links":{"console":"https://ops.example/console/receipts/` + r.Key.String() + `","self":"/v1/receipts/` + r.Key.String() +
		`"},"parked":"","status":"awaiting_approval","tenant":"acme","tool":"wire"},"timestamp":"2026-03-01T12:00:00Z","type":"receipt.awaiting_approval"}`
	if text, _ := json.Marshal(body); string(text) != want {
		t.Errorf("\n%s\n%s", text, want)
	}
	if after := d.row(r); !after.NotifyAt.IsZero() || !after.NextCheck.Equal(r.NextCheck) || after.Version != r.Version {
		t.Errorf("the row was left as %+v", after.Recovery)
	}
}

func TestWhatIsTold(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.parked(1)
	doubtful := d.parked(2)
	settled, err := doubtful.Apply(doubtful.CompleteMove("operator", nil, d.now))
	if err != nil {
		t.Fatal(err)
	}
	d.replace(d.replace(doubtful, settled), settled.Suspect(intent.DoubtLateAnswer, d.now))
	resolved := d.parked(3) // and nobody has been told yet
	if settled, err = resolved.Apply(resolved.CompleteMove("operator", nil, d.now)); err != nil {
		t.Fatal(err)
	}
	d.replace(resolved, settled)
	d.pass(d.notifier())
	d.counts(2, map[string]int{notify.Sent: 2})
	told := map[string]bool{}
	for _, m := range d.requests() {
		d.signed(m)
		var body struct {
			Type string
			Data struct{ Key, Status, Parked, Doubt string }
		}
		if err := json.Unmarshal(m.body, &body); err != nil {
			t.Fatal(err)
		}
		told[body.Type+" "+body.Data.Key[:2]+" "+body.Data.Status+" "+body.Data.Parked+body.Data.Doubt] = true
		if bytes.Contains(m.body, []byte("SECRET")) {
			t.Errorf("it holds arguments: %s", m.body)
		}
	}
	if !told["receipt.parked 01 unknown policy"] || !told["receipt.doubt 02 completed possible_double"] {
		t.Errorf("%v", told)
	}
}

// Who asked for some events gets no others, and what nobody asked for is not kept waiting.
func TestEventsThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	parked, waits := d.parked(1), d.waiting(2)
	d.pass(d.notifier(func(o *notify.Options) { o.Events = []string{notify.AwaitingApproval} }))
	d.counts(1, map[string]int{notify.Sent: 1})
	if body := string(d.requests()[0].body); !strings.Contains(body, "receipt.awaiting_approval") {
		t.Errorf("told %s", body)
	}
	for _, r := range []intent.Receipt{parked, waits} {
		if row := d.row(r); !row.NotifyAt.IsZero() {
			t.Errorf("%s is still to be told at %v", row.Status, row.NotifyAt)
		}
	}
}

func TestAReceiverThatFails(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	r := d.waiting(1)
	n := d.notifier()
	d.reply(http.StatusInternalServerError)
	d.pass(n)
	d.pass(n) // it is not due again yet
	d.counts(1, map[string]int{notify.Failed: 1})
	tries := 1
	for began := d.now; d.told[notify.GaveUp] == 0; tries++ {
		if tries > 20 {
			t.Fatal("it never gives up")
		}
		pause := d.row(r).NotifyAt.Sub(d.now)
		if pause < 30*time.Second || pause > 10*time.Hour {
			t.Fatalf("try %d: again after %v", tries, pause)
		}
		d.after(pause)
		d.pass(n)
		if d.told[notify.GaveUp] == 1 && (d.now.Sub(began) < 22*time.Hour || d.now.Sub(began) > 30*time.Hour) {
			t.Errorf("given up after %v", d.now.Sub(began))
		}
	}
	d.counts(8, map[string]int{notify.Failed: 8, notify.GaveUp: 1, notify.Sent: 0})
	requests := d.requests()
	for _, m := range requests {
		d.signed(m)
		if m.header.Get("webhook-id") != requests[0].header.Get("webhook-id") {
			t.Error("a repeated message has another id")
		}
	}
	if requests[0].header.Get("webhook-timestamp") == requests[7].header.Get("webhook-timestamp") {
		t.Error("the timestamp must be that of the try")
	}
	if after := d.row(r); !after.NotifyAt.IsZero() {
		t.Errorf("it is still due at %v", after.NotifyAt)
	}
	if strings.Contains(d.log.String(), "hidden") || !strings.Contains(d.log.String(), `"http_status":500`) {
		t.Errorf("log: %s", d.log.String())
	}
}

func TestAReceiverThatRecovers(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]http.HandlerFunc{
		"a redirect is not followed": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"a connection that breaks": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a timeout":                func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			r := d.waiting(1)
			n := d.notifier(func(o *notify.Options) { o.Timeout = 200 * time.Millisecond })
			d.script(script)
			d.pass(n)
			d.counts(1, map[string]int{notify.Failed: 1})
			d.reply(http.StatusOK)
			d.after(time.Hour)
			d.pass(n)
			d.counts(2, map[string]int{notify.Failed: 1, notify.Sent: 1})
			if !d.row(r).NotifyAt.IsZero() || strings.Contains(d.log.String(), "hidden") {
				t.Errorf("log: %s", d.log.String())
			}
		})
	}
}

func TestAReceiverThatIsGone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first, n := d.waiting(1), d.notifier()
	d.reply(http.StatusGone)
	d.pass(n)
	second := d.waiting(2)
	d.pass(n)
	d.counts(1, map[string]int{notify.Gone: 1, notify.Failed: 0})
	for _, r := range []intent.Receipt{first, second} {
		if !d.row(r).NotifyAt.IsZero() {
			t.Error("it is still due, and would stand in the way of what is")
		}
	}
	d.reply(http.StatusOK)
	d.waiting(3)
	d.pass(d.notifier()) // the next start
	d.counts(2, map[string]int{notify.Sent: 1})
}

func TestTwoNotifiersSendOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const rows = 20
	for i := range byte(rows) {
		d.waiting(i + 1)
	}
	var passes sync.WaitGroup
	for range 2 {
		n := d.notifier()
		passes.Go(func() { d.pass(n) })
	}
	passes.Wait()
	d.counts(rows, map[string]int{notify.Sent: rows, notify.Failed: 0})
}

// A notifier that dies between the request and the note of it: the row is due again, and the
// receiver knows the message.
func TestAfterACrash(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	r := d.waiting(1)
	ctx, die := context.WithCancel(t.Context())
	d.script(func(w http.ResponseWriter, _ *http.Request) {
		die()
		d.store.SetFault(func(v memstore.Verb, _ intent.Key) memstore.Fault {
			if v == memstore.Replace {
				return memstore.Refused
			}
			return memstore.Healthy
		})
	})
	_ = d.notifier().Pass(ctx)
	d.store.SetFault(nil)
	d.reply(http.StatusOK)
	n := d.notifier()
	d.pass(n)
	d.counts(1, nil)
	d.after(time.Minute)
	d.pass(n)
	d.counts(2, map[string]int{notify.Sent: 1, notify.Failed: 0})
	if two := d.requests(); two[0].header.Get("webhook-id") != two[1].header.Get("webhook-id") {
		t.Error("the repeated message has another id")
	}
	if !d.row(r).NotifyAt.IsZero() {
		t.Error("it is still due")
	}
}

// A check in the middle of the telling moves the row's schedule and nothing else.
func TestCheckedMeanwhile(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	r := d.parked(1)
	d.script(func(http.ResponseWriter, *http.Request) {
		now := d.row(r)
		d.replace(now, now.Wait(intent.Plan{NextCheck: now.CreatedAt.Add(time.Hour), Parked: now.Parked, NotifyAt: now.NotifyAt}))
	})
	n := d.notifier()
	d.pass(n)
	if after := d.row(r); !after.NotifyAt.IsZero() || after.NextCheck.IsZero() {
		t.Errorf("%+v", after.Recovery)
	}
	d.after(48 * time.Hour)
	d.pass(n)
	d.counts(1, map[string]int{notify.Sent: 1})
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.waiting(1)
	ctx, stop := context.WithCancel(t.Context())
	arrived := make(chan struct{})
	d.script(func(_ http.ResponseWriter, r *http.Request) { close(arrived); <-r.Context().Done() })
	var running sync.WaitGroup
	running.Go(func() { d.notifier().Run(ctx) })
	<-arrived
	stop()
	running.Wait()
	d.counts(1, map[string]int{notify.Failed: 0, notify.Sent: 0})
}

func TestOptionsThatAreRefused(t *testing.T) {
	t.Parallel()
	good := "whsec_" + base64.StdEncoding.EncodeToString([]byte(secretBytes))
	for _, o := range []notify.Options{
		{URL: "ops.example/hook", Secret: good},
		{URL: "ftp://ops.example/hook", Secret: good},
		{URL: "https://", Secret: good},
		{URL: "https://ops.example", Secret: good[6:]},
		{URL: "https://ops.example", Secret: "whsec_hunter2"},
		{URL: "https://ops.example", Secret: "whsec_" + base64.StdEncoding.EncodeToString([]byte("short"))},
		{URL: "https://ops.example", Secret: good, Timeout: time.Minute},
	} {
		if _, err := notify.New(o); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
