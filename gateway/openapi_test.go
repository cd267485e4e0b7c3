package gateway_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/gin-gonic/gin"
)

// loadOpenAPI reads the description from the operators' listener and validates it.
func loadOpenAPI(t *testing.T, a *replica) *openapi3.T {
	t.Helper()
	a.do("GET", a.operators.URL+"/openapi.json", "", "").problem(401, "unauthenticated", "corrected")
	got := a.do("GET", a.operators.URL+"/openapi.json", viewer, "")
	doc, err := openapi3.NewLoader().LoadFromData(got.body)
	if err != nil || got.code != 200 {
		t.Fatalf("HTTP %d %v", got.code, err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Errorf("not valid: %v", err)
	}
	return doc
}

// elsewhere are paths that are not this package's to serve.
var elsewhere = regexp.MustCompile(`^/(metrics|console|mcp|proxy)\b`)

// Every route is described, and everything described is served, by the listener it says.
func TestOpenAPIIsWhatIsServed(t *testing.T) {
	t.Parallel()
	_, a := oneReplica(t)
	doc := loadOpenAPI(t, a)
	described := map[string][]string{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			for _, listener := range op.Extensions["x-latchkey-listeners"].([]any) {
				if !elsewhere.MatchString(path) {
					described[listener.(string)] = append(described[listener.(string)], method+" "+path)
				}
			}
			if op.OperationID == "" || op.Summary == "" {
				t.Errorf("%s %s has no id or summary", method, path)
			}
		}
	}
	parameter := regexp.MustCompile(`:(\w+)`)
	for listener, handler := range map[string]http.Handler{"agents": a.gateway.Agents(), "operators": a.gateway.Operators()} {
		var served []string
		for _, r := range handler.(*gin.Engine).Routes() {
			if !elsewhere.MatchString(r.Path) {
				served = append(served, r.Method+" "+parameter.ReplaceAllString(r.Path, "{$1}"))
			}
		}
		slices.Sort(served)
		slices.Sort(described[listener])
		if !slices.Equal(served, described[listener]) {
			t.Errorf("%s: served\n%s\ndescribed\n%s", listener, strings.Join(served, "\n"), strings.Join(described[listener], "\n"))
		}
	}
}

// What is really answered has the described status, media type, headers and schema, with no
// member that is not described.
func TestOpenAPIDescribesTheAnswers(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	doc := loadOpenAPI(t, a)
	closed(doc)
	check := func(path, method string, got reply) reply {
		t.Helper()
		op := doc.Paths.Value(path).GetOperation(method)
		described := op.Responses.Value(fmt.Sprint(got.code))
		if described == nil {
			t.Errorf("%s %s answers %d, which is not described: %s", method, path, got.code, got.body)
			return got
		}
		for name := range got.header {
			if !slices.Contains([]string{"Content-Type", "Content-Length", "Date", "Connection", "Cache-Control", "X-Accel-Buffering", "Idempotent-Replayed", "Preference-Applied"}, name) &&
				described.Value.Headers[headerName(described.Value.Headers, name)] == nil {
				t.Errorf("%s %s: the header %s of a %d is not described", method, path, name, got.code)
			}
		}
		media, _, _ := strings.Cut(got.header.Get("Content-Type"), ";")
		content := described.Value.Content[media]
		if content == nil {
			t.Errorf("%s %s: %s of a %d is not described", method, path, media, got.code)
			return got
		}
		bodies := []string{string(got.body)}
		if media == "application/x-ndjson" {
			bodies = strings.Split(strings.TrimSpace(string(got.body)), "\n")
		}
		for _, body := range bodies {
			var value any
			if err := json.Unmarshal([]byte(body), &value); err != nil {
				t.Errorf("%s %s: %v", method, path, err)
			} else if err := content.Schema.Value.VisitJSON(value); err != nil {
				t.Errorf("%s %s: %v\n%s", method, path, err, body)
			}
		}
		return got
	}
	const receipt, call = "/v1/receipts/{key}", "/v1/tools/{tool}/calls"
	decide := func(credential, key, verb, body string, headers ...string) {
		t.Helper()
		check(receipt+"/"+verb, "POST", a.decide(credential, key, verb, body, headers...))
	}
	check(call, "POST", a.call("mail", `{"id":1}`))
	check(call, "POST", a.call("mail", `{"id":1}`))
	check(call, "POST", a.call("mail", `{"id":1,"memo":"x"}`))
	check(call, "POST", a.call("mail", `{"id":2}`))
	check(call, "POST", a.call("mail", `{}`))
	check(call, "POST", a.call("search", `{"q":"x"}`))
	check(call, "POST", a.as(acme, "mail", `{"args":{"id":1}}`))
	check(call, "POST", a.as(viewer, "mail", `{}`))
	check(call, "POST", a.as("", "mail", `{}`))
	wire := *parseReceipt(t, check(call, "POST", a.as(acme, "wire", callBody("5", `{}`))).body).Key
	w.services.answer(answer(404, `{}`))
	check(call, "POST", a.as(acme, "mail", callBody("6", `{"id":1}`)))
	w.services.answer(answer(429, `{}`, "Retry-After", "7"))
	check(call, "POST", a.as(acme, "mail", callBody("7", `{"id":1}`)))
	key, etag := a.unknown("asked", "8")
	parked, parkedTag := a.unknown("mail", "9")

	check("/v1/tools", "GET", a.get("/v1/tools"))
	check("/v1/receipts", "GET", a.get("/v1/receipts?limit=2"))
	check("/v1/receipts", "GET", a.get("/v1/receipts?limit=x"))
	check(receipt, "GET", a.get("/v1/receipts/"+key))
	check(receipt, "GET", a.get("/v1/receipts/"+strings.Repeat("0", 64)))
	check("/v1/bulk/plan", "POST", a.do("POST", a.operators.URL+"/v1/bulk/plan", operator, `{"filter":{},"action":"resolve","outcome":"completed","reason":"x"}`))
	check("/v1/bulk/plan", "POST", a.do("POST", a.operators.URL+"/v1/bulk/plan", operator, `{}`))
	check("/v1/bulk/run", "POST", a.do("POST", a.operators.URL+"/v1/bulk/run", operator,
		fmt.Sprintf(`{"items":[{"key":%q,"etag":%q},{"key":%q,"etag":"1.1"}],"action":"wait","reason":"x"}`, key, etag, wire)))
	decide(operator, key, "wait", `{"reason":"x"}`)
	decide(operator, key, "resolve", `{"outcome":"completed","reason":"x"}`)
	decide(operator, key, "resolve", `{"outcome":"completed","reason":"x"}`, `If-Match: "9.9"`)
	decide(operator, key, "acknowledge", `{"reason":"x"}`)
	decide(viewer, key, "acknowledge", `{"reason":"x"}`)
	w.services.answer(answer(200, `{"found":true}`))
	decide(operator, key, "reconcile", "")
	decide(operator, parked, "reexecute", `{"reason":"x"}`, "If-Match: "+parkedTag)
	decide(operator, wire, "approve", `{"reason":"x"}`)
	decide(operator, wire, "decline", `{}`)
	check(receipt+"/attempts", "GET", a.get("/v1/receipts/"+key+"/attempts"))
	check(receipt+"/audit", "GET", a.get("/v1/receipts/"+key+"/audit"))
	check("/v1/stats", "GET", a.get("/v1/stats"))
	check("/v1/stats", "GET", a.get("/v1/stats?step=x"))
	check("/readyz", "GET", a.get("/readyz"))
}

// closed makes every object refuse members that it does not describe.
func closed(doc *openapi3.T) {
	done := map[*openapi3.Schema]bool{}
	var walk func(s *openapi3.SchemaRef)
	walk = func(s *openapi3.SchemaRef) {
		if s == nil || s.Value == nil || done[s.Value] {
			return
		}
		done[s.Value] = true
		if len(s.Value.Properties) > 0 {
			s.Value.AdditionalProperties.Has = new(false)
		}
		for _, p := range s.Value.Properties {
			walk(p)
		}
		for _, one := range slices.Concat(s.Value.OneOf, openapi3.SchemaRefs{s.Value.Items}) {
			walk(one)
		}
	}
	for _, s := range doc.Components.Schemas {
		walk(s)
	}
}

func headerName(described openapi3.Headers, name string) string {
	for have := range maps.Keys(described) {
		if http.CanonicalHeaderKey(have) == name {
			return have
		}
	}
	return ""
}
