package console

import (
	"strings"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
)

func TestPagesRender(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lost := w.put(unknown(t, begun("1", "send_invoice_email", `{"invoice_id":"inv-1","amount":9007199254740993}`, time.Minute), 31*time.Second, intent.Plan{NextCheck: time.Now().Add(time.Minute)}), intent.Executed, intent.Pending)
	w.put(awaiting(begun("2", "wire_transfer", `{"iban":"DE1","amount":1}`, time.Minute), time.Hour), intent.Pending)
	v := w.signIn(t, operatorKey)
	for _, path := range []string{"/attention", "/approvals", "/receipts/" + lost.Key.String(), "/search?q=", "/run?id=run-42", "/tools", "/overview", "/bulk", "/bulk?q=&choice=happened"} {
		if body := v.page(path); !strings.Contains(body, "</html>") {
			t.Errorf("%s is cut short", path)
		}
	}
}
