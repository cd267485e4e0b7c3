package target

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/history"
)

// Provider is a downstream with the services of history.Tools:
//
//	POST /{service}                  acts; the body is {"ref", "to", "memo", "amount"}
//	GET  /{service}?reference={key}  {"data": [effects of that Idempotency-Key]}, some time later
//	GET  /search?q=                  changes nothing
//	GET  /ledger                     every effect, as history.Effect
//	GET  /ledger/summary             counts by service, as Summary
//
// How it behaves is decided by its Script. Services that dedupe act once per
// Idempotency-Key, the others ignore it but for lookups.
type Provider struct {
	*Ledger
	script Script
	mux    http.ServeMux
}

// NewProvider returns a downstream on which nothing has happened.
func NewProvider(s Script) *Provider {
	p := &Provider{Ledger: newLedger(), script: s}
	for _, t := range history.Tools {
		if t.Class == "read_only" {
			p.mux.HandleFunc("GET /"+t.Name, p.read)
			continue
		}
		p.mux.HandleFunc("POST /"+t.Name, func(w http.ResponseWriter, r *http.Request) { p.act(w, r, t) })
		p.mux.HandleFunc("GET /"+t.Name, func(w http.ResponseWriter, r *http.Request) { p.look(w, r, t) })
	}
	p.mux.HandleFunc("GET /ledger", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, p.Effects()) })
	p.mux.HandleFunc("GET /ledger/summary", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, p.Summary()) })
	return p
}

func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// order is what a request asks for.
type order struct {
	Ref    string `json:"ref"`
	To     string `json:"to"`
	Memo   string `json:"memo"`
	Amount int    `json:"amount"`
}

func (p *Provider) act(w http.ResponseWriter, r *http.Request, t history.Tool) {
	var o order
	// The body is read to its end: only then does the server notice that a caller hangs up.
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &o)
	}
	if err != nil || o.Ref == "" {
		answer(w, http.StatusBadRequest, map[string]string{"error": `want {"ref", "to", "memo", "amount"}`})
		return
	}
	key := r.Header.Get("Idempotency-Key")
	n := p.arrive(t.Name, o.Ref)
	mode, rng := p.script.draw(t.Name, o.Ref, n)
	e := history.Effect{Service: t.Name, Ref: o.Ref, Key: key, Wording: history.Wording(o.To, o.Memo), Mode: string(mode)}
	if !t.Dedupes || key == "" {
		p.perform(w, r, mode, rng, func() *history.Effect {
			done := p.commit(e, p.lag(rng))
			return &done
		})
		return
	}
	// Another request with the key waits for the one that acts, and gets its result.
	for {
		f := p.join(t.Name, key)
		if f == nil {
			break
		}
		<-f.done // bounded: land is called within LateAtMost
		if f.effect != nil {
			if mode == RefuseInput {
				mode = OK // what was accepted once is not refused later; "not now" may still be said
			}
			p.perform(w, r, mode, rng, func() *history.Effect { return f.effect })
			return
		}
	}
	var landed bool
	land := func(e *history.Effect) {
		if !landed {
			landed = true
			p.land(t.Name, key, e)
		}
	}
	defer func() { land(nil) }()
	p.perform(w, r, mode, rng, func() *history.Effect {
		done := p.commit(e, p.lag(rng))
		land(&done) // before the answer, which may take its time
		return &done
	})
}

// perform behaves as mode says. It calls commit at most once.
func (p *Provider) perform(w http.ResponseWriter, r *http.Request, mode Mode, rng *rand.Rand, commit func() *history.Effect) {
	patience := p.script.Patience
	switch mode {
	case Slow:
		pause(r, patience/4+upTo(rng, patience/2))
	case Late:
		// A caller that went away is noticed; one that does not go away is not waited for.
		pause(r, 3*patience)
		time.Sleep(upTo(rng, patience/2))
	case HangBefore:
		pause(r, 2*patience)
		hangUp(w)
		return
	case ResetBefore:
		hangUp(w)
		return
	case RefuseInput:
		answer(w, http.StatusUnprocessableEntity, map[string]string{"error": "not these arguments"})
		return
	case RefuseNow:
		w.Header().Set("Retry-After", "1")
		answer(w, http.StatusTooManyRequests, map[string]string{"error": "not now"})
		return
	case ErrorBefore:
		answer(w, http.StatusServiceUnavailable, map[string]string{"error": "try later"})
		return
	}
	e := commit()
	switch mode {
	case HangAfter:
		pause(r, 2*patience)
		hangUp(w)
	case ResetAfter, Late:
		hangUp(w)
	case ErrorAfter:
		answer(w, http.StatusInternalServerError, map[string]string{"error": "something broke"})
	case CutAfter:
		text := result(e)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		w.Write(text[:len(text)/2])
		http.NewResponseController(w).Flush()
		hangUp(w)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.Write(result(e))
	}
}

// look answers a lookup: one in ten says nothing useful, and an effect shows only after its
// lag.
func (p *Provider) look(w http.ResponseWriter, r *http.Request, t history.Tool) {
	key := r.URL.Query().Get("reference")
	rng := p.script.random("lookup/" + t.Name + "/" + key + "/" + strconv.Itoa(p.arrive("lookup", key)))
	if p.script.faulty() {
		switch rng.IntN(40) {
		case 0:
			answer(w, http.StatusInternalServerError, map[string]string{"error": "try later"})
			return
		case 1:
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"data": [ <html>`)
			return
		case 2:
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<h1>Please log in</h1>")
			return
		case 3:
			hangUp(w)
			return
		}
	}
	answer(w, http.StatusOK, map[string]any{"data": p.lookup(t.Name, key, time.Now())})
}

func (p *Provider) read(w http.ResponseWriter, r *http.Request) {
	answer(w, http.StatusOK, map[string]string{"found": r.URL.Query().Get("q")})
}

// lag is how long lookups do not show an effect.
func (p *Provider) lag(rng *rand.Rand) time.Duration {
	if !p.script.faulty() {
		return 0
	}
	return upTo(rng, p.script.Patience*LagAtMost)
}

func (s Script) faulty() bool { return len(s.Mix) > 1 }

// result is what an effect's caller gets, and what a lookup shows: the same members.
func result(e *history.Effect) []byte {
	text, _ := json.Marshal(e) // strings and a time
	return text
}

func upTo(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(max(int64(d), 1)))
}

// pause waits for d, or until the caller has gone.
func pause(r *http.Request, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

// hangUp breaks the connection with a reset, whatever was written.
func hangUp(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Close()
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the caller is gone: nobody to tell
}

func cut(at string) (service, rest string) {
	service, rest, _ = strings.Cut(at, "/")
	return service, rest
}
