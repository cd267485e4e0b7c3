package once_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/gateway/sweep"
	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
	"github.com/latchkey-gateway/latchkey/intentstore/intentstoretest"
	"github.com/latchkey-gateway/latchkey/intentstore/postgres"
	"github.com/latchkey-gateway/latchkey/lock/locktest"
	"github.com/latchkey-gateway/latchkey/lock/redislock"
	"github.com/latchkey-gateway/latchkey/tracing"
)

// The crash matrix with real parts: a child process makes the call against a real Redis, a
// real PostgreSQL and a real HTTP downstream, and kills itself with SIGKILL right after one
// of its steps. Other replicas then find out.

// killLease is short, so that a dead claim is found soon; its holders renew every third.
const killLease = 2 * time.Second

// childEnv makes this test binary a child; its value is a childJob as JSON.
const childEnv = "LATCHKEY_TEST_CHILD"

type childJob struct {
	Redis, Prefix, DSN, Downstream, Tool string
	Act                                  string // what the child does: "" the call, approve, resolve, recover
	Step                                 string // after which it gets a signal; "": never
	Stop                                 bool   // SIGSTOP instead of SIGKILL
}

func TestMain(m *testing.M) {
	if job := os.Getenv(childEnv); job != "" {
		child(job)
		return
	}
	os.Exit(m.Run())
}

// real is a replica on real parts.
type real struct {
	*once.Engine
	sweeper *sweep.Sweeper
	lock    *redislock.Locker
	store   *postgres.Store
	tools   *downstream.Catalogue
}

func openReal(job childJob, name string, p *plan) (*real, error) {
	tools, err := downstream.NewCatalogue(
		[]downstream.Spec{{Name: "d", BaseURL: job.Downstream, Timeout: 10 * time.Second, MaxInFlight: 1024,
			Breaker: downstream.BreakerSpec{Window: 30 * time.Second, MinRequests: 20, FailureRatio: 0.5, OpenFor: 10 * time.Second, HalfOpenProbes: 3}}},
		[]downstream.ToolSpec{
			{Name: "mail", Class: "effectful", Downstream: "d", Identity: []string{"/id"}, OnUnknown: "park",
				Request:    downstream.RequestSpec{Method: "POST", Path: "/mail", Body: "args"},
				ForwardKey: &downstream.ForwardKeySpec{Header: "Idempotency-Key"}},
			{Name: "hot", Class: "effectful", Durability: "hot", Downstream: "d", Identity: []string{"/id"}, OnUnknown: "park",
				Request:    downstream.RequestSpec{Method: "POST", Path: "/mail", Body: "args"},
				ForwardKey: &downstream.ForwardKeySpec{Header: "Idempotency-Key"}},
			{Name: "wire", Class: "irreversible", Downstream: "d", Identity: []string{"/id"}, OnUnknown: "park",
				Request:    downstream.RequestSpec{Method: "POST", Path: "/mail", Body: "args"},
				ForwardKey: &downstream.ForwardKeySpec{Header: "Idempotency-Key"}},
			{Name: "asked", Class: "effectful", Downstream: "d", Identity: []string{"/id"}, OnUnknown: "lookup",
				Request:    downstream.RequestSpec{Method: "POST", Path: "/mail", Body: "args"},
				ForwardKey: &downstream.ForwardKeySpec{Header: "Idempotency-Key"},
				Lookup: &downstream.LookupSpec{Request: downstream.RequestSpec{Method: "GET", Path: "/mail?key={key}"}, SettleAfter: time.Hour,
					Every: 20 * time.Millisecond, GiveUpAfter: 2 * time.Hour, CompletedWhen: "response.status == 200"}},
			{Name: "deduped", Class: "effectful", Downstream: "d", Identity: []string{"/id"}, OnUnknown: "retry",
				Request:    downstream.RequestSpec{Method: "POST", Path: "/mail?dedupe", Body: "args"},
				ForwardKey: &downstream.ForwardKeySpec{Header: "Idempotency-Key", Dedupes: true, For: time.Hour}},
		})
	if err != nil {
		return nil, err
	}
	locker, err := redislock.New(redislock.Options{Addrs: []string{job.Redis}, Prefix: job.Prefix})
	if err != nil {
		return nil, err
	}
	store, err := postgres.Open(context.Background(), postgres.Options{DSN: job.DSN})
	if err != nil {
		return nil, err
	}
	r := &real{lock: locker, store: store, tools: tools}
	o := once.Options{Lock: locker, Store: store, Desk: store, Journal: store, Tools: tools.Tool, Effects: downstream.NewClient(tools, downstream.Options{}),
		Lease: killLease, HotTTL: time.Hour, NearCache: 1 << 20, MaxInFlight: 1 << 16, Replica: name, Region: "test"}
	if p != nil {
		o.Lock, o.Store, o.Desk, o.Effects = brokenLock{locker, p}, brokenStore{store, p}, brokenDesk{store, p}, realEffects{o.Effects, p}
	}
	r.Engine = once.New(o)
	r.sweeper = sweep.New(sweep.Options{Engine: r.Engine, Lock: locker, Store: store, Lease: killLease, Result: time.Hour, Tombstone: 2 * time.Hour})
	return r, nil
}

func (r *real) close() {
	r.Engine.Close(context.Background())
	r.lock.Close()
	r.store.Close()
}

func (r *real) call(tool, step string) once.Answer {
	t, _ := r.tools.Tool(tool)
	args, _ := intent.Parse([]byte(`{"id":"` + step + `"}`))
	return r.Do(context.Background(), once.Request{Tool: t, Credential: "c", Wait: 15 * time.Second, Span: tracing.Continue(""),
		Call: intent.Call{Tenant: "acme", RunID: "r", StepID: step, Args: args}})
}

// realEffects is the real client as one step of a plan.
type realEffects struct {
	once.Effects
	*plan
}

func (e realEffects) Execute(ctx context.Context, c downstream.Call) (seen downstream.Observed) {
	e.step("execute", func() error { seen = e.Effects.Execute(ctx, c); return nil })
	return seen
}

func (e realEffects) Lookup(ctx context.Context, c downstream.Call) (found downstream.Finding) {
	e.step("lookup", func() error { found = e.Effects.Lookup(ctx, c); return nil })
	return found
}

// act makes the call, or goes on with what came of it.
func (r *real) act(job childJob) intent.Status {
	if job.Act == "" {
		return r.call(job.Tool, "s").Receipt.Status
	}
	ctx := context.Background()
	rows, _, err := r.store.List(ctx, intentstore.Query{Tenant: "acme"})
	if err != nil || len(rows) != 1 {
		panic(fmt.Sprintf("%d rows, %v", len(rows), err))
	}
	o := once.Order{Tenant: "acme", Key: rows[0].Key, By: "ops", Reason: "because"}
	switch job.Act {
	case "approve":
		r.Approve(ctx, o, intent.Fingerprint{}, time.Minute)
	case "resolve":
		r.Resolve(ctx, o, once.Resolution{Status: intent.Completed, Result: []byte(`{"sent":1}`)})
	case "recover":
		r.Recover(ctx, rows[0])
	}
	after, err := r.store.Get(ctx, o.Key)
	if err != nil {
		panic(err)
	}
	return after.Status
}

// child makes one call and prints the steps that it took and what it was told.
func child(text string) {
	var job childJob
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		panic(err)
	}
	p := &plan{name: job.Step, signal: syscall.SIGKILL}
	if job.Stop {
		p.signal = syscall.SIGSTOP
	}
	r, err := openReal(job, "child", p)
	if err != nil {
		panic(err)
	}
	status := r.act(job)
	fmt.Println(strings.Join(p.taken(), " "))
	fmt.Println(status.String())
	r.close()
}

func startChild(t *testing.T, job childJob) (cmd *exec.Cmd, out *bufio.Scanner) {
	t.Helper()
	text, _ := json.Marshal(job)
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	// Pdeathsig means the thread that started the child: it is kept until the child is gone.
	started, gone := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			<-gone
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait(); close(gone) })
	return cmd, bufio.NewScanner(pipe)
}

// ledger is a downstream over HTTP that counts what it did, by the forwarded key.
type ledger struct {
	*httptest.Server
	mu    sync.Mutex
	done  map[string]int
	delay time.Duration
	drop  bool // acts, and then drops the connection
}

func newLedger(t *testing.T) *ledger {
	l := &ledger{done: map[string]int{}}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		key := r.Header.Get("Idempotency-Key")
		known := l.done[key] > 0 || l.done[r.URL.Query().Get("key")] > 0
		if r.Method == http.MethodPost && !(known && r.URL.Query().Has("dedupe")) {
			l.done[key]++
		}
		n, delay, drop := len(l.done), l.delay, l.drop && r.Method == http.MethodPost
		l.mu.Unlock()
		time.Sleep(delay)
		if drop {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet && !known {
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprintf(w, `{"sent":%d}`, n)
	}))
	t.Cleanup(l.Close)
	return l
}

func (l *ledger) most() (most, total int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.done {
		most, total = max(most, n), total+n
	}
	return most, total
}

func newJob(t *testing.T, l *ledger, tool string) childJob {
	t.Helper()
	job := childJob{Redis: locktest.Redis(t), Prefix: "kill-" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")),
		DSN: intentstoretest.Postgres(t), Downstream: l.URL, Tool: tool}
	if err := postgres.Migrate(t.Context(), job.DSN); err != nil {
		t.Fatal(err)
	}
	return job
}

func TestKilledAfterEachStep(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	for _, c := range []struct{ tool, act, ends string }{
		{"mail", "", "completed"}, {"hot", "", "completed"},
		{"wire", "approve", "completed"}, {"mail", "resolve", "completed"},
		{"asked", "recover", "completed"}, {"deduped", "recover", "completed"},
	} {
		t.Run(c.tool+" "+c.act, func(t *testing.T) {
			t.Parallel()
			healthy, _ := prepare(t, c.tool, c.act)
			cmd, out := startChild(t, healthy)
			out.Scan()
			steps := strings.Fields(out.Text())
			out.Scan()
			if err := cmd.Wait(); err != nil || out.Text() != c.ends || len(steps) < 3 {
				t.Fatalf("the healthy child took %v and was told %q: %v", steps, out.Text(), err)
			}
			slices.Sort(steps)
			for _, step := range slices.Compact(steps) {
				if step == "renew" {
					continue // only on a slow day; nothing follows from it
				}
				t.Run(step, func(t *testing.T) {
					t.Parallel()
					job, l := prepare(t, c.tool, c.act)
					job.Step = step
					cmd, _ := startChild(t, job)
					err := cmd.Wait()
					status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
					if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
						t.Fatalf("the child was not killed: %v", err)
					}
					settleAndCheck(t, job, l)
				})
			}
		})
	}
}

// prepare makes what a child goes on with: a call that awaits approval, or one whose answer
// was lost.
func prepare(t *testing.T, tool, act string) (childJob, *ledger) {
	t.Helper()
	l := newLedger(t)
	job := newJob(t, l, tool)
	if job.Act = act; act == "" {
		return job, l
	}
	first := check(t, job, "first")
	defer first.close()
	l.drop = true
	told := first.call(tool, "s")
	l.mu.Lock()
	l.drop = false
	l.mu.Unlock()
	if told.Receipt.Status != intent.Unknown && told.Receipt.Status != intent.AwaitingApproval {
		t.Fatalf("told %s", told.Receipt.Status)
	}
	if act == "recover" {
		time.Sleep(time.Until(told.Receipt.NextCheck)) // for real: the schedule is the store's
	}
	return job, l
}

// TestStoppedPastItsLease: the owner is stopped right before it would act; when it goes on,
// its lease is over and somebody else has taken the key further.
func TestStoppedPastItsLease(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	for _, step := range []string{"claim", "begin", "execute"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			l := newLedger(t)
			job := newJob(t, l, "mail")
			job.Step, job.Stop = step, true
			cmd, out := startChild(t, job)
			var status syscall.WaitStatus
			if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
				t.Fatalf("the child did not stop: %v, %v", status, err)
			}
			time.Sleep(2 * killLease) // for real: the lease is Redis' own time
			b := check(t, job, "b")
			during := b.call("mail", "s")
			if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			out.Scan()
			out.Scan()
			told := out.Text()
			cmd.Wait()
			after := b.call("mail", "s")
			t.Logf("during: %s; the late owner was told: %s; after: %s", during.Receipt.Status, told, after.Receipt.Status)
			// claim: nobody but b may act. begin: the row is lost, until its owner proves that it
			// sent nothing. execute: lost, until the owner comes with the answer.
			want := map[string][3]string{
				"claim":   {"completed", "completed", "completed"},
				"begin":   {"unknown", "rejected", "completed"},
				"execute": {"unknown", "completed", "completed"},
			}[step]
			if got := [3]string{during.Receipt.Status.String(), told, after.Receipt.Status.String()}; got != want {
				t.Errorf("during, told, after: %v, want %v", got, want)
			}
			b.close()
			settleAndCheck(t, job, l)
		})
	}
}

func check(t *testing.T, job childJob, name string) *real {
	t.Helper()
	r, err := openReal(job, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// settleAndCheck lets two sound replicas meet what the child left: the same call at once,
// the sweeper after the lease, the same call again; then it compares ledger, row and answers.
func settleAndCheck(t *testing.T, job childJob, l *ledger) {
	t.Helper()
	b, c := check(t, job, "b"), check(t, job, "c")
	defer b.close()
	defer c.close()
	b.call(job.Tool, "s")
	var again sync.WaitGroup
	if job.Act != "" { // the others decide and reconcile at the same time
		again.Go(func() { b.act(job) })
		again.Go(func() { c.act(job) })
	}
	time.Sleep(killLease + killLease/2)
	again.Wait()
	for _, r := range []*real{b, c} {
		if err := r.sweeper.Sweep(t.Context()); err != nil {
			t.Errorf("sweep: %v", err)
		}
	}
	first, second := b.call(job.Tool, "s"), c.call(job.Tool, "s")
	most, total := l.most()
	if most > 1 {
		t.Errorf("%d effects", most)
	}
	for _, a := range []once.Answer{first, second} {
		switch {
		case a.Err != nil:
			t.Errorf("told %v", a.Err)
		case a.Receipt.Status == intent.Completed && total == 0:
			t.Error("told completed, and nothing happened")
		case a.Receipt.Status == intent.Started:
			t.Error("left started")
		case a.Receipt.Status == intent.Rejected && total > 0:
			t.Error("told rejected, and it happened")
		}
	}
	one, two := first.Receipt.AppendJSON(nil, false), second.Receipt.AppendJSON(nil, false)
	if string(one) != string(two) {
		t.Errorf("two callers hold different receipts:\n%s\n%s", one, two)
	}
}
