// Package target holds the servers that a gateway is measured and tested with: the
// downstream of a benchmark and the bare reverse proxy that is its yardstick, and the
// Provider, a downstream that fails in every way that real ones do and keeps the ledger
// that is the ground truth of a run.
package target

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// Downstream is an HTTP service with one effect, which it counts:
//
//	POST /effects/{source}   acts; the body is a JSON object with a string member "ref"
//	GET  /counts             {"<source>": {"effects": 3, "refs": 3}, ...}
//
// refs is the number of distinct "ref"s: effects above refs mean that one intention acted
// twice.
type Downstream struct {
	mux  http.ServeMux
	seed maphash.Seed

	mu      sync.Mutex
	sources map[string]*ledger
}

// Count is what happened on behalf of one source.
type Count struct {
	Effects int `json:"effects"`
	Refs    int `json:"refs"`
}

type ledger struct {
	effects int
	refs    map[uint64]struct{} // 64-bit hashes: a million refs collide once in some 10^7 runs
}

// NewDownstream returns a downstream on which nothing has happened.
func NewDownstream() *Downstream {
	d := &Downstream{seed: maphash.MakeSeed(), sources: map[string]*ledger{}}
	d.mux.HandleFunc("POST /effects/{source}", d.act)
	d.mux.HandleFunc("GET /counts", d.counts)
	return d
}

func (d *Downstream) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.mux.ServeHTTP(w, r) }

var refMember = []byte(`"ref":"`)

func (d *Downstream) act(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	// The member is found by its bytes: what this process spends is taken from the same
	// processors that are being measured.
	_, rest, ok := bytes.Cut(body, refMember)
	ref, _, closed := bytes.Cut(rest, []byte{'"'})
	if !ok || !closed {
		http.Error(w, `want a JSON object with a "ref"`, http.StatusBadRequest)
		return
	}
	n := d.record(r.PathValue("source"), ref)

	answer := make([]byte, 0, 400)
	answer = append(answer, `{"id":"eff_`...)
	answer = strconv.AppendInt(answer, int64(n), 10)
	answer = append(answer, `","ref":"`...)
	answer = append(answer, ref...)
	answer = append(answer, answerTail...)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(answer)))
	w.Write(answer)
}

// answerTail brings the answer to about 300 bytes, as a provider's small object has.
const answerTail = `","object":"effect","state":"accepted","channel":"email","created":"2026-01-02T03:04:05Z",` +
	`"recipient":{"address":"someone@example.com","verified":true},` +
	`"note":"This answer is about as long as the small objects that payment and mail providers return."}`

func (d *Downstream) record(source string, ref []byte) int {
	h := maphash.Bytes(d.seed, ref)
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.sources[source]
	if l == nil {
		l = &ledger{refs: map[uint64]struct{}{}}
		d.sources[source] = l
	}
	l.effects++
	l.refs[h] = struct{}{}
	return l.effects
}

// Counts returns what happened so far, by source.
func (d *Downstream) Counts() map[string]Count {
	d.mu.Lock()
	defer d.mu.Unlock()
	counts := make(map[string]Count, len(d.sources))
	for source, l := range d.sources {
		counts[source] = Count{l.effects, len(l.refs)}
	}
	return counts
}

func (d *Downstream) counts(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(d.Counts()) // the client is gone: nobody to tell
}
