package downstream

import (
	"regexp"
	"testing"
	"time"
)

// TestTemplateChangesWithTheRequest: whatever changes a byte of the request changes it, and
// nothing else does.
func TestTemplateChangesWithTheRequest(t *testing.T) {
	t.Parallel()
	of := func(url string, headers map[string]string, change func(*ToolSpec)) string {
		spec := emailSpec()
		spec.ForwardKey = &ForwardKeySpec{Header: "Idempotency-Key", Dedupes: true, For: time.Hour}
		spec.Request.Template = []byte(`{"to":"{args.to}","n":1.0}`)
		if change != nil {
			change(&spec)
		}
		cat, err := NewCatalogue([]Spec{{Name: "mail", BaseURL: url, Headers: headers}}, []ToolSpec{spec})
		if err != nil {
			t.Fatal(err)
		}
		tool, _ := cat.Tool("send")
		return tool.Template()
	}
	const url = "http://mail.example/v1"
	first := of(url, nil, nil)
	if !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(first) {
		t.Errorf("template %q", first)
	}
	same := map[string]string{
		"the same":          of(url, nil, nil),
		"a token":           of(url, map[string]string{"Authorization": "Bearer a"}, nil),
		"a slash":           of(url+"/", nil, nil),
		"white space":       of(url, nil, func(s *ToolSpec) { s.Request.Template = []byte(`{ "to": "{args.to}", "n": 1.0 }`) }),
		"the case of verbs": of(url, nil, func(s *ToolSpec) { s.Request.Method = "post" }),
		"a header's case":   of(url, nil, func(s *ToolSpec) { s.ForwardKey.Header = "idempotency-key" }),
		"policies": of(url, nil, func(s *ToolSpec) {
			s.Timeout, s.Description, s.OnUnknown, s.Redact = time.Second, "d", "retry", []string{"/x"}
		}),
	}
	for name, got := range same {
		if got != first {
			t.Errorf("%s changes it", name)
		}
	}
	seen := map[string]string{first: "the first"}
	for name, got := range map[string]string{
		"host":         of("http://mail2.example/v1", nil, nil),
		"port":         of("http://mail.example:81/v1", nil, nil),
		"prefix":       of("http://mail.example/v2", nil, nil),
		"method":       of(url, nil, func(s *ToolSpec) { s.Request.Method = "PUT" }),
		"path":         of(url, nil, func(s *ToolSpec) { s.Request.Path = "/mails" }),
		"query":        of(url, nil, func(s *ToolSpec) { s.Request.Path = "/emails?k={key}" }),
		"a number":     of(url, nil, func(s *ToolSpec) { s.Request.Template = []byte(`{"to":"{args.to}","n":1}`) }),
		"order":        of(url, nil, func(s *ToolSpec) { s.Request.Template = []byte(`{"n":1.0,"to":"{args.to}"}`) }),
		"args":         of(url, nil, func(s *ToolSpec) { s.Request.Template, s.Request.Body = nil, "args" }),
		"none":         of(url, nil, func(s *ToolSpec) { s.Request.Template, s.Request.Body = nil, "none" }),
		"key header":   of(url, nil, func(s *ToolSpec) { s.ForwardKey.Header = "X-Key" }),
		"no key":       of(url, nil, func(s *ToolSpec) { s.ForwardKey = nil }),
		"content type": of(url, map[string]string{"content-type": "application/x"}, nil),
	} {
		if other, ok := seen[got]; ok {
			t.Errorf("%s is the same as %s", name, other)
		}
		seen[got] = name
	}
	if word, def := of(url, nil, func(s *ToolSpec) { s.Request.Template = nil }), of(url, nil, func(s *ToolSpec) { s.Request.Template, s.Request.Body = nil, "args" }); word != def {
		t.Error("the default body is another than the one it stands for")
	}
}

func TestWhatNeedsRedactedArguments(t *testing.T) {
	t.Parallel()
	rule := func(text string) func(*ToolSpec) {
		return func(s *ToolSpec) { s.Lookup.CompletedWhen = text }
	}
	tests := []struct {
		name   string
		change func(*ToolSpec)
		want   string
	}{
		{"a lookup by the key", func(*ToolSpec) {}, ""},
		{"nothing redacted", func(s *ToolSpec) { s.Redact, s.Approval = nil, &ApprovalSpec{} }, ""},
		{"parked", func(s *ToolSpec) { s.Lookup = nil }, ""},
		{"approved", func(s *ToolSpec) { s.Approval = &ApprovalSpec{} }, "approval"},
		{"irreversible", func(s *ToolSpec) { s.Class = "irreversible" }, "approval"},
		{"retried", func(s *ToolSpec) { s.OnUnknown = "retry" }, "on_unknown: retry"},
		{"idempotent", func(s *ToolSpec) { s.Class, s.Lookup = "idempotent", nil }, "on_unknown: retry"},
		{"executed again", func(s *ToolSpec) { s.Lookup.AbsenceIsProof, s.Lookup.ReexecuteWhenAbsent = true, true }, "lookup.reexecute_when_absent"},
		{"in the lookup's path", func(s *ToolSpec) { s.Lookup.Request.Path = "/e/{args.card.number}" }, "lookup.request"},
		{"around it", func(s *ToolSpec) { s.Lookup.Request.Path = "/e?c={args.card}" }, "lookup.request"},
		{"below it", func(s *ToolSpec) { s.Lookup.Request.Path = "/e?c={args.card.number.last}" }, "lookup.request"},
		{"beside it", func(s *ToolSpec) { s.Lookup.Request.Path = "/e?c={args.card.kind}&t={args.to}" }, ""},
		{"in its body", func(s *ToolSpec) {
			s.Lookup.Request.Method, s.Lookup.Request.Template = "POST", []byte(`{"a":[{"b":"{args.card.number}"}]}`)
		}, "lookup.request"},
		{"all of them in its body", func(s *ToolSpec) { s.Lookup.Request.Method = "POST" }, "lookup.request"},
		{"in a rule", rule("args.card.number == response.body.card"), "a rule of lookup"},
		{"in a rule, by name", rule("args['card']['number'] == response.body.card"), "a rule of lookup"},
		{"in a rule, computed", rule("args[response.body.name] == 1"), "a rule of lookup"},
		{"in a rule, as a whole", rule("size(args) == 1"), "a rule of lookup"},
		{"in a rule's loop", rule("response.body.all(x, x == args.card.number)"), "a rule of lookup"},
		{"beside it in a rule", rule("args.to == response.body.to && args.card.kind == 'x' && has(args.memo)"), ""},
		{"in the result", func(s *ToolSpec) { s.Lookup.Result = "args.card" }, "a rule of lookup"},
		{"read_only", func(s *ToolSpec) {
			s.Class, s.Request.Method, s.ForwardKey, s.Lookup = "read_only", "GET", nil, nil
		}, ""},
	}
	for _, tt := range tests {
		spec := lookupSpec()
		spec.Redact = []string{"/card/number"}
		tt.change(&spec)
		tool, _ := load(t, "http://x", spec).Tool("send")
		if got := tool.ArgsNeededBy(); got != tt.want || tool.NeedsArgsAgain() != (got != "") {
			t.Errorf("%s: needed by %q, want %q", tt.name, got, tt.want)
		}
	}
}
