package gateway

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/intent"
)

func badRequest(public string) *intent.Error { return intent.Errorf(intent.BadRequest, nil, public) }

// parseCall reads the body of a call into r. Unknown members are refused: a misspelt
// "occurrence" would change what is meant.
func parseCall(body []byte, r *intent.Call) *intent.Error {
	v, err := intent.Parse(body)
	if err != nil {
		return intent.Errorf(intent.BadRequest, err, "The body is not strict JSON: "+strings.TrimPrefix(err.Error(), intent.ErrBadJSON.Error()+": ")+".")
	}
	if v.Kind() != intent.Object {
		return badRequest("The body must be a JSON object.")
	}
	r.Args = intent.ObjectValue()
	for _, m := range v.Members() {
		switch m.Name {
		case "run_id", "step_id":
			if m.Value.Kind() != intent.String {
				return badRequest(m.Name + " must be a string.")
			}
			if wrong := intent.CheckID(m.Value.Text()); wrong != "" {
				return badRequest(m.Name + " " + wrong + ".")
			}
			if m.Name == "run_id" {
				r.RunID = m.Value.Text()
			} else {
				r.StepID = m.Value.Text()
			}
		case "occurrence":
			n, err := strconv.ParseUint(m.Value.Text(), 10, 32)
			if m.Value.Kind() != intent.Number || err != nil || n > intent.MaxOccurrence {
				return badRequest("occurrence must be a whole number from 0 to " + strconv.Itoa(intent.MaxOccurrence) + ".")
			}
			r.Occurrence = int(n)
		case "args":
			if m.Value.Kind() != intent.Object {
				return badRequest("args must be a JSON object.")
			}
			r.Args = m.Value
		case "idempotency_key":
			if m.Value.Kind() != intent.String {
				return badRequest("idempotency_key must be a string.")
			}
			if wrong := intent.CheckExplicit(m.Value.Text()); wrong != "" {
				return badRequest("idempotency_key " + wrong + ".")
			}
			r.Explicit = m.Value.Text()
		default:
			return badRequest("The body has a member that is not one of run_id, step_id, occurrence, args, idempotency_key. Arguments of the tool belong in args.")
		}
	}
	return nil
}

// explicitKey reads the Idempotency-Key header: a structured-field string (RFC 8941
// §3.3.3) or, as most clients send it, a bare token. The same key may be in the body.
func explicitKey(h http.Header, r *intent.Call) *intent.Error {
	values := h.Values("Idempotency-Key")
	if len(values) == 0 {
		return nil
	}
	if len(values) > 1 {
		return badRequest("There is more than one Idempotency-Key header.")
	}
	key, ok := unquote(strings.TrimSpace(values[0]))
	if !ok {
		return badRequest("The Idempotency-Key header is not a well-formed quoted string.")
	}
	if wrong := intent.CheckExplicit(key); wrong != "" {
		return badRequest("The Idempotency-Key header " + wrong + ".")
	}
	if r.Explicit != "" && r.Explicit != key {
		return badRequest("The Idempotency-Key header and the body's idempotency_key differ.")
	}
	r.Explicit = key
	return nil
}

// unquote takes the quotes off a structured-field string; a bare token stays as it is.
func unquote(s string) (string, bool) {
	if !strings.HasPrefix(s, `"`) {
		return s, true
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), i == len(s)-1
		case c == '\\':
			i++
			if i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", false
			}
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

// required checks that the call names its intention.
func required(r *once.Request) *intent.Error {
	keyless := r.Explicit == "" && (r.RunID == "" || r.StepID == "")
	if r.Tool.Class != intent.ReadOnly && keyless {
		return intent.Errorf(intent.KeyRequired, nil, r.Tool.Name+" has effects: the host program must send run_id and step_id, or an Idempotency-Key.")
	}
	if r.Tool.NeedsRunID && r.RunID == "" {
		return intent.Errorf(intent.KeyRequired, nil, r.Tool.Name+" sends the run along: run_id is required.")
	}
	if r.Tool.NeedsStepID && r.StepID == "" {
		return intent.Errorf(intent.KeyRequired, nil, r.Tool.Name+" sends the step along: step_id is required.")
	}
	return nil
}

// longestWait is what a number of seconds means that no time.Duration holds.
const longestWait = 1 << 31

// preferWait reads "Prefer: wait=N" (RFC 7240 §4.3), N in seconds. What is malformed is
// ignored, as the RFC says.
func preferWait(h http.Header) (time.Duration, bool) {
	for _, line := range h.Values("Prefer") {
		for preference := range strings.SplitSeq(line, ",") {
			preference, _, _ = strings.Cut(preference, ";")
			name, value, _ := strings.Cut(preference, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 64)
			return time.Duration(min(n, longestWait)) * time.Second, err == nil || errors.Is(err, strconv.ErrRange)
		}
	}
	return 0, false
}
