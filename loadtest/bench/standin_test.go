package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/target"
)

// standIn is a gateway as the contract describes it, reduced to what a run looks at: two
// replicas on one memory. Its meters are exact: each kind of answer has a price.
type standIn struct {
	downstream string
	client     *http.Client
	spent      atomic.Int64 // nanoseconds of CPU time that the measured replica charges
	commands   atomic.Int64 // what Redis would have seen

	mu       sync.Mutex
	answered int
	calls    map[string]*standInCall // by tool, run and step
	near     map[string]bool         // what the measured replica has cached

	// Ways to be wrong, each decided by the number of the answer.
	actTwice   func(n int) bool // a fresh call acts twice
	actAgain   func(n int) bool // a replay acts
	actNot     func(n int) bool // a fresh call acts not at all
	refuse     func(n int) bool // 503
	denyReplay func(n int) bool // says that a replay is none
}

type standInCall struct {
	once sync.Once
	body []byte
	err  error
}

// Prices, in CPU time a call. The proxy's is the unit.
const (
	priceBare     = 10 * time.Microsecond
	priceFresh    = 20 * time.Microsecond
	priceCached   = 4 * time.Microsecond
	priceUncached = 30 * time.Microsecond
)

func never(int) bool { return false }

func newStandIn() *standIn {
	return &standIn{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
		calls: map[string]*standInCall{}, near: map[string]bool{},
		actTwice: never, actAgain: never, actNot: never, refuse: never, denyReplay: never}
}

// stack serves the stand-in's two replicas, a downstream and a proxy.
func (s *standIn) stack(t *testing.T) Stack {
	t.Helper()
	serve := func(h http.Handler) string {
		web := httptest.NewServer(h)
		t.Cleanup(web.Close)
		return web.Listener.Addr().String()
	}
	s.downstream = serve(target.NewDownstream())
	t.Cleanup(s.client.CloseIdleConnections)
	proxy := target.NewProxy(&url.URL{Scheme: "http", Host: s.downstream}, 64)
	var proxied atomic.Int64
	return Stack{
		Downstream: s.downstream,
		Proxy: serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			proxied.Add(int64(priceBare))
			proxy.ServeHTTP(w, r)
		})),
		First:  serve(s.replica(true)),
		Second: serve(s.replica(false)),
		Key:    "agent-key",
		Meters: map[string]Meter{
			PartProxy:    func() (time.Duration, error) { return time.Duration(proxied.Load()), nil },
			PartGateway:  func() (time.Duration, error) { return time.Duration(s.spent.Load()), nil },
			PartRedis:    func() (time.Duration, error) { return 0, nil },
			PartPostgres: func() (time.Duration, error) { return 0, nil },
		},
	}
}

func (s *standIn) replica(measured bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/tools/{tool}/calls", func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			Run  string          `json:"run_id"`
			Step string          `json:"step_id"`
			Args json.RawMessage `json:"args"`
		}
		if r.Header.Get("Authorization") != "Bearer agent-key" {
			http.Error(w, "unauthenticated", http.StatusUnauthorized)
			return
		}
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil || call.Run == "" || call.Step == "" {
			http.Error(w, fmt.Sprintf("bad call: %v", err), http.StatusBadRequest)
			return
		}
		tool := r.PathValue("tool")
		key := strings.Join([]string{tool, call.Run, call.Step}, "/")
		s.mu.Lock()
		s.answered++
		n := s.answered
		c, known := s.calls[key]
		if !known {
			c = &standInCall{}
			s.calls[key] = c
		}
		cached := measured && s.near[key]
		if measured {
			s.near[key] = true
		}
		s.mu.Unlock()
		if s.refuse(n) {
			http.Error(w, "not sent", http.StatusServiceUnavailable)
			return
		}
		if measured {
			s.charge(known, cached)
		}
		c.once.Do(func() {
			if s.actNot(n) {
				return
			}
			c.body, c.err = s.act(tool, call.Args)
			if s.actTwice(n) {
				_, c.err = s.act(tool, call.Args)
			}
		})
		// c is shared by every caller of this key and read-only from here on.
		err := c.err
		if err == nil && known && s.actAgain(n) {
			_, err = s.act(tool, call.Args)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Idempotent-Replayed", fmt.Sprint(known && !s.denyReplay(n)))
		w.Write(c.body)
	})
	return mux
}

func (s *standIn) charge(known, cached bool) {
	switch {
	case !known:
		s.spent.Add(int64(priceFresh))
		s.commands.Add(2)
	case cached:
		s.spent.Add(int64(priceCached))
	default:
		s.spent.Add(int64(priceUncached))
		s.commands.Add(1)
	}
}

func (s *standIn) act(tool string, args []byte) ([]byte, error) {
	resp, err := s.client.Post("http://"+s.downstream+"/effects/"+tool, "application/json", strings.NewReader(string(args)))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("downstream: %s", resp.Status)
	}
	return io.ReadAll(resp.Body)
}
