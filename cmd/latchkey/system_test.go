package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/gateway/auth"
	"github.com/latchkey-gateway/latchkey/intentstore/intentstoretest"
	"github.com/latchkey-gateway/latchkey/lock/locktest"
)

// The system tests run the real program as processes of its own, on a real Redis and a real
// PostgreSQL that a test may break, and look at it from outside: HTTP and the downstream's
// ledger.

// mainEnv makes this test binary the latchkey program.
const mainEnv = "LATCHKEY_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainEnv) == "1" {
		main()
	}
	os.Exit(m.Run())
}

// system is one Redis, one PostgreSQL, one downstream and some replicas.
type system struct {
	t        *testing.T
	redis    string
	dsn      string
	prefix   string
	lease    string
	ledger   *ledger
	replicas []*server
}

// newSystem uses the servers that all tests share.
func newSystem(t *testing.T, replicas int) *system {
	t.Helper()
	s := &system{t: t, redis: locktest.Redis(t), dsn: intentstoretest.Postgres(t), lease: "4s"}
	s.begin(replicas)
	return s
}

// newOwnSystem starts servers of its own, to be broken.
func newOwnSystem(t *testing.T, replicas int) (*system, *locktest.RedisServer, *intentstoretest.PostgresServer) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts servers of its own")
	}
	redis, postgres := locktest.StartRedis(t), intentstoretest.StartPostgres(t)
	s := &system{t: t, redis: redis.Addr, dsn: postgres.DSN, lease: "4s"}
	s.begin(replicas)
	return s, redis, postgres
}

func (s *system) begin(replicas int) {
	s.prefix = "system-" + strings.ToLower(strings.ReplaceAll(s.t.Name(), "/", "-"))
	s.ledger = newLedger(s.t)
	for range replicas {
		s.replicas = append(s.replicas, s.start())
	}
}

const systemConfig = `
region: eu-test-1
replica: %s
listen: 127.0.0.1:0
operator_listen: 127.0.0.1:0
lease: %s
redis: {addrs: [%q], prefix: %q}
store: {dsn: %q}
limits: {wait: 2m}
auth:
  keys:
    - {id: fleet-a, sha256: %q, tenant: acme, roles: [agent]}
    - {id: fleet-b, sha256: %q, tenant: globex, roles: [agent]}
downstreams:
  mailer: {base_url: %q, timeout: 20s, max_in_flight: 4096}
tools:
  mail: {SHARED}
  note: {SHARED, durability: hot}
  slow: {SHARED, timeout: 20s}
  brief: {SHARED, timeout: 1s}
  patient: {SHARED, timeout: 2m}
`

// start starts one more replica and waits until it serves.
func (s *system) start() *server {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "latchkey.yaml")
	config := fmt.Sprintf(systemConfig, fmt.Sprintf("r%d", len(s.replicas)+1), s.lease, s.redis, s.prefix, s.dsn,
		auth.Hash("key-a"), auth.Hash("key-b"), s.ledger.url)
	config = strings.ReplaceAll(config, "SHARED", "class: effectful, downstream: mailer, request: {method: POST, path: /emails, body: args}, "+
		"identity: [/id], on_unknown: park, forward_key: {header: Idempotency-Key}")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return startServer(s.t, "serve", "--config", file)
}

// server is a latchkey process.
type server struct {
	t         *testing.T
	cmd       *exec.Cmd
	agents    string // URL
	operators string
	mu        sync.Mutex
	log       bytes.Buffer
	ended     chan struct{}
}

func startServer(t *testing.T, args ...string) *server {
	t.Helper()
	p := &server{t: t, cmd: exec.Command(os.Args[0], args...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), mainEnv+"=1")
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.run()
	serving := make(chan struct{})
	go func() {
		defer close(p.ended)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			p.mu.Lock()
			p.log.Write(append(lines.Bytes(), '\n'))
			p.mu.Unlock()
			var line struct {
				Msg       string `json:"msg"`
				Listen    string `json:"listen"`
				Operators string `json:"operator_listen"`
			}
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving" {
				p.agents, p.operators = "http://"+line.Listen, "http://"+line.Operators
				close(serving)
			}
		}
		p.cmd.Wait()
	}()
	select {
	case <-serving:
	case <-p.ended:
		t.Fatalf("latchkey %v ended:\n%s", args, p.text())
	case <-time.After(time.Minute):
		t.Fatalf("latchkey %v does not serve:\n%s", args, p.text())
	}
	return p
}

// run starts the process so that it dies with this one. Pdeathsig means the thread that
// started it, so that thread is kept until the process has ended.
func (p *server) run() {
	p.t.Helper()
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			<-p.ended
		}
	}()
	if err := <-started; err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { p.cmd.Process.Kill(); <-p.ended })
}

func (p *server) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// reply is an answer as a client sees it.
type reply struct {
	code    int
	header  http.Header
	body    []byte
	receipt receiptJSON // of a problem: what it shares with a receipt
}

type receiptJSON struct {
	Key      string          `json:"key"`
	Status   string          `json:"-"`
	Any      any             `json:"status"` // a word, or a problem's number
	Retry    string          `json:"retry"`
	Replayed bool            `json:"replayed"`
	Durable  bool            `json:"durable"`
	Code     string          `json:"code"` // of a problem
	Earlier  string          `json:"earlier_key"`
	Outcome  json.RawMessage `json:"outcome"`
}

var client = &http.Client{Transport: &http.Transport{
	MaxIdleConnsPerHost: 64, DisableCompression: true,
	DialContext: (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
}}

func (p *server) do(ctx context.Context, bearer, method, path, body string, header ...string) (reply, error) {
	var r reply
	req, err := http.NewRequestWithContext(ctx, method, p.agents+path, strings.NewReader(body))
	if err != nil {
		return r, err
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		return r, err
	}
	defer res.Body.Close()
	r.code, r.header = res.StatusCode, res.Header
	if r.body, err = io.ReadAll(res.Body); err != nil {
		return r, err
	}
	err = json.Unmarshal(r.body, &r.receipt)
	r.receipt.Status, _ = r.receipt.Any.(string)
	return r, err
}

// call makes tenant acme's call of run r and the given step, as a caller that keeps to the
// contract: told that nothing was sent and that the same call is safe (a machine under load
// may let a lease run out before the first byte), it calls again.
func (p *server) call(tool, step string, header ...string) reply {
	p.t.Helper()
	for try := 0; ; try++ {
		r := p.once(tool, step, header...)
		if r.code != http.StatusServiceUnavailable || r.receipt.Retry != "same_key" || try == 40 {
			return r
		}
		time.Sleep(250 * time.Millisecond)
	}
}

// once makes the call once and takes what comes.
func (p *server) once(tool, step string, header ...string) reply {
	p.t.Helper()
	r, err := p.do(p.t.Context(), "key-a", "POST", "/v1/tools/"+tool+"/calls", callBody(step), header...)
	if err != nil {
		p.t.Fatalf("call: %v\n%s", err, p.text())
	}
	return r
}

func (p *server) get(path string) reply {
	p.t.Helper()
	r, err := p.do(p.t.Context(), "key-a", "GET", path, "")
	if err != nil {
		p.t.Fatalf("get %s: %v", path, err)
	}
	return r
}

func callBody(step string) string {
	return fmt.Sprintf(`{"run_id":"r","step_id":%q,"args":{"id":%q}}`, step, step)
}

// wait fails the test where what it waits for does not come at all.
func wait[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(2 * time.Minute):
		t.Fatalf("%s: it does not come", what)
	}
	return v
}

// want checks an answer's HTTP code, status and retry word.
func (r reply) want(t *testing.T, what string, code int, status, retry string) {
	t.Helper()
	if r.code != code || r.receipt.Status != status && status != "" || r.receipt.Retry != retry {
		t.Errorf("%s: %d %s %s, want %d %s %s\n%s", what, r.code, r.receipt.Status, r.receipt.Retry, code, status, retry, r.body)
	}
}

// ledger is the downstream: it counts effects per forwarded key.
type ledger struct {
	url    string
	mu     sync.Mutex
	done   map[string]int
	total  int
	behave func(n int, w http.ResponseWriter, r *http.Request) bool // true: answered
}

func newLedger(t *testing.T) *ledger {
	l := &ledger{done: map[string]int{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(l.serve)}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	l.url = "http://" + listener.Addr().String()
	return l
}

func (l *ledger) serve(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	l.mu.Lock()
	l.total++
	n, behave := l.total, l.behave
	l.done[r.Header.Get("Idempotency-Key")]++
	l.mu.Unlock()
	if behave != nil && behave(n, w, r) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"sent":%d}`, n)
}

// set says how the downstream behaves from now on; the effect has happened when it is asked.
func (l *ledger) set(f func(n int, w http.ResponseWriter, r *http.Request) bool) {
	l.mu.Lock()
	l.behave = f
	l.mu.Unlock()
}

// counts returns the effects of the key that has most, and of all keys.
func (l *ledger) counts() (most, total int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.done {
		most = max(most, n)
	}
	return most, l.total
}

func (l *ledger) want(t *testing.T, total int) {
	t.Helper()
	if most, all := l.counts(); most > 1 || all != total {
		t.Errorf("%d effects in all, %d of one key; want %d and at most 1", all, most, total)
	}
}
