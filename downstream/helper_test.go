package downstream

import (
	"context"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
)

// emailSpec is an effectful tool to vary in tests.
func emailSpec() ToolSpec {
	return ToolSpec{Name: "send", Class: "effectful", Downstream: "mail",
		Request: RequestSpec{Method: "POST", Path: "/emails"}}
}

// load makes a catalogue of one downstream at url and the given tools.
func load(t testing.TB, url string, tools ...ToolSpec) *Catalogue {
	t.Helper()
	cat, err := NewCatalogue([]Spec{{Name: "mail", BaseURL: url, Timeout: 5 * time.Second}}, tools)
	if err != nil {
		t.Fatal(err)
	}
	return cat
}

// client makes a client for one tool at url.
func client(t testing.TB, url string, spec ToolSpec, opts Options) (*Client, *Tool) {
	t.Helper()
	cat := load(t, url, spec)
	c := NewClient(cat, opts)
	t.Cleanup(c.Close)
	tool, _ := cat.Tool(spec.Name)
	return c, tool
}

func parse(t testing.TB, text string) intent.Value {
	t.Helper()
	v, err := intent.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// call makes a call with a key and the given arguments.
func call(t testing.TB, tool *Tool, args string) Call {
	return Call{Tool: tool, Args: parse(t, args), Key: intent.Key{1, 2, 3}, RunID: "run-42", StepID: "7"}
}

// execute runs one call and classifies it.
func execute(t testing.TB, c *Client, tool *Tool, args string) (Observed, Verdict) {
	t.Helper()
	o := c.Execute(context.Background(), call(t, tool, args))
	return o, Classify(tool, o)
}

func answer(status int, header http.Header, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		maps.Copy(w.Header(), header)
		w.WriteHeader(status)
		w.Write([]byte(body))
	}
}
