package console

import (
	"fmt"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// night is what an operator may find at three in the morning: one of everything.
type night struct {
	looked, parked, wire, first, doubt, done, declined intent.Receipt
}

func (w *world) night(t testing.TB) night {
	t.Helper()
	now := time.Now()
	var n night

	lost := begun("7", "send_invoice_email", `{"invoice_id":"inv-2026-0117","to":"accounts@northwind.example","memo":"January, with the corrected VAT line","amount":9007199254740993.10}`, 4*time.Minute)
	lost.Sealed = nil
	n.looked = unknown(t, lost, 30*time.Second, intent.Plan{NextCheck: now.Add(47 * time.Second)})
	n.looked.Checks, n.looked.Evidence = 3, []byte(`{"at":"2026-11-30T03:00:00Z","request":"GET /emails?reference=8ed66352","http_status":200,"content_type":"application/json","proof":"absent","rule":"absent_when","body":{"length":11,"excerpt":"{\"data\":[]}"}}`)
	w.put(n.looked, intent.Executed, intent.Collapsed, intent.Pending, intent.Pending, intent.Mismatch)
	for i, after := range []time.Duration{65, 95, 170} {
		r := n.looked
		w.note(&r, intent.ActionLookup, intent.ActorGateway, []string{"no_answer", "http_status", "absent"}[i], r.Standing(),
			fmt.Appendf(nil, `{"http_status":%d}`, []int{0, 502, 200}[i]), r.CreatedAt.Add(after*time.Second))
	}

	card := begun("3", "charge_card", `{"customer":"cus_8841","amount":"129.00","currency":"EUR","card_number":"[redacted]"}`, 26*time.Hour)
	n.parked = unknown(t, card, 30*time.Second, intent.Plan{Parked: intent.ParkedByPolicy})
	w.put(n.parked, intent.Executed, intent.Pending)
	p := n.parked
	w.note(&p, intent.ActionPark, intent.ActorGateway, "policy", p.Standing(), nil, p.UnknownSince)

	n.first = completed(t, begun("w0", "wire_transfer", `{"iban":"DE02120300000000202051","name":"Northwind GmbH","amount":"1250.00","currency":"EUR","purpose":"invoice 2025-1101"}`, 30*24*time.Hour), `{"transfer":"tr_100"}`, 2*time.Second)
	w.put(n.first, intent.Executed)
	n.wire = awaiting(begun("w1", "wire_transfer", `{"iban":"DE02120300000000202051","name":"Northwind GmbH","amount":"12500.00","currency":"EUR","purpose":"invoice 2026-0117"}`, 9*time.Minute), 51*time.Minute)
	n.wire.ApprovedBy = []string{"otto"}
	w.put(n.wire, intent.Pending)
	r := n.wire
	w.note(&r, intent.ActionApprove, "otto", "agreed with finance by phone", "awaiting_approval 1.1", nil, now.Add(-6*time.Minute))
	w.put(awaiting(begun("w2", "wire_transfer", `{"iban":"FR7630006000011234567890189","name":"Acme\u202eEMCA","amount":"80.00","currency":"EUR"}`, time.Minute), 59*time.Minute), intent.Pending)

	n.doubt = completed(t, begun("9", "send_invoice_email", `{"invoice_id":"inv-2026-0099","to":"ap@contoso.example"}`, 50*time.Minute), `{"id":"em_771"}`, 8*time.Minute)
	n.doubt.Fence, n.doubt.Executions, n.doubt.Version = 2, 2, 5
	n.doubt.StartedAt = n.doubt.CreatedAt.Add(7 * time.Minute)
	n.doubt = n.doubt.Suspect(intent.DoubtLateAnswer, time.Time{})
	w.put(n.doubt, intent.Executed, intent.Pending)
	w.ended[n.doubt.Key] = []intent.Execution{{Key: n.doubt.Key, Fence: 1, StartedAt: n.doubt.CreatedAt, EndedAt: n.doubt.CreatedAt.Add(30 * time.Second), Status: intent.Unknown, Reason: "timeout", Replica: "gw-b", Region: "eu-west-1"}}
	d := n.doubt
	w.note(&d, intent.ActionReexecute, "otto", "the provider's dashboard showed nothing", "unknown 1.3", nil, d.StartedAt)
	w.note(&d, intent.ActionLateAnswer, intent.ActorGateway, "execution completed", d.Standing(), []byte(`{"fence":1,"status":"completed","outcome":{"http_status":200}}`), d.CreatedAt.Add(11*time.Minute))

	n.done = completed(t, begun("1", "send_invoice_email", `{"invoice_id":"inv-2026-0116","to":"billing@fabrikam.example"}`, 8*time.Minute), `{"id":"em_770","object":"email","created":1764543210123456789}`, 900*time.Millisecond)
	w.put(n.done, intent.Executed, intent.Replayed, intent.Replayed, intent.Replayed)
	no := awaiting(begun("w9", "wire_transfer", `{"iban":"XX","amount":"1"}`, 3*time.Hour), time.Hour)
	w.put(no, intent.Pending)
	var err error
	n.declined, err = no.Decline("operator", intent.ReasonDeclined, nil, no.CreatedAt.Add(10*time.Minute))
	n.declined = must(t, n.declined, err)
	w.put(n.declined)

	for i := range 48 {
		at := now.Add(-time.Duration(i) * 30 * time.Minute)
		add := func(kind, word, tool string, many int64) {
			if many > 0 {
				w.counts = append(w.counts, intentstore.Count{At: at, Tool: tool, Kind: kind, Word: word, N: many})
			}
		}
		wave := int64((i*7)%13) + 3
		add("attempt", "executed", "send_invoice_email", 40+wave*4)
		add("attempt", "collapsed", "send_invoice_email", wave)
		add("attempt", "replayed", "send_invoice_email", wave*2)
		add("attempt", "mismatch", "send_invoice_email", int64(i%11)/9)
		add("attempt", "step_conflict", "charge_card", int64(i%17)/15)
		add("attempt", "unknown", "send_invoice_email", int64(i%5)/3)
		add("audit", "park", "charge_card", int64(i%19)/17)
		add("audit", "approve", "wire_transfer", int64(i%7)/5)
		add("audit", "resolve", "charge_card", int64(i%23)/21)
	}
	return n
}
