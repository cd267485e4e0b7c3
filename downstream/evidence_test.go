package downstream

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestEvidenceHidesWhatIsRedacted: in the request, in the answer however it spells them, and
// in a rule's error.
func TestEvidenceHidesWhatIsRedacted(t *testing.T) {
	t.Parallel()
	const args = `{"card":{"number":"4111 1111/é\"1","pin":4217},"to":"a@example.com"}`
	bodies := map[string]string{
		"as it is":        `{"data":[],"card":"4111 1111/é\"1"}`,
		"escaped":         `{"data":[],"card":"4111 1111\/\u00e9\u00221"}`,
		"within a text":   `{"data":[],"note":"card 4111 1111/é\"1 declined"}`,
		"in a URL":        `{"data":[],"url":"/c?n=4111+1111%2F%C3%A9%221&m=4111%201111%2F%C3%A9%221"}`,
		"as a name":       `{"data":[],"4111 1111/é\"1":true}`,
		"as a number":     `{"data":[],"pin":4217}`,
		"in a number":     `{"data":[],"pin":14217.5}`,
		"as a text":       `{"data":[],"pin":"4217"}`,
		"a header's":      `{"data":[],"sent":"Bearer sk_live_hunter2"}`,
		"in HTML":         `4111 1111/é&#34;1`,
		"in what is not":  "\xff 4111 1111/é\"1",
		"in an error":     `{"data":7,"pin":"4217"}`,
		"at the very end": `{"pad":"` + strings.Repeat("x", maxExcerpt-20) + `4111 1111/é\"1"}`,
	}
	for name, body := range bodies {
		spec := lookupSpec()
		spec.Redact = []string{"/card"}
		spec.Lookup.Request.Path = "/emails/{args.to}?pin={args.card.pin}&ref={key}"
		spec.Lookup.CompletedWhen = "int(response.body.pin) > 0 && response.body.data == 'x' + response.body.pin"
		server := httptest.NewServer(asJSON(200, body))
		t.Cleanup(server.Close)
		cat, err := NewCatalogue([]Spec{{Name: "mail", BaseURL: server.URL, Headers: map[string]string{"Authorization": "Bearer sk_live_hunter2"}}}, []ToolSpec{spec})
		if err != nil {
			t.Fatal(err)
		}
		c := NewClient(cat, Options{})
		t.Cleanup(c.Close)
		tool, _ := cat.Tool("send")
		f := c.Lookup(t.Context(), call(t, tool, args))
		text := string(f.Evidence)
		for _, secret := range []string{"4111", "4217", "hunter2", "u00e9"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s: the evidence shows %s: %s", name, secret, text)
			}
		}
		if !strings.Contains(text, "a%40example.com?pin=[redacted]") || !strings.Contains(text, "[redacted]") {
			t.Errorf("%s: %s", name, text)
		}
		sum := sha256.Sum256([]byte(body))
		if strings.Contains(text, hex.EncodeToString(sum[:])) {
			t.Errorf("%s: the hash of a body with few unknown digits gives them away", name)
		}
	}
}

// TestEvidenceShowsTheRest: what holds nothing redacted is there as it came, with its hash.
func TestEvidenceShowsTheRest(t *testing.T) {
	t.Parallel()
	spec := lookupSpec()
	spec.Redact = []string{"/card"}
	body := `{"data":[], "n":9007199254740993}`
	_, e := lookup(t, spec, asJSON(200, body), `{"card":"4111"}`)
	if e.Body == nil || e.Body.Text != body || e.Body.Length != int64(len(body)) || e.Body.Masked || e.Body.SHA256 != fmt.Sprintf("%x", sha256.Sum256([]byte(body))) ||
		e.HTTPStatus != 200 || e.ContentType != "application/json" || e.Rule != "absent_when" {
		t.Errorf("%+v %+v", e, e.Body)
	}
	// A long one is cut between characters.
	_, e = lookup(t, lookupSpec(), asJSON(200, `{"data":["x`+strings.Repeat("é", maxExcerpt)+`"]}`), `{}`)
	if n := len(e.Body.Text); n > maxExcerpt || n < maxExcerpt-1 || strings.Contains(e.Body.Text, "\ufffd") || e.Body.SHA256 == "" {
		t.Errorf("%d bytes, %+v", n, e.Body.SHA256)
	}
	// One that is too long to be read keeps its length, and its hash where nothing is redacted.
	long := `{"data":["` + strings.Repeat("x", lookupCap) + `"]}`
	_, e = lookup(t, lookupSpec(), asJSON(200, long), `{}`)
	if e.Body.Length != int64(len(long)) || e.Body.SHA256 == "" || e.Body.Text != "" {
		t.Errorf("%+v", e.Body)
	}
	if _, e = lookup(t, spec, asJSON(200, long), `{"card":"4111"}`); e.Body.SHA256 != "" || !e.Body.Masked {
		t.Errorf("%+v", e.Body)
	}
	// Arguments that are known only as redacted may be anywhere in the answer.
	if _, e = lookup(t, spec, asJSON(200, body), `{"card":"[redacted]"}`); e.Body.SHA256 != "" || e.Body.Text != "" || !e.Body.Masked || e.Body.Length == 0 {
		t.Errorf("%+v", e.Body)
	}
	// No body, no excerpt.
	if _, e = lookup(t, spec, answer(404, http.Header{}, ""), `{"card":"4111"}`); e.Body != nil {
		t.Errorf("%+v", e.Body)
	}
}
