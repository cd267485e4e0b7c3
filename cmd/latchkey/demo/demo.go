package demo

import (
	"errors"
	"net/http"
	"sync"
	"time"
)

// Service names, as faults and the ledger use them.
const (
	Emails    = "emails"
	Charges   = "charges"
	Contacts  = "contacts" // PUT /contacts/{id}
	Notes     = "notes"
	Transfers = "transfers"
	Search    = "search"  // GET /contacts and /contacts/{id}: has faults, never effects
	Lookups   = "lookups" // every GET that takes a reference: has faults, never effects
)

// Options of a Demo. The zero value keeps everything in memory.
type Options struct {
	// LedgerFile keeps the effects, one JSON object a line, so that a restarted demo still
	// knows them. It grows until DELETE /ledger. Empty: memory alone.
	LedgerFile string
	// Capacity is how many effects stay readable, 10,000 where it is 0. Older ones are
	// counted in the totals and forgotten otherwise, also for dedupe and lookups.
	Capacity int
	// Now is the clock behind times and the dedupe window; nil means time.Now.
	Now func() time.Time
}

// Demo is the handler of all services. Its effects survive a killed process where
// Options.LedgerFile is given: a line is written before the answer is.
type Demo struct {
	mux    *http.ServeMux
	ledger *ledger
	crm    *crm
	faults *faults
	stop   sync.Once
	done   chan struct{}
}

// New makes a Demo and reads back its ledger file. It fails when that file cannot be
// opened or holds something else than a ledger.
func New(o Options) (*Demo, error) {
	if o.Capacity == 0 {
		o.Capacity = 10_000
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	d := &Demo{mux: http.NewServeMux(), crm: newCRM(), faults: newFaults(), done: make(chan struct{})}
	var err error
	if d.ledger, err = openLedger(o.LedgerFile, o.Capacity, o.Now, d.crm.restore); err != nil {
		return nil, err
	}
	d.routes()
	return d, nil
}

// ServeHTTP answers for every service.
func (d *Demo) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.mux.ServeHTTP(w, r) }

// Close ends answers that are being held back and closes the ledger file. Effects asked
// for afterwards are refused with 500. It may be called twice.
func (d *Demo) Close() error {
	d.stop.Do(func() { close(d.done) })
	return d.ledger.close()
}

func (d *Demo) routes() {
	d.mux.HandleFunc("GET /{$}", d.index)
	d.mux.HandleFunc("POST /emails", d.sendEmail)
	d.mux.HandleFunc("GET /emails", d.lookup(Emails))
	d.mux.HandleFunc("POST /charges", d.charge)
	d.mux.HandleFunc("GET /charges", d.lookup(Charges))
	d.mux.HandleFunc("GET /contacts", d.searchContacts)
	d.mux.HandleFunc("GET /contacts/{id}", d.getContact)
	d.mux.HandleFunc("PUT /contacts/{id}", d.putContact)
	d.mux.HandleFunc("POST /contacts/{id}/notes", d.addNote)
	d.mux.HandleFunc("GET /contacts/{id}/notes", d.lookup(Notes))
	d.mux.HandleFunc("POST /transfers", d.transfer)
	d.mux.HandleFunc("GET /transfers", d.lookup(Transfers))
	d.mux.HandleFunc("GET /ledger", d.readLedger)
	d.mux.HandleFunc("DELETE /ledger", d.clearLedger)
	d.mux.HandleFunc("POST /faults", d.armFault)
	d.mux.HandleFunc("GET /faults", d.listFaults)
	d.mux.HandleFunc("DELETE /faults", d.clearFaults)
}

func (d *Demo) index(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{
		"about":    "Demo services behind Latchkey. GET /ledger tells what they really did.",
		"services": effectServices,
		"control":  []string{"GET /ledger", "DELETE /ledger", "POST /faults", "GET /faults", "DELETE /faults"},
	})
}

// clearLedger forgets effects, dedupe memory and changed contacts together, so that the
// state is that of a new demo with an empty file.
func (d *Demo) clearLedger(w http.ResponseWriter, _ *http.Request) {
	if err := d.ledger.clear(d.crm.reset); err != nil {
		writeError(w, http.StatusInternalServerError, "the ledger file could not be emptied")
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (d *Demo) readLedger(w http.ResponseWriter, r *http.Request) {
	f, err := parseFilter(r.URL.Query())
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, d.ledger.view(f))
}

// lookup answers what was done under a reference, or for a contact; without either, the
// newest. Absence is an empty list and 200, as most providers have it.
func (d *Demo) lookup(service string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		fault := d.faults.take(Lookups)
		if fault.refuse(w) {
			return
		}
		f := filter{service: service, key: r.URL.Query().Get("reference"), businessID: r.PathValue("id"), limit: 100}
		d.answer(w, r, fault, http.StatusOK, map[string]any{"data": records(d.ledger.view(f).Effects)})
	}
}

// act performs one effect, unless the service remembers the key, and answers.
//
// What is durable when: the ledger line is written before the answer, so an answer that is
// lost, or a process killed in between, leaves an effect that a lookup finds.
func (d *Demo) act(w http.ResponseWriter, r *http.Request, a action) {
	fault := d.faults.take(a.service)
	if fault.refuse(w) {
		return
	}
	byPhrase := fault.Mode == "" && a.wantsLoss
	if byPhrase {
		fault.Mode = LoseAnswer
	}
	a.key = reference(r, a.key)
	a.fault = fault.Mode
	e, fresh, err := d.ledger.add(a)
	switch {
	case errors.Is(err, errOtherTerms):
		writeError(w, http.StatusConflict, "this Idempotency-Key was used for another charge")
		return
	case err != nil:
		writeError(w, http.StatusInternalServerError, "the effect could not be recorded and was not performed")
		return
	case !fresh && byPhrase:
		// The phrase loses the answer of an effect; a repeat that the service recognises
		// is answered, or a caller that retries under the same key would never learn it.
		fault.Mode = ""
	}
	d.answer(w, r, fault, a.status, e.Record)
}

// reference is the key that the caller forwarded.
func reference(r *http.Request, body string) string {
	for _, name := range []string{"Idempotency-Key", "X-Reference"} {
		if v := r.Header.Get(name); v != "" {
			return v
		}
	}
	return body
}
