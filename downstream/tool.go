package downstream

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/net/http/httpguts"

	"github.com/latchkey-gateway/latchkey/intent"
)

// UnknownPolicy says what resolves an unknown outcome (DESIGN §5).
type UnknownPolicy string

const (
	// ParkUnknown: a person resolves it.
	ParkUnknown UnknownPolicy = "park"
	// RetryUnknown: executed again, which is safe only where the downstream dedupes on the
	// forwarded key and its window has not passed, or a second call leaves the same state.
	RetryUnknown UnknownPolicy = "retry"
	// LookupUnknown: the downstream is asked whether it happened.
	LookupUnknown UnknownPolicy = "lookup"
)

// Tool is a checked ToolSpec with the defaults of its class filled in. It is immutable and
// safe for concurrent use.
type Tool struct {
	Name        string
	Description string
	Class       intent.Class
	Durability  intent.Durability // zero for read_only tools: nothing is kept
	Rules       intent.Rules
	Schema      []byte // input_schema as JSON; nil: any object

	Downstream string
	Method     string
	Timeout    time.Duration // of one execution: connecting, sending and reading the answer

	ForwardHeader string        // header that carries the key; "" where it is not sent along
	Dedupes       bool          // the downstream acts once per forwarded key
	DedupesFor    time.Duration // for how long it remembers a key; 0: not known

	Statuses  map[int]string // what the provider means by a status, where it differs from DESIGN §5
	OnUnknown UnknownPolicy  // "" for read_only tools
	Lookup    *LookupSpec    // with defaults filled in; nil without one
	Approval  *ApprovalSpec  // nil where no person is asked

	NeedsRunID  bool // the request cannot be made without a run id
	NeedsStepID bool // the request cannot be made without a step id

	schema   *jsonschema.Schema // nil: any object
	request  *request
	asks     *request // the lookup's; nil without one
	target   *target
	rules    rules        // the lookup's
	kept     []keptHeader // response headers kept besides the usual
	template string
	spec     ToolSpec
}

// Host is the downstream's, with a port unless it is the scheme's.
func (t *Tool) Host() string { return t.target.host }

// Asks is the method of the tool's lookup; "" without one.
func (t *Tool) Asks() string {
	if t.asks == nil {
		return ""
	}
	return t.asks.method
}

// Words of a status override.
const (
	statusAccepted          = "accepted"
	statusNotAccepted       = "not_accepted"
	statusNotAcceptedForNow = "not_accepted_for_now"
	statusUnknown           = "unknown"
)

func newTool(spec ToolSpec, targets map[string]*target, at scope) *Tool {
	t := &Tool{Name: spec.Name, Description: spec.Description, Downstream: spec.Downstream, Statuses: spec.Statuses,
		Timeout: spec.Timeout, Schema: spec.InputSchema, spec: spec}

	var err error
	if spec.Class == "" {
		at.add("class", "is required: read_only, idempotent, effectful or irreversible")
	} else if t.Class, err = intent.ParseClass(spec.Class); err != nil {
		at.add("class", "%v", err)
	}
	if t.target = targets[spec.Downstream]; t.target == nil {
		at.add("downstream", "%q is not one of the downstreams", spec.Downstream)
	} else if t.Timeout == 0 {
		t.Timeout = t.target.spec.Timeout
	}
	if spec.Timeout != 0 {
		at.duration("timeout", spec.Timeout, time.Millisecond, maxTimeout)
	}

	t.setRules(at)
	if t.schema, err = compileSchema(spec.Name, spec.InputSchema); err != nil {
		at.add("input_schema", "%v", err)
	}
	t.request = parseRequest(spec.Request, at.in("request"))
	t.Method = t.request.method
	t.NeedsRunID, t.NeedsStepID = t.request.needs(placeRunID), t.request.needs(placeStepID)
	if t.Class == intent.ReadOnly && t.request.uses(placeKey) {
		at.add("request", "a read_only call has no key, so {key} cannot be used")
	}

	t.setForward(at)
	for code, word := range spec.Statuses {
		field := "statuses." + strconv.Itoa(code)
		if code < 200 || code > 599 {
			at.add(field, "is not a status of an answer (200 to 599)")
		}
		if word == "" {
			at.add(field, "is empty")
		}
		at.word(field, word, statusAccepted, statusNotAccepted, statusNotAcceptedForNow, statusUnknown)
	}
	for _, name := range spec.ResponseHeaders {
		if !httpguts.ValidHeaderFieldName(name) {
			at.add("response_headers", "%q is not a header name", name)
		} else if neverKept(strings.ToLower(name)) {
			at.add("response_headers", "%s is never kept in a receipt", name)
		} else {
			t.kept = append(t.kept, keep(name))
		}
	}
	t.setUnknown(at)
	t.setApproval(at)
	t.template = t.hashTemplate()
	return t
}

func (t *Tool) setRules(at scope) {
	spec := &t.spec
	t.Rules = intent.Rules{
		Tool:     spec.Name,
		Identity: at.pointers("identity", spec.Identity),
		Volatile: at.pointers("volatile", spec.Volatile),
		Redact:   at.pointers("redact", spec.Redact),
	}
	for _, text := range slices.Sorted(maps.Keys(spec.Normalise)) {
		at.pointers("normalise", []string{text})
		n, err := intent.ParseNormaliser(spec.Normalise[text])
		if err != nil {
			at.add("normalise."+text, "%v", err)
		}
		if t.Rules.Normalise == nil {
			t.Rules.Normalise = make(map[string]intent.Normaliser)
		}
		t.Rules.Normalise[text] = n
	}
	at.word("step_guard", spec.StepGuard, "on", "off")
	at.word("durability", spec.Durability, "durable", "hot")
	if t.Class == intent.ReadOnly {
		return
	}
	t.Rules.StepGuard = spec.StepGuard == "on" || spec.StepGuard == "" && t.Class >= intent.Effectful
	t.Durability = intent.Durable
	if spec.Durability == "hot" {
		t.Durability = intent.Hot
	}
}

func (t *Tool) setForward(at scope) {
	f := t.spec.ForwardKey
	if f == nil {
		return
	}
	switch name := http.CanonicalHeaderKey(f.Header); {
	case f.Header == "" && f.Dedupes: // loads; Audit says why it is unsafe
	case f.Header == "":
		at.add("forward_key.header", "is required, for instance %s", DefaultKeyHeader)
	case !httpguts.ValidHeaderFieldName(f.Header):
		at.add("forward_key.header", "%q is not a header name", f.Header)
	case ourHeaders[name] || name == "Content-Type":
		at.add("forward_key.header", "%s is set by latchkey itself", f.Header)
	case t.target != nil && t.target.has(name):
		at.add("forward_key.header", "%s is also among the headers of downstream %s", f.Header, t.Downstream)
	case t.Class == intent.ReadOnly:
		at.add("forward_key", "a read_only call has no key")
	default:
		t.ForwardHeader = name
	}
	if f.For < 0 {
		at.add("forward_key.for", "must not be negative")
	}
	t.Dedupes, t.DedupesFor = f.Dedupes, f.For
}

func (t *Tool) setUnknown(at scope) {
	spec := &t.spec
	at.word("on_unknown", spec.OnUnknown, string(LookupUnknown), string(RetryUnknown), string(ParkUnknown))
	if l := spec.Lookup; l != nil {
		filled := *l
		filled.SettleAfter = orDefault(l.SettleAfter, time.Minute)
		filled.Every = orDefault(l.Every, 5*time.Second)
		filled.GiveUpAfter = orDefault(l.GiveUpAfter, 24*time.Hour)
		in := at.in("lookup")
		in.duration("settle_after", filled.SettleAfter, time.Millisecond, 30*24*time.Hour)
		in.duration("every", filled.Every, 10*time.Millisecond, 24*time.Hour)
		in.duration("give_up_after", filled.GiveUpAfter, filled.Every, 365*24*time.Hour)
		if l.CompletedWhen == "" {
			in.add("completed_when", "is required: when does an answer prove that it happened?")
		}
		if l.AbsenceIsProof && l.AbsentWhen == "" {
			in.add("absence_is_proof", "needs absent_when")
		}
		if l.ReexecuteWhenAbsent && !l.AbsenceIsProof {
			in.add("reexecute_when_absent", "needs absence_is_proof: acting again is safe only where it is proved that it did not happen")
		}
		t.asks = parseRequest(l.Request, in.in("request"))
		if m := t.asks.method; m != "" && m != http.MethodGet && m != http.MethodHead && m != http.MethodPost {
			in.add("request.method", "a lookup only asks: GET, HEAD or POST")
		}
		t.rules = rules{
			completed: compile("completed_when", l.CompletedWhen, true, in),
			absent:    compile("absent_when", l.AbsentWhen, true, in),
			result:    compile("result", l.Result, false, in),
		}
		t.Lookup = &filled
	}
	if t.Class == intent.ReadOnly {
		return
	}
	switch t.OnUnknown = UnknownPolicy(spec.OnUnknown); {
	case t.OnUnknown != "":
	case t.Lookup != nil:
		t.OnUnknown = LookupUnknown
	case t.Class == intent.Idempotent:
		t.OnUnknown = RetryUnknown // a second call leaves the same state (DESIGN §6)
	default:
		t.OnUnknown = ParkUnknown
	}
}

func (t *Tool) setApproval(at scope) {
	a := t.spec.Approval
	if a == nil && t.Class != intent.Irreversible {
		return
	}
	if a != nil && t.Class == intent.ReadOnly {
		at.add("approval", "a read_only call changes nothing, so there is nothing to approve")
		return
	}
	if a == nil {
		a = &ApprovalSpec{}
	}
	t.Approval = &ApprovalSpec{Expires: orDefault(a.Expires, DefaultApproval), People: orDefault(a.People, 1)}
	at.number("approval.people", t.Approval.People, 1, 2)
	at.duration("approval.expires", t.Approval.Expires, time.Second, 30*24*time.Hour)
}

func (t *target) has(header string) bool {
	for name := range t.spec.Headers {
		if http.CanonicalHeaderKey(name) == header {
			return true
		}
	}
	return false
}
