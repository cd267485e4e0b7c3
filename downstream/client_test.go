package downstream

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/latchkey-gateway/latchkey/intent"
)

func TestExecuteSendsWhatTheToolSays(t *testing.T) {
	t.Parallel()
	type seen struct {
		line, body, from string
		header           http.Header
		length           int64
	}
	var mu sync.Mutex
	var all []seen
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, seen{r.Method + " " + r.RequestURI, string(b), r.RemoteAddr, r.Header, r.ContentLength})
		io.WriteString(w, `{"id":"em_1"}`)
	}))
	t.Cleanup(server.Close)
	spec := emailSpec()
	spec.Request.Path = "/emails/{args.to}?key={key}&step={step_id}&memo={args.memo}&n={args.n}"
	spec.ForwardKey = &ForwardKeySpec{Header: "idempotency-key", Dedupes: true}
	cat, err := NewCatalogue([]Spec{{Name: "mail", BaseURL: server.URL + "/v1/", Headers: map[string]string{"authorization": "Bearer s3cret"}}}, []ToolSpec{spec})
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(cat, Options{})
	t.Cleanup(c.Close)
	tool, _ := cat.Tool("send")

	const args = `{"to":"a/b c@x.com","n":9007199254740993,"f":1.0}`
	const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for range 3 {
		in := call(t, tool, args)
		in.Traceparent = traceparent
		o := c.Execute(t.Context(), in)
		if v := Classify(tool, o); v.Status != intent.Completed || string(v.Outcome.Body) != `{"id":"em_1"}` {
			t.Fatalf("%+v %+v", o, v)
		}
	}
	if len(all) != 3 {
		t.Fatalf("%d requests for 3 calls", len(all))
	}
	key := intent.Key{1, 2, 3}.String()
	for _, r := range all {
		if want := "POST /v1/emails/a%2Fb%20c%40x.com?key=" + key + "&step=7&n=9007199254740993"; r.line != want {
			t.Errorf("request line %q, want %q", r.line, want)
		}
		if r.body != args || r.length != int64(len(args)) {
			t.Errorf("body %q of length %d, want %q", r.body, r.length, args)
		}
		for name, want := range map[string]string{"Idempotency-Key": key, "Traceparent": traceparent, "Authorization": "Bearer s3cret",
			"User-Agent": "latchkey", "Content-Type": "application/json", "Accept-Encoding": "identity"} {
			if got := r.header[name]; len(got) != 1 || got[0] != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if r.from != all[0].from {
			t.Error("the connection was not reused")
		}
	}
}
