package gateway_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// services is the downstream: it does what each test says and writes down every request to
// act, before it answers.
type services struct {
	*httptest.Server
	mu      sync.Mutex
	script  http.HandlerFunc
	ledger  []entry
	reads   int
	arrived chan struct{} // gets a value per request, as long as there is room
	held    chan struct{} // closed by release
	once    sync.Once
}

// entry is one effect as the downstream saw it.
type entry struct {
	tool, key, query, body, traceparent string
}

func newServices(t testing.TB) *services {
	s := &services{arrived: make(chan struct{}, 1<<10), held: make(chan struct{})}
	s.answer(answer(200, `{"done":true}`))
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() { s.release(); s.Server.Close() })
	return s
}

func (s *services) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	if err != nil {
		// Not a whole request: nothing is done.
	} else if r.Method == http.MethodGet {
		s.reads++
	} else {
		s.ledger = append(s.ledger, entry{r.URL.EscapedPath()[1:], r.Header.Get("Idempotency-Key"), r.URL.RawQuery, string(body), r.Header.Get("Traceparent")})
	}
	script := s.script
	s.mu.Unlock()
	select {
	case s.arrived <- struct{}{}:
	default:
	}
	script(w, r)
}

// answer says what happens from now on.
func (s *services) answer(script http.HandlerFunc) {
	s.mu.Lock()
	s.script = script
	s.mu.Unlock()
}

// release lets every request go that hold keeps.
func (s *services) release() { s.once.Do(func() { close(s.held) }) }

// hold answers only after release.
func (s *services) hold(then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		<-s.held
		then(w, r)
	}
}

func (s *services) entries() []entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ledger)
}

func (s *services) total() int { return len(s.entries()) }

func (s *services) read() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// answer writes a status, a body and "Name", "value" pairs.
func answer(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if body != "" {
			w.Header().Set("Content-Type", "application/json")
		}
		for i := 0; i < len(headers); i += 2 {
			w.Header().Add(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// reset breaks the connection without an answer.
func reset(w http.ResponseWriter, _ *http.Request) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// cutShort promises more than it sends.
func cutShort(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	io.WriteString(w, `{"half":`)
	http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// raw writes these bytes as the whole answer.
func raw(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer c.Close()
		io.WriteString(c, text)
	}
}

// inTurn uses one script per request, and the last one for all further ones.
func inTurn(scripts ...http.HandlerFunc) http.HandlerFunc {
	var mu sync.Mutex
	n := 0
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		script := scripts[min(n, len(scripts)-1)]
		n++
		mu.Unlock()
		script(w, r)
	}
}

// dial connects to the downstream, or to a port where nobody listens.
func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if w.unreachable.Load() {
		address = "127.0.0.1:1"
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}
