// Package demo stands in for the services that agents act on, so that `latchkey dev` has
// real HTTP effects to protect with nothing installed. It keeps a ledger: the downstream's
// own account of what it did, which no receipt can embellish.
//
// Services and what they do with a repeated request:
//
//	POST /emails                 mailer: honours nothing, every request is one more email
//	GET  /emails?reference=K     the emails sent under a reference: {"data":[...]}
//	POST /charges                card charger: dedupes on Idempotency-Key for 24 hours
//	GET  /charges?reference=K    likewise
//	GET  /contacts?q=W           CRM: search, harmless to repeat
//	GET  /contacts/{id}          one contact
//	PUT  /contacts/{id}          sets the given fields: the same request again changes nothing
//	POST /contacts/{id}/notes    every request is one more note
//	GET  /contacts/{id}/notes    its notes, ?reference=K narrows
//	POST /transfers              wire transfer: every request moves the money again
//	GET  /transfers?reference=K  the transfers made under a reference
//
// A reference is the key that the caller forwarded: Idempotency-Key, X-Reference, or a
// body member "reference".
//
// Control:
//
//	GET    /ledger               effects, newest first; ?service= &key= &business_id= &limit=
//	DELETE /ledger               forgets everything
//	POST   /faults               {"service":"emails","mode":"lose_answer","times":1}
//	GET    /faults, DELETE /faults
//
// A memo or note that contains "[lose the answer]" makes a service act and then drop the
// connection, so that a fault can be had through the gateway by arguments alone.
package demo
