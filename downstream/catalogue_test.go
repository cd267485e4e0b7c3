package downstream

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
)

func TestDefaultsOfEachClass(t *testing.T) {
	t.Parallel()
	tests := []struct {
		class      string
		durability intent.Durability
		guard      bool
		onUnknown  UnknownPolicy
		approval   time.Duration
	}{
		{"read_only", 0, false, "", 0},
		{"idempotent", intent.Durable, false, RetryUnknown, 0},
		{"effectful", intent.Durable, true, ParkUnknown, 0},
		{"irreversible", intent.Durable, true, ParkUnknown, time.Hour},
	}
	for _, tt := range tests {
		spec := emailSpec()
		spec.Class = tt.class
		tool, _ := load(t, "http://x", spec).Tool("send")
		if tool.Durability != tt.durability || tool.Rules.StepGuard != tt.guard || tool.OnUnknown != tt.onUnknown || tool.Timeout != 5*time.Second {
			t.Errorf("%s: %+v", tt.class, tool)
		}
		if (tool.Approval != nil) != (tt.approval > 0) || tool.Approval != nil && tool.Approval.Expires != tt.approval {
			t.Errorf("%s: approval %+v", tt.class, tool.Approval)
		}
	}
}

func TestWhatTheConfigSaysWins(t *testing.T) {
	t.Parallel()
	spec := emailSpec()
	spec.StepGuard, spec.Durability, spec.Timeout = "off", "hot", time.Second
	spec.ForwardKey = &ForwardKeySpec{Header: "x-idempotency-key", Dedupes: true, For: 24 * time.Hour}
	spec.Lookup = &LookupSpec{Request: RequestSpec{Method: "GET", Path: "/emails?reference={key}"}, CompletedWhen: "true"}
	spec.Identity, spec.Normalise = []string{"/to"}, map[string][]string{"/to": {"trim", "lowercase"}}
	tool, ok := load(t, "http://x", spec).Tool("send")
	if !ok || tool.Rules.StepGuard || tool.Durability != intent.Hot || tool.Timeout != time.Second || tool.ForwardHeader != "X-Idempotency-Key" ||
		!tool.Dedupes || tool.DedupesFor != 24*time.Hour || tool.OnUnknown != LookupUnknown {
		t.Errorf("%+v", tool)
	}
	if l := tool.Lookup; l.SettleAfter != time.Minute || l.Every != 5*time.Second || l.GiveUpAfter != 24*time.Hour {
		t.Errorf("lookup %+v", l)
	}
	if tool.Rules.Tool != "send" || tool.Rules.Identity[0].String() != "/to" || len(tool.Rules.Normalise["/to"]) != 2 {
		t.Errorf("rules %+v", tool.Rules)
	}
}

func TestToolsAreSorted(t *testing.T) {
	t.Parallel()
	var specs []ToolSpec
	for _, name := range []string{"c", "a", "b"} {
		spec := emailSpec()
		spec.Name = name
		specs = append(specs, spec)
	}
	cat := load(t, "http://x", specs...)
	var names []string
	for _, tool := range cat.Tools() {
		names = append(names, tool.Name)
	}
	if !slices.Equal(names, []string{"a", "b", "c"}) {
		t.Errorf("%v", names)
	}
	if d := cat.Downstreams(); len(d) != 1 || d[0].MaxInFlight != DefaultMaxInFlight || d[0].Breaker != defaultBreaker {
		t.Errorf("%+v", d)
	}
	if _, ok := cat.Tool("none"); ok {
		t.Error("a tool that there is not")
	}
}

// fields returns the fields that an error of NewCatalogue names.
func fields(err error) []string {
	var out []string
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if f, ok := errors.AsType[*FieldError](e); ok {
				out = append(out, f.Field)
			}
		}
	}
	return out
}

func TestEveryMistakeIsNamed(t *testing.T) {
	t.Parallel()
	tool := func(change func(*ToolSpec)) []ToolSpec {
		spec := emailSpec()
		change(&spec)
		return []ToolSpec{spec}
	}
	down := func(change func(*Spec)) []Spec {
		spec := Spec{Name: "mail", BaseURL: "https://mail.example.com/v1"}
		change(&spec)
		return []Spec{spec}
	}
	same := func(*Spec) {}
	fine := func(*ToolSpec) {}
	tests := []struct {
		field string
		downs []Spec
		tools []ToolSpec
	}{
		{"tools.send.class", down(same), tool(func(s *ToolSpec) { s.Class = "" })},
		{"tools.send.class", down(same), tool(func(s *ToolSpec) { s.Class = "harmless" })},
		{"tools.send.downstream", down(same), tool(func(s *ToolSpec) { s.Downstream = "post" })},
		{"tools.send.timeout", down(same), tool(func(s *ToolSpec) { s.Timeout = -1 })},
		{"tools.send.timeout", down(same), tool(func(s *ToolSpec) { s.Timeout = 48 * time.Hour })},
		{"tools.se nd", down(same), tool(func(s *ToolSpec) { s.Name = "se nd" })},
		{"tools.send", down(same), append(tool(fine), tool(fine)...)},
		{"tools.send.identity", down(same), tool(func(s *ToolSpec) { s.Identity = []string{"to"} })},
		{"tools.send.identity", down(same), tool(func(s *ToolSpec) { s.Identity = []string{""} })},
		{"tools.send.identity", down(same), tool(func(s *ToolSpec) { s.Identity = []string{"/a", "/a"} })},
		{"tools.send.volatile", down(same), tool(func(s *ToolSpec) { s.Volatile = []string{"/a~"} })},
		{"tools.send.normalise./to", down(same), tool(func(s *ToolSpec) { s.Normalise = map[string][]string{"/to": {"shout"}} })},
		{"tools.send.normalise", down(same), tool(func(s *ToolSpec) { s.Normalise = map[string][]string{"to": {"trim"}} })},
		{"tools.send.redact", down(same), tool(func(s *ToolSpec) { s.Redact = []string{"card"} })},
		{"tools.send.durability", down(same), tool(func(s *ToolSpec) { s.Durability = "maybe" })},
		{"tools.send.step_guard", down(same), tool(func(s *ToolSpec) { s.StepGuard = "true" })},
		{"tools.send.input_schema", down(same), tool(func(s *ToolSpec) { s.InputSchema = []byte(`{"type":"strnig"}`) })},
		{"tools.send.input_schema", down(same), tool(func(s *ToolSpec) { s.InputSchema = []byte(`{"a":1,"a":2}`) })},
		{"tools.send.input_schema", down(same), tool(func(s *ToolSpec) { s.InputSchema = []byte(`{"$ref":"https://example.com/s.json"}`) })},
		{"tools.send.input_schema", down(same), tool(func(s *ToolSpec) { s.InputSchema = []byte(`{"$ref":"file:///etc/passwd"}`) })},
		{"tools.send.input_schema", down(same), tool(func(s *ToolSpec) { s.InputSchema = []byte(`{"pattern":"(?=x)"}`) })},
		{"tools.send.request.method", down(same), tool(func(s *ToolSpec) { s.Request.Method = "" })},
		{"tools.send.request.method", down(same), tool(func(s *ToolSpec) { s.Request.Method = "CONNECT" })},
		{"tools.send.request.path", down(same), tool(func(s *ToolSpec) { s.Request.Path = "emails" })},
		{"tools.send.request.body", down(same), tool(func(s *ToolSpec) { s.Request.Body = "everything" })},
		{"tools.send.request.body", down(same), tool(func(s *ToolSpec) { s.Request.Method, s.Request.Body = "GET", "args" })},
		{"tools.send.request", down(same), tool(func(s *ToolSpec) { s.Class, s.Request.Path = "read_only", "/{key}" })},
		{"tools.send.forward_key.header", down(same), tool(func(s *ToolSpec) { s.ForwardKey = &ForwardKeySpec{} })},
		{"tools.send.forward_key.header", down(same), tool(func(s *ToolSpec) { s.ForwardKey = &ForwardKeySpec{Header: "a b"} })},
		{"tools.send.forward_key.header", down(same), tool(func(s *ToolSpec) { s.ForwardKey = &ForwardKeySpec{Header: "content-length"} })},
		{"tools.send.forward_key.for", down(same), tool(func(s *ToolSpec) { s.ForwardKey = &ForwardKeySpec{Header: "K", For: -1} })},
		{"tools.send.forward_key", down(same), tool(func(s *ToolSpec) { s.Class, s.ForwardKey = "read_only", &ForwardKeySpec{Header: "K"} })},
		{"tools.send.statuses.503", down(same), tool(func(s *ToolSpec) { s.Statuses = map[int]string{503: "fine"} })},
		{"tools.send.statuses.503", down(same), tool(func(s *ToolSpec) { s.Statuses = map[int]string{503: ""} })},
		{"tools.send.statuses.100", down(same), tool(func(s *ToolSpec) { s.Statuses = map[int]string{100: "accepted"} })},
		{"tools.send.response_headers", down(same), tool(func(s *ToolSpec) { s.ResponseHeaders = []string{"a b"} })},
		{"tools.send.on_unknown", down(same), tool(func(s *ToolSpec) { s.OnUnknown = "ignore" })},
		{"tools.send.lookup.completed_when", down(same), tool(func(s *ToolSpec) { s.Lookup = &LookupSpec{Request: RequestSpec{Method: "GET", Path: "/"}} })},
		{"tools.send.lookup.request.path", down(same), tool(func(s *ToolSpec) {
			s.Lookup = &LookupSpec{Request: RequestSpec{Method: "GET", Path: "{key}"}, CompletedWhen: "true"}
		})},
		{"tools.send.lookup.request.method", down(same), tool(func(s *ToolSpec) {
			s.Lookup = &LookupSpec{Request: RequestSpec{Method: "DELETE", Path: "/"}, CompletedWhen: "true"}
		})},
		{"tools.send.lookup.absence_is_proof", down(same), tool(func(s *ToolSpec) {
			s.Lookup = &LookupSpec{Request: RequestSpec{Method: "GET", Path: "/"}, CompletedWhen: "true", AbsenceIsProof: true}
		})},
		{"tools.send.lookup.reexecute_when_absent", down(same), tool(func(s *ToolSpec) {
			s.Lookup = &LookupSpec{Request: RequestSpec{Method: "GET", Path: "/"}, CompletedWhen: "true", ReexecuteWhenAbsent: true}
		})},
		{"tools.send.approval.people", down(same), tool(func(s *ToolSpec) { s.Approval = &ApprovalSpec{People: 3} })},
		{"tools.send.approval.people", down(same), tool(func(s *ToolSpec) { s.Approval = &ApprovalSpec{People: -1} })},
		{"tools.send.approval.expires", down(same), tool(func(s *ToolSpec) { s.Approval = &ApprovalSpec{Expires: -1} })},
		{"tools.send.approval", down(same), tool(func(s *ToolSpec) { s.Class, s.Approval = "read_only", &ApprovalSpec{} })},
		{"downstreams.mail.base_url", down(func(s *Spec) { s.BaseURL = "mail.example.com" }), tool(fine)},
		{"downstreams.mail.base_url", down(func(s *Spec) { s.BaseURL = "ftp://mail.example.com" }), tool(fine)},
		{"downstreams.mail.base_url", down(func(s *Spec) { s.BaseURL = "http://" }), tool(fine)},
		{"downstreams.mail.base_url", down(func(s *Spec) { s.BaseURL = "http://x?a=b" }), tool(fine)},
		{"downstreams.mail.base_url", down(func(s *Spec) { s.BaseURL = "http://x#a" }), tool(fine)},
		{"downstreams.mail.base_url", down(func(s *Spec) { s.BaseURL = "http://u:p@x" }), tool(fine)},
		{"downstreams.mail.base_url", down(func(s *Spec) { s.BaseURL = "http://bücher.example" }), tool(fine)},
		{"downstreams.mail.timeout", down(func(s *Spec) { s.Timeout = -1 }), tool(fine)},
		{"downstreams.mail.max_in_flight", down(func(s *Spec) { s.MaxInFlight = -1 }), tool(fine)},
		{"downstreams.mail.breaker.failure_ratio", down(func(s *Spec) { s.Breaker.FailureRatio = 2 }), tool(fine)},
		{"downstreams.mail.breaker.window", down(func(s *Spec) { s.Breaker.Window = 1 }), tool(fine)},
		{"downstreams.mail.headers.Transfer-Encoding", down(func(s *Spec) { s.Headers = map[string]string{"Transfer-Encoding": "chunked"} }), tool(fine)},
		{"downstreams.mail.headers.a b", down(func(s *Spec) { s.Headers = map[string]string{"a b": "c"} }), tool(fine)},
		{"downstreams.mail.headers.authorization", down(func(s *Spec) { s.Headers = map[string]string{"Authorization": "a", "authorization": "b"} }), tool(fine)},
		{"downstreams.mail.headers.X", down(func(s *Spec) { s.Headers = map[string]string{"X": "hunter2\r\nEvil: 1"} }), tool(fine)},
		{"downstreams.mail", append(down(same), down(same)...), tool(fine)},
		{"tools.send.forward_key.header", down(func(s *Spec) { s.Headers = map[string]string{"idempotency-key": "x"} }),
			tool(func(s *ToolSpec) { s.ForwardKey = &ForwardKeySpec{Header: "Idempotency-Key"} })},
	}
	for _, tt := range tests {
		_, err := NewCatalogue(tt.downs, tt.tools)
		if got := fields(err); !slices.Contains(got, tt.field) || len(got) != 1 {
			t.Errorf("want the one mistake in %s, got %v: %v", tt.field, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error shows a header's value: %v", err)
		}
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	t.Parallel()
	_, err := NewCatalogue([]Spec{{Name: "mail", BaseURL: "nowhere"}}, []ToolSpec{
		{Name: "a", Downstream: "mail", Request: RequestSpec{Method: "POST", Path: "x"}},
		{Name: "b", Class: "effectful", Downstream: "none", Request: RequestSpec{Method: "POST", Path: "/{args}"}},
	})
	got := fields(err)
	slices.Sort(got)
	if want := []string{"downstreams.mail.base_url", "tools.a.class", "tools.a.request.path", "tools.b.downstream", "tools.b.request.path"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
