package demo

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// losePhrase in a memo asks for an effect whose answer is lost.
const losePhrase = "[lose the answer]"

// dedupeWindow is how long the card charger remembers an Idempotency-Key.
const dedupeWindow = 24 * time.Hour

// sendEmail honours no key: a repeated request is a second email. An address without an @
// is refused with 422, which a caller can correct.
func (d *Demo) sendEmail(w http.ResponseWriter, r *http.Request) {
	var in struct {
		InvoiceID string `json:"invoice_id"`
		To        string `json:"to"`
		Memo      string `json:"memo"`
		Reference string `json:"reference"`
	}
	if !readJSON(w, r, &in) {
		return
	}
	if in.InvoiceID == "" || !strings.Contains(in.To, "@") {
		writeError(w, http.StatusUnprocessableEntity, "invoice_id and an address in to are required")
		return
	}
	key := reference(r, in.Reference)
	d.act(w, r, action{
		service: Emails, businessID: in.InvoiceID, key: key, status: http.StatusOK,
		wantsLoss: strings.Contains(in.Memo, losePhrase),
		record: func(seq int64, at time.Time) any {
			return map[string]any{"id": fmt.Sprintf("em_%d", seq), "invoice_id": in.InvoiceID, "to": in.To,
				"memo": in.Memo, "reference": key, "sent_at": at}
		},
	})
}

// charge dedupes on Idempotency-Key: within the window the first charge is answered again,
// and the same key for other terms is 409. A card that ends in 0002 is declined with 402.
func (d *Demo) charge(w http.ResponseWriter, r *http.Request) {
	var in struct {
		InvoiceID  string `json:"invoice_id"`
		CardNumber string `json:"card_number"`
		Amount     int64  `json:"amount"`
		Currency   string `json:"currency"`
		Memo       string `json:"memo"`
	}
	if !readJSON(w, r, &in) {
		return
	}
	if in.InvoiceID == "" || len(in.CardNumber) < 12 || in.Amount <= 0 || in.Currency == "" {
		writeError(w, http.StatusUnprocessableEntity, "invoice_id, card_number, a positive amount in minor units and currency are required")
		return
	}
	last4 := in.CardNumber[len(in.CardNumber)-4:]
	if last4 == "0002" {
		writeError(w, http.StatusPaymentRequired, "the card was declined")
		return
	}
	key := reference(r, "")
	d.act(w, r, action{
		service: Charges, businessID: in.InvoiceID, key: key, status: http.StatusCreated,
		terms:     fmt.Sprintf("%q %d %q card %s", in.InvoiceID, in.Amount, in.Currency, last4),
		wantsLoss: strings.Contains(in.Memo, losePhrase),
		dedupes:   dedupeWindow,
		record: func(seq int64, at time.Time) any {
			return map[string]any{"id": fmt.Sprintf("ch_%d", seq), "invoice_id": in.InvoiceID, "amount": in.Amount,
				"currency": in.Currency, "card": "**** " + last4, "reference": key, "charged_at": at}
		},
	})
}

// transfer honours no key, and what it did cannot be undone.
func (d *Demo) transfer(w http.ResponseWriter, r *http.Request) {
	var in struct {
		PaymentID string `json:"payment_id"`
		To        string `json:"to_account"`
		Amount    int64  `json:"amount"`
		Currency  string `json:"currency"`
		Memo      string `json:"memo"`
		Reference string `json:"reference"`
	}
	if !readJSON(w, r, &in) {
		return
	}
	if in.PaymentID == "" || in.To == "" || in.Amount <= 0 || in.Currency == "" {
		writeError(w, http.StatusUnprocessableEntity, "payment_id, to_account, a positive amount in minor units and currency are required")
		return
	}
	key := reference(r, in.Reference)
	d.act(w, r, action{
		service: Transfers, businessID: in.PaymentID, key: key, status: http.StatusCreated,
		wantsLoss: strings.Contains(in.Memo, losePhrase),
		record: func(seq int64, at time.Time) any {
			return map[string]any{"id": fmt.Sprintf("tr_%d", seq), "payment_id": in.PaymentID, "to_account": in.To,
				"amount": in.Amount, "currency": in.Currency, "memo": in.Memo, "reference": key, "executed_at": at}
		},
	})
}
