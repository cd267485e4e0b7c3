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
	spec.Lookup = &LookupSpec{Request: RequestSpec{Method: "GET", Path: "/emails?reference={key}"}, CompletedWhen: "size(response.body.data) > 0", AbsentWhen: "size(response.body.data) == 0", AbsenceIsProof: true}
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
		{"no room for a retry", func(s *ToolSpec) { s.Lookup, s.OnUnknown, s.ForwardKey.For = nil, "retry", 11*time.Second }, []string{"warning forward_key.for"}},
		{"gives up before absence counts", func(s *ToolSpec) { s.Lookup.GiveUpAfter = 30 * time.Second }, []string{"error lookup.give_up_after"}},
		{"the same where absence proves nothing", func(s *ToolSpec) { s.Lookup.GiveUpAfter, s.Lookup.AbsenceIsProof = 30*time.Second, false }, []string{"warning lookup.give_up_after"}},
		{"no way to find absence", func(s *ToolSpec) { s.Lookup.AbsentWhen, s.Lookup.AbsenceIsProof = "", false }, nil},
		{"always done", func(s *ToolSpec) { s.Lookup.CompletedWhen = "true" }, []string{"error lookup.completed_when"}},
		{"done for every status", func(s *ToolSpec) { s.Lookup.CompletedWhen = "response.status >= 200" }, []string{"error lookup.completed_when"}},
		{"never done", func(s *ToolSpec) { s.Lookup.CompletedWhen = "1 == 2" }, []string{"warning lookup.completed_when"}},
		{"done with a status that does not count", func(s *ToolSpec) { s.Lookup.CompletedWhen = "response.status == 500 || response.status == 302" }, []string{"warning lookup.completed_when"}},
		{"two statuses at once", func(s *ToolSpec) { s.Lookup.CompletedWhen = "response.status == 200 && response.status == 201" }, []string{"warning lookup.completed_when"}},
		{"a search that answers is a find", func(s *ToolSpec) { s.Lookup.CompletedWhen = "response.status == 200" }, []string{"warning lookup.completed_when"}},
		{"an action that is there is a find", func(s *ToolSpec) {
			s.Lookup.Request.Path, s.Lookup.CompletedWhen, s.Lookup.AbsentWhen = "/emails/{key}", "response.status == 200", "response.status == 404 && response.body.code == 'none'"
		}, nil},
		{"always absent", func(s *ToolSpec) { s.Lookup.AbsentWhen = "true" }, []string{"error lookup.absent_when"}},
		{"never absent", func(s *ToolSpec) { s.Lookup.AbsentWhen = "response.status >= 500" }, []string{"error lookup.absent_when"}},
		{"absent by its status alone", func(s *ToolSpec) { s.Lookup.AbsentWhen = "response.status == 404" }, []string{"warning lookup.absent_when"}},
		{"the same where it proves nothing", func(s *ToolSpec) { s.Lookup.AbsentWhen, s.Lookup.AbsenceIsProof = "response.status == 404", false }, nil},
		{"both at once", func(s *ToolSpec) {
			s.Lookup.Request.Path, s.Lookup.CompletedWhen, s.Lookup.AbsentWhen = "/emails/{key}", "response.status < 300", "response.status == 201"
		}, []string{"error lookup.absent_when"}},
		{"a rule in error whatever the answer", func(s *ToolSpec) { s.Lookup.AbsentWhen = "1 / 0 == 1" }, nil},
		{"executed again when nobody can undo it", func(s *ToolSpec) { s.Class, s.Lookup.ReexecuteWhenAbsent = "irreversible", true }, []string{"warning lookup.reexecute_when_absent"}},
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
			"gets the first one's receipt; an unknown outcome is looked up, counts as not done if it is absent 1m0s later, and waits for a person after 24h0m0s"}},
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
	if r := row(func(s *ToolSpec) { s.Class = "irreversible" }); !strings.Contains(r.Retry, "approved once;") {
		t.Errorf("%+v", r)
	}
	if r := row(func(s *ToolSpec) { s.Approval = &ApprovalSpec{People: 2} }); !strings.Contains(r.Retry, "approved once by two people;") {
		t.Errorf("%+v", r)
	}
	if r := row(func(s *ToolSpec) { s.Lookup.ReexecuteWhenAbsent = true }); !strings.Contains(r.Retry, "is executed again if it is absent 1m0s later") {
		t.Errorf("%+v", r)
	}
	if r := row(func(s *ToolSpec) { s.Lookup.AbsenceIsProof = false }); !strings.HasSuffix(r.Retry, "is looked up, and waits for a person after 24h0m0s") {
		t.Errorf("%+v", r)
	}
}

func TestRisksSayWhatRemains(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*ToolSpec)
		risks  []string // field: words that the text has
	}{
		{"absence as proof", func(*ToolSpec) {}, []string{"lookup.absence_is_proof: 1m0s after its outcome became unknown"}},
		{"and acting on it", func(s *ToolSpec) { s.Lookup.ReexecuteWhenAbsent = true }, []string{"lookup.reexecute_when_absent: acts again by itself"}},
		{"deduped", func(s *ToolSpec) {}, []string{"lookup.absence_is_proof: unless the downstream still dedupes it"}},
		{"absence proves nothing", func(s *ToolSpec) { s.Lookup.AbsenceIsProof = false }, []string{"lookup.absence_is_proof: waits for a person"}},
		{"no absence", func(s *ToolSpec) { s.Lookup.AbsentWhen, s.Lookup.AbsenceIsProof = "", false }, []string{"lookup.absent_when: nothing ever proves"}},
		{"retry", func(s *ToolSpec) { s.OnUnknown = "retry" }, []string{"on_unknown: within 24h0m0s of the first call"}},
		{"idempotent", func(s *ToolSpec) { s.Class, s.OnUnknown = "idempotent", "retry" }, []string{"on_unknown: leaves the same state"}},
		{"park", func(s *ToolSpec) { s.OnUnknown = "park" }, nil},
		{"redacted and approved", func(s *ToolSpec) { s.OnUnknown, s.Redact, s.Approval = "park", []string{"/to"}, &ApprovalSpec{} },
			[]string{"approval: sees /to as [redacted]", "redact: approval needs /to again"}},
		{"redacted alone", func(s *ToolSpec) { s.OnUnknown, s.Redact = "park", []string{"/to"} }, nil},
		{"read_only", func(s *ToolSpec) { *s = emailSpec(); s.Class = "read_only" }, nil},
	}
	for _, tt := range tests {
		spec := safeSpec()
		tt.change(&spec)
		risks := load(t, "http://x", spec).Risks()
		if len(risks) != len(tt.risks) {
			t.Errorf("%s: %+v", tt.name, risks)
			continue
		}
		for i, r := range risks {
			field, words, _ := strings.Cut(tt.risks[i], ": ")
			if r.Field != field || !strings.Contains(r.Msg, words) || r.Severity != Note || r.Tool != "send" {
				t.Errorf("%s: %+v, want %s", tt.name, r, tt.risks[i])
			}
		}
	}
}
