package downstream

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"slices"

	"github.com/latchkey-gateway/latchkey/intent"
)

// hashTemplate makes Tool.Template: a hash of everything that the bytes of a request are made of
// besides the arguments. Secret headers are left out: a rotated token makes no other request.
func (t *Tool) hashTemplate() string {
	body := t.spec.Request.Template
	if v, err := intent.Parse(body); err == nil {
		body = v.AppendJSON(nil) // white space is none of the request's
	}
	var host, prefix, contentType string
	if t.target != nil {
		host, prefix = t.target.host, t.target.prefix
		for name, value := range t.target.spec.Headers {
			if http.CanonicalHeaderKey(name) == "Content-Type" {
				contentType = value
			}
		}
	}
	sum := sha256.New()
	for _, field := range []string{"1", t.Method, host, prefix, t.spec.Request.Path, string('0' + rune(t.request.body)), string(body), contentType, t.ForwardHeader} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(field)))
		sum.Write(length[:])
		sum.Write([]byte(field))
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// Template is 16 hex digits that change whenever the request made from the same arguments
// could: its method, address, template, or the header that carries the key. A downstream that
// dedupes on the key may refuse or repeat a request that differs from the first.
func (t *Tool) Template() string { return t.template }

// NeedsArgsAgain says whether redacted arguments are needed after the call. They must then be
// kept in some form.
func (t *Tool) NeedsArgsAgain() bool { return t.ArgsNeededBy() != "" }

// ArgsNeededBy names the setting that needs redacted arguments after the call: to execute
// after an approval or once more, or to look up. "" where nothing does.
func (t *Tool) ArgsNeededBy() string {
	hidden, r := t.Rules.Redact, t.rules
	switch {
	case len(hidden) == 0 || t.Class == intent.ReadOnly:
		return ""
	case t.Approval != nil:
		return "approval"
	case t.OnUnknown == RetryUnknown:
		return "on_unknown: retry"
	case t.Lookup == nil:
		return ""
	case t.Lookup.ReexecuteWhenAbsent:
		return "lookup.reexecute_when_absent"
	case t.asks.reveals(hidden):
		return "lookup.request"
	case r.completed.reveals(hidden), r.absent.reveals(hidden), r.result.reveals(hidden):
		return "a rule of lookup"
	}
	return ""
}

// reveals says whether one of the arguments, or a part of it, goes into the request.
func (r *request) reveals(redacted []intent.Pointer) bool {
	if r.body == bodyArgs {
		return true
	}
	for p := range r.parts() {
		if p.place == placeArg && overlap(redacted, p.arg) {
			return true
		}
	}
	return false
}

// overlap says whether one of the pointers names p, a part of it, or something around it.
func overlap(list []intent.Pointer, p intent.Pointer) bool {
	for _, other := range list {
		n := min(len(p), len(other))
		if slices.Equal(p[:n], other[:n]) {
			return true
		}
	}
	return false
}
