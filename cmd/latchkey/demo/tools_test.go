package demo_test

import (
	"testing"

	"github.com/latchkey-gateway/latchkey/cmd/latchkey/demo"
	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/gateway/config"
	"github.com/latchkey-gateway/latchkey/intent"
)

// Every tool of the demo's config does on the demo's services what it is there for, and its
// key arrives with the effect.
func TestToolsReachTheirServices(t *testing.T) {
	t.Parallel()
	w := start(t, demo.Options{})
	o := options()
	o.DemoURL = w.url
	cfg, _, err := config.Parse("demo.yaml", demo.Config(o), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	catalogue, err := cfg.Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	client := downstream.NewClient(catalogue, downstream.Options{})
	defer client.Close()

	for i, c := range []struct {
		tool, args string
		status     intent.Status
		retry      intent.Retry
		service    string // whose ledger has the effect; "" for none
		lookup     string // finds it, given the key
	}{
		{"search_contacts", `{"q":"marlow freight"}`, intent.Completed, intent.RetryNever, "", ""},
		{"update_contact", `{"id":"c-1","status":"closed"}`, intent.Completed, intent.RetryNever, demo.Contacts, ""},
		{"send_invoice_email", `{"invoice_id":"inv-1","to":"a@example.com"}`, intent.Completed, intent.RetryNever, demo.Emails, "/emails?reference="},
		{"send_invoice_email", `{"invoice_id":"inv-1","to":"nobody"}`, intent.Rejected, intent.RetryCorrected, "", "/emails?reference="},
		{"send_invoice_email", `{"invoice_id":"inv-1","to":"b@example.com","memo":"[lose the answer]"}`, intent.Unknown, intent.RetryNever, demo.Emails, "/emails?reference="},
		{"charge_card", `{"invoice_id":"inv-1","card_number":"4242424242424242","amount":1200,"currency":"EUR"}`, intent.Completed, intent.RetryNever, demo.Charges, "/charges?reference="},
		{"charge_card", `{"invoice_id":"inv-1","card_number":"4000000000000002","amount":1200,"currency":"EUR"}`, intent.Rejected, intent.RetryCorrected, "", "/charges?reference="},
		{"add_note", `{"id":"c-2","text":"called back"}`, intent.Completed, intent.RetryNever, demo.Notes, "/contacts/c-2/notes?reference="},
		{"wire_transfer", `{"payment_id":"pay-1","to_account":"DE02","amount":500,"currency":"EUR"}`, intent.Completed, intent.RetryNever, demo.Transfers, "/transfers?reference="},
	} {
		args, err := intent.Parse([]byte(c.args))
		if err != nil {
			t.Fatal(err)
		}
		tool, ok := catalogue.Tool(c.tool)
		if !ok {
			t.Fatalf("there is no %s", c.tool)
		}
		if err := tool.Validate(args); err != nil {
			t.Errorf("%s %s: %v", c.tool, c.args, err)
			continue
		}
		call := downstream.Call{Tool: tool, Args: args, Key: intent.Key{31: byte(i)}}
		send := client.Execute
		if tool.Class == intent.ReadOnly {
			call.Key, send = intent.Key{}, client.Forward
		}
		seen := send(t.Context(), call)
		if v := downstream.Classify(tool, seen); v.Status != c.status || v.Retry != c.retry {
			t.Errorf("%s %s: %v, retry %v (HTTP %d, %v); want %v, %v", c.tool, c.args, v.Status, v.Retry, seen.HTTPStatus, seen.Err, c.status, c.retry)
		}
		effects := w.ledger("?key=" + call.Key.String()).Effects
		if (len(effects) == 1) != (c.service != "") || len(effects) == 1 && effects[0].Service != c.service {
			t.Errorf("%s %s: effects %+v, want one of %q", c.tool, c.args, effects, c.service)
		}
		if c.lookup == "" {
			continue
		}
		want := `{"data":[]}` + "\n"
		if len(effects) == 1 {
			want = `{"data":[` + string(effects[0].Record) + `]}` + "\n"
		}
		if got := w.must(200, "GET", c.lookup+call.Key.String(), "", ""); got != want {
			t.Errorf("%s %s: the lookup answers %q, want %q", c.tool, c.args, got, want)
		}
	}
}

// No tool of the demo is one that `latchkey check` calls unsafe.
func TestToolsPassTheAudit(t *testing.T) {
	t.Parallel()
	cfg, _, err := config.Parse("demo.yaml", demo.Config(options()), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	catalogue, err := cfg.Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	_, findings := catalogue.Audit()
	for _, f := range findings {
		t.Errorf("%s: %s %s: %s", f.Severity, f.Tool, f.Field, f.Msg)
	}
}
