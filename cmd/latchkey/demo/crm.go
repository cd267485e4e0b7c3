package demo

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxContacts bounds the CRM; a PUT that would make one more is refused with 422.
const maxContacts = 10_000

// Contact is a person in the CRM.
type Contact struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Email   string `json:"email"`
	Company string `json:"company"`
	Status  string `json:"status"`
}

// crm holds contacts. Writers hold the ledger's mutex as well, and take it first.
type crm struct {
	mu       sync.Mutex
	contacts map[string]Contact
}

func newCRM() *crm {
	c := &crm{}
	c.reset()
	return c
}

func (c *crm) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.contacts = map[string]Contact{}
	for _, s := range []Contact{
		{ID: "c-1", Name: "Ada Marlow", Email: "ada@example.com", Company: "Marlow Freight", Status: "active"},
		{ID: "c-2", Name: "Ben Okafor", Email: "ben@example.com", Company: "Okafor Foods", Status: "active"},
		{ID: "c-3", Name: "Chiara Rossi", Email: "chiara@example.net", Company: "Rossi Studio", Status: "prospect"},
		{ID: "c-4", Name: "Dmitri Volkov", Email: "dmitri@example.org", Company: "Marlow Freight", Status: "closed"},
	} {
		c.contacts[s.ID] = s
	}
}

// restore repeats what a ledger line says was done.
func (c *crm) restore(e Effect) {
	var contact Contact
	if e.Service != Contacts || json.Unmarshal(e.Record, &contact) != nil {
		return
	}
	c.set(contact)
}

func (c *crm) get(id string) (Contact, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	contact, ok := c.contacts[id]
	return contact, ok
}

func (c *crm) set(contact Contact) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.contacts[contact.ID] = contact
}

func (c *crm) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.contacts) >= maxContacts
}

// search matches words in any field, whatever their case, ordered by id.
func (c *crm) search(q string) []Contact {
	c.mu.Lock()
	all := slices.SortedFunc(maps.Values(c.contacts), func(a, b Contact) int { return cmp.Compare(a.ID, b.ID) })
	c.mu.Unlock()
	words := strings.Fields(strings.ToLower(q))
	return slices.DeleteFunc(all, func(p Contact) bool {
		text := strings.ToLower(strings.Join([]string{p.ID, p.Name, p.Email, p.Company, p.Status}, "\n"))
		return slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
	})
}

func (d *Demo) searchContacts(w http.ResponseWriter, r *http.Request) {
	fault := d.faults.take(Search)
	if fault.refuse(w) {
		return
	}
	found := d.crm.search(r.URL.Query().Get("q"))
	d.answer(w, r, fault, http.StatusOK, map[string]any{"total": len(found), "data": found[:min(len(found), 50)]})
}

func (d *Demo) getContact(w http.ResponseWriter, r *http.Request) {
	fault := d.faults.take(Search)
	if fault.refuse(w) {
		return
	}
	contact, ok := d.crm.get(r.PathValue("id"))
	if !ok {
		writeError(w, http.StatusNotFound, "there is no such contact")
		return
	}
	d.answer(w, r, fault, http.StatusOK, contact)
}

// putContact sets the given fields and makes the contact where there is none. A request
// that changes nothing is no effect: that is what makes the tool idempotent.
func (d *Demo) putContact(w http.ResponseWriter, r *http.Request) {
	var in struct{ Name, Email, Company, Status *string }
	if !readJSON(w, r, &in) {
		return
	}
	id := r.PathValue("id")
	if _, known := d.crm.get(id); !known && d.crm.full() {
		writeError(w, http.StatusUnprocessableEntity, "the CRM is full")
		return
	}
	// With the ledger locked, so that two requests cannot both find the old state.
	var before, after Contact
	var known bool
	apply := func() {
		before, known = d.crm.get(id)
		after = before
		after.ID = id
		for _, f := range []struct{ to, from *string }{{&after.Name, in.Name}, {&after.Email, in.Email},
			{&after.Company, in.Company}, {&after.Status, in.Status}} {
			if f.from != nil {
				*f.to = *f.from
			}
		}
	}
	d.act(w, r, action{
		service: Contacts, businessID: id, status: http.StatusOK,
		unchanged: func() (any, bool) {
			apply()
			return after, known && before == after
		},
		record: func(int64, time.Time) any { return after },
		commit: func() { d.crm.set(after) },
	})
}

// addNote honours no key: a repeated request is a second note.
func (d *Demo) addNote(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Text      string `json:"text"`
		Reference string `json:"reference"`
	}
	if !readJSON(w, r, &in) {
		return
	}
	id := r.PathValue("id")
	if _, known := d.crm.get(id); !known {
		writeError(w, http.StatusNotFound, "there is no such contact")
		return
	}
	if in.Text == "" {
		writeError(w, http.StatusUnprocessableEntity, "text is required")
		return
	}
	key := reference(r, in.Reference)
	d.act(w, r, action{
		service: Notes, businessID: id, key: key, status: http.StatusCreated,
		wantsLoss: strings.Contains(in.Text, losePhrase),
		record: func(seq int64, at time.Time) any {
			return map[string]any{"id": fmt.Sprintf("note_%d", seq), "contact_id": id, "text": in.Text,
				"reference": key, "added_at": at}
		},
	})
}
