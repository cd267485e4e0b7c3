package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// server answers requests whose body is a number, and keeps count of them.
type server struct {
	addr string
	mu   sync.Mutex
	seen map[int]int
}

func serve(t *testing.T, answer func(w http.ResponseWriter, seq int)) *server {
	t.Helper()
	s := &server{seen: map[int]int{}}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seq, err := strconv.Atoi(string(body))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		s.seen[seq]++
		s.mu.Unlock()
		answer(w, seq)
	}))
	t.Cleanup(web.Close)
	s.addr = web.Listener.Addr().String()
	return s
}

// times says how often a request arrived.
func (s *server) times(seq int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[seq]
}

func number(dst []byte, seq int) []byte {
	body := strconv.Itoa(seq)
	return fmt.Appendf(dst, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func dial(t *testing.T, addr string, n int) *Pool {
	t.Helper()
	p, err := Dial(t.Context(), addr, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func ok(w http.ResponseWriter, _ int) { io.WriteString(w, "ok") }

func TestEachRequestIsSentOnce(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*Pool, int, int) (Result, error){
		"closed": func(p *Pool, first, n int) (Result, error) {
			return p.Closed(t.Context(), Traffic{Request: number}, first, n)
		},
		"open": func(p *Pool, first, n int) (Result, error) {
			return p.Open(t.Context(), Traffic{Request: number}, first, n, 1e5)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, ok)
			p := dial(t, s.addr, 8)
			for _, part := range []struct{ first, n int }{{0, 100}, {100, 5}, {105, 1}} { // fewer than connections, too
				res, err := run(p, part.first, part.n)
				if err != nil {
					t.Fatal(err)
				}
				if res.Requests != part.n || res.Latency.Percentile(1) <= 0 || res.Rate() <= 0 {
					t.Errorf("result %+v of %d requests", res, part.n)
				}
			}
			for seq := range 106 {
				if n := s.times(seq); n != 1 {
					t.Errorf("request %d was sent %d times", seq, n)
				}
			}
			if n := s.times(106); n != 0 {
				t.Error("a request too many was sent")
			}
		})
	}
}

func TestAnyOtherAnswerFailsTheRun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer func(w http.ResponseWriter, seq int)
		want   string
	}{
		"status": {func(w http.ResponseWriter, _ int) {
			http.Error(w, "the breaker is open", http.StatusServiceUnavailable)
		},
			"request 37: status 503: the breaker is open"},
		"202":          {func(w http.ResponseWriter, _ int) { w.WriteHeader(202) }, "request 37: status 202"},
		"not replayed": {func(w http.ResponseWriter, _ int) { w.Header().Set("Idempotent-Replayed", "false") }, `request 37: Idempotent-Replayed is "false", want "true"`},
		"closing":      {func(w http.ResponseWriter, _ int) { replayed(w); w.Header().Set("Connection", "close") }, "request 37: the server ended the connection"},
		"cut":          {func(http.ResponseWriter, int) { panic(http.ErrAbortHandler) }, "request 37: unexpected EOF"},
	} {
		for model, run := range map[string]func(*Pool, Traffic) (Result, error){
			"closed": func(p *Pool, t_ Traffic) (Result, error) { return p.Closed(t.Context(), t_, 0, 10_000) },
			"open":   func(p *Pool, t_ Traffic) (Result, error) { return p.Open(t.Context(), t_, 0, 10_000, 1e5) },
		} {
			t.Run(name+", "+model, func(t *testing.T) {
				t.Parallel()
				s := serve(t, func(w http.ResponseWriter, seq int) {
					if seq == 37 {
						tc.answer(w, seq)
						return
					}
					replayed(w)
				})
				_, err := run(dial(t, s.addr, 4), Traffic{Request: number, Replayed: "true"})
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("error %v, want %q", err, tc.want)
				}
				if n := s.times(37); n != 1 {
					t.Errorf("the failed request was sent %d times", n)
				}
			})
		}
	}
}

func replayed(w http.ResponseWriter) { w.Header().Set("Idempotent-Replayed", "true") }

func TestEndOfContextBreaksOff(t *testing.T) {
	t.Parallel()
	for model, run := range map[string]func(context.Context, *Pool) (Result, error){
		"closed": func(ctx context.Context, p *Pool) (Result, error) {
			return p.Closed(ctx, Traffic{Request: number}, 0, 1000)
		},
		"open": func(ctx context.Context, p *Pool) (Result, error) {
			return p.Open(ctx, Traffic{Request: number}, 0, 1000, 1000)
		},
	} {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			release := make(chan struct{})
			s := serve(t, func(w http.ResponseWriter, seq int) {
				if seq == 20 {
					cancel() // and never answers
					<-release
				}
			})
			t.Cleanup(func() { close(release) }) // before the server's own clean-up, which waits for the handler
			if _, err := run(ctx, dial(t, s.addr, 2)); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want context.Canceled", err)
			}
		})
	}
}

// The open model's point: a stall is charged to every request that was due meanwhile, also
// to those that the server answered quickly once it got them.
func TestOpenCountsFromWhenARequestWasDue(t *testing.T) {
	t.Parallel()
	const stall = 40 * time.Millisecond
	s := serve(t, func(w http.ResponseWriter, seq int) {
		if seq == 0 {
			time.Sleep(stall) // the stall is what is tested
		}
	})
	res, err := dial(t, s.addr, 1).Open(t.Context(), Traffic{Request: number}, 0, 10, 1e4) // the last is due after 0.9 ms
	if err != nil {
		t.Fatal(err)
	}
	if least := res.Latency.Percentile(1); least < stall-time.Millisecond {
		t.Errorf("a request that waited for the stall counts %s", least)
	}
}

func TestOpenKeepsItsRate(t *testing.T) {
	t.Parallel()
	s := serve(t, ok)
	res, err := dial(t, s.addr, 4).Open(t.Context(), Traffic{Request: number}, 0, 51, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if res.Elapsed < 50*time.Millisecond { // never faster; how much slower is the machine's affair
		t.Errorf("51 requests at 1000 a second took %s", res.Elapsed)
	}
}

func TestDialFails(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	addr := s.Listener.Addr().String()
	s.Close()
	if _, err := Dial(t.Context(), addr, 2); err == nil {
		t.Error("dialled a closed port")
	}
}
