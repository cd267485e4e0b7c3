package downstream

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const emailSchema = `{"type":"object","required":["invoice_id","to"],"properties":{"invoice_id":{"type":"string"},"to":{"type":"string"},"memo":{"type":"string"}}}`

// safeSpec is the tool of CONTRACT.md, which has nothing to be found.
func safeSpec() ToolSpec {
	spec := emailSpec()
	spec.InputSchema = []byte(emailSchema)
	spec.Identity = []string{"/invoice_id", "/to"}
	spec.Normalise = map[string][]string{"/to": {"trim"}}
	spec.ForwardKey = &ForwardKeySpec{Header: "Idempotency-Key", Dedupes: true, For: 24 * time.Hour}
	spec.Lookup = &LookupSpec{Request: RequestSpec{Method: "GET", Path: "/emails?reference={key}"}, CompletedWhen: "true", AbsentWhen: "true", AbsenceIsProof: true}
	return spec
}

func TestAudit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		change   func(*ToolSpec)
		findings []string // severity field
	}{
		{"the contract's own example", func(*ToolSpec) {}, nil},
		{"parked for a person", func(s *ToolSpec) { s.Lookup, s.OnUnknown = nil, "park" }, nil},
		{"retried where it is deduped", func(s *ToolSpec) { s.Lookup, s.OnUnknown = nil, "retry" }, nil},
		{"idempotent and retried", func(s *ToolSpec) { s.Class, s.Lookup, s.ForwardKey, s.OnUnknown = "idempotent", nil, nil, "retry" }, nil},
		{"lookup without one", func(s *ToolSpec) { s.Lookup, s.OnUnknown = nil, "lookup" }, []string{"error on_unknown"}},
		{"idempotent lookup without one", func(s *ToolSpec) { s.Class, s.Lookup, s.OnUnknown = "idempotent", nil, "lookup" }, []string{"error on_unknown"}},
		{"retry without dedupe", func(s *ToolSpec) { s.Lookup, s.OnUnknown, s.ForwardKey.Dedupes = nil, "retry", false }, []string{"error on_unknown"}},
		{"retry without a window", func(s *ToolSpec) { s.Lookup, s.OnUnknown, s.ForwardKey.For = nil, "retry", 0 }, []string{"error forward_key.for"}},
		{"retry with too short a window", func(s *ToolSpec) { s.Lookup, s.OnUnknown, s.ForwardKey.For = nil, "retry", time.Second }, []string{"error forward_key.for"}},
		{"dedupes without a header", func(s *ToolSpec) { s.Lookup, s.ForwardKey.Header = nil, "" }, []string{"error forward_key.header"}},
		{"GET that acts", func(s *ToolSpec) { s.Request.Method = "GET" }, []string{"error request.method"}},
		{"volatile identity", func(s *ToolSpec) { s.Volatile = []string{"/to"} }, []string{"error volatile"}},
		{"volatile around identity", func(s *ToolSpec) {
			s.InputSchema, s.Identity, s.Volatile, s.Normalise = []byte(`{"$ref":"#/$defs/a","$defs":{"a":{}}}`), []string{"/a/b"}, []string{"/a"}, nil
		}, []string{"error volatile"}},
		{"identity not in the schema", func(s *ToolSpec) { s.Identity = []string{"/invoice"} }, []string{"warning identity"}},
		{"identity not required", func(s *ToolSpec) { s.Identity = []string{"/memo"} }, []string{"warning identity"}},
		{"identity without a schema", func(s *ToolSpec) { s.InputSchema = nil }, []string{"warning input_schema"}},
		{"redact misspelt", func(s *ToolSpec) { s.Redact = []string{"/card"} }, []string{"warning redact"}},
		{"volatile misspelt", func(s *ToolSpec) { s.Volatile = []string{"/requested_at"} }, []string{"warning volatile"}},
		{"normalise misspelt", func(s *ToolSpec) { s.Normalise = map[string][]string{"/too": {"trim"}} }, []string{"warning normalise"}},
		{"hot and effectful", func(s *ToolSpec) { s.Durability = "hot" }, []string{"warning durability"}},
		{"hot and idempotent", func(s *ToolSpec) { s.Class, s.Durability = "idempotent", "hot" }, nil},
		{"unguarded step", func(s *ToolSpec) { s.StepGuard = "off" }, []string{"warning step_guard"}},
		{"5xx not accepted", func(s *ToolSpec) { s.Statuses = map[int]string{503: "not_accepted", 500: "not_accepted_for_now"} }, []string{"warning statuses.500", "warning statuses.503"}},
		{"4xx not accepted", func(s *ToolSpec) { s.Statuses = map[int]string{404: "not_accepted", 409: "accepted"} }, nil},
		{"lookup by a key that is never told", func(s *ToolSpec) { s.ForwardKey = nil }, []string{"error lookup.request"}},
		{"the same without proof", func(s *ToolSpec) { s.ForwardKey, s.Lookup.AbsenceIsProof = nil, false }, []string{"warning lookup.request"}},
		{"key told in the request", func(s *ToolSpec) { s.ForwardKey, s.Request.Path = nil, "/emails?reference={key}" }, nil},
		{"lookup that asks nothing", func(s *ToolSpec) { s.Lookup.Request.Path = "/emails" }, []string{"error lookup.request"}},
		{"lookup by an argument", func(s *ToolSpec) { s.ForwardKey, s.Lookup.Request.Path = nil, "/emails?to={args.to}" }, nil},
		{"absence before the request is over", func(s *ToolSpec) { s.Lookup.SettleAfter = time.Second }, []string{"error lookup.settle_after"}},
		{"lookup that is not used", func(s *ToolSpec) { s.OnUnknown = "park" }, []string{"warning lookup"}},
		{"read_only POST", func(s *ToolSpec) { *s = emailSpec(); s.Class = "read_only" }, []string{"warning request.method"}},
		{"read_only with idle settings", func(s *ToolSpec) {
			*s = emailSpec()
			s.Class, s.Request.Method, s.Identity, s.OnUnknown, s.StepGuard = "read_only", "GET", []string{"/a"}, "park", "on"
		}, []string{"warning identity", "warning on_unknown", "warning step_guard"}},
		{"irreversible", func(s *ToolSpec) { s.Class = "irreversible" }, nil},
	}
	for _, tt := range tests {
		spec := safeSpec()
		tt.change(&spec)
		rows, findings := load(t, "http://x", spec).Audit()
		var got []string
		for _, f := range findings {
			got = append(got, string(f.Severity)+" "+f.Field)
			if f.Tool != "send" || f.Msg == "" {
				t.Errorf("%s: %+v", tt.name, f)
			}
		}
		if !slices.Equal(got, tt.findings) {
			t.Errorf("%s: %v, want %v\n%+v", tt.name, got, tt.findings, findings)
		}
		if len(rows) != 1 || rows[0].Tool != "send" || rows[0].Class != spec.Class {
			t.Errorf("%s: rows %+v", tt.name, rows)
		}
	}
}

func TestAuditRowsSayWhatARetryDoes(t *testing.T) {
	t.Parallel()
	row := func(change func(*ToolSpec)) AuditRow {
		spec := safeSpec()
		change(&spec)
		rows, _ := load(t, "http://x", spec).Audit()
		return rows[0]
	}
	tests := []struct {
		row  AuditRow
		want AuditRow
	}{
		{row(func(*ToolSpec) {}), AuditRow{"send", "effectful", "/invoice_id, /to", "Idempotency-Key, deduped for 24h0m0s", "lookup",
			"gets the first one's receipt; an unknown outcome is looked up from 1m0s on, and waits for a person after 24h0m0s"}},
		{row(func(s *ToolSpec) {
			s.OnUnknown, s.Lookup, s.ForwardKey, s.Identity, s.Volatile = "", nil, nil, nil, []string{"/memo"}
		}),
			AuditRow{"send", "effectful", "all arguments but /memo", "-", "park", "gets the first one's receipt; an unknown outcome waits for a person"}},
		{row(func(s *ToolSpec) { *s = emailSpec(); s.Class = "read_only" }), AuditRow{"send", "read_only", "-", "-", "-", "is forwarded again: harmless"}},
	}
	for _, tt := range tests {
		if tt.row != tt.want {
			t.Errorf("%+v\nwant %+v", tt.row, tt.want)
		}
	}
	if r := row(func(s *ToolSpec) { s.OnUnknown, s.Lookup = "retry", nil; s.ForwardKey.Dedupes = false }); !strings.Contains(r.Retry, "a second effect") || !strings.Contains(r.Forwarding, "not deduped") {
		t.Errorf("%+v", r)
	}
	if r := row(func(s *ToolSpec) { s.OnUnknown, s.Lookup = "retry", nil }); !strings.Contains(r.Retry, "the downstream dedupes it") {
		t.Errorf("%+v", r)
	}
	if r := row(func(s *ToolSpec) { s.Class = "irreversible" }); !strings.Contains(r.Retry, "approved once") {
		t.Errorf("%+v", r)
	}
}
