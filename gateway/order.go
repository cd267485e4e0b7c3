package gateway

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/latchkey-gateway/latchkey/gateway/once"
	"github.com/latchkey-gateway/latchkey/intent"
)

const (
	maxReason = 1000                // bytes
	maxPause  = 90 * 24 * time.Hour // that a person may put a check off
	// pauseUnsaid is how long is waited on when a person does not say how long.
	pauseUnsaid = time.Hour
)

// object reads a body that is one strict JSON object with no members but the allowed ones:
// a decision with a misspelt member would be another decision.
func (g *Gateway) object(c *gin.Context, allowed ...string) (intent.Value, *intent.Error) {
	body, bad := g.body(c)
	if bad != nil {
		return intent.Value{}, bad
	}
	v, err := intent.Parse(body)
	if err != nil {
		return v, intent.Errorf(intent.BadRequest, err, "The body is not strict JSON: "+strings.TrimPrefix(err.Error(), intent.ErrBadJSON.Error()+": ")+".")
	}
	if v.Kind() != intent.Object {
		return v, badRequest("The body must be a JSON object.")
	}
	return v, known(v, "The body", allowed...)
}

func known(v intent.Value, what string, allowed ...string) *intent.Error {
	for _, m := range v.Members() {
		if !slices.Contains(allowed, m.Name) {
			return badRequest(what + " has a member that is not one of " + strings.Join(allowed, ", ") + ".")
		}
	}
	return nil
}

// read takes a decision from a body.
func (v *verb) read(body intent.Value, d *decision) *intent.Error {
	var bad *intent.Error
	if d.Reason, bad = reason(body, v.brief); bad != nil {
		return bad
	}
	switch v.action {
	case intent.ActionResolve:
		d.resolution, bad = resolution(body)
	case intent.ActionWait:
		d.pause, bad = pause(body)
	case intent.ActionApprove:
		d.fingerprint, bad = fingerprint(body)
	}
	return bad
}

// reason reads why. Only what decides nothing may go without one.
func reason(body intent.Value, brief bool) (string, *intent.Error) {
	v := body.Member("reason")
	if !v.Exists() && brief {
		return "asked for by a person", nil
	}
	s := strings.TrimSpace(v.Text())
	if v.Kind() != intent.String || s == "" {
		return "", badRequest(`reason is required: say in a sentence why, such as "reason":"seen in the provider's sent folder". It is kept in the audit.`)
	}
	if len(s) > maxReason || strings.ContainsRune(s, 0) {
		return "", badRequest("reason is at most " + strconv.Itoa(maxReason) + " bytes of text.")
	}
	return s, nil
}

func resolution(body intent.Value) (once.Resolution, *intent.Error) {
	var r once.Resolution
	switch outcome := body.Member("outcome"); outcome.Text() {
	case "completed":
		r.Status = intent.Completed
	case "rejected":
		r.Status = intent.Rejected
	default:
		return r, badRequest("outcome is completed (it happened) or rejected (it did not).")
	}
	switch v := body.Member("retry"); {
	case !v.Exists():
	case r.Status == intent.Rejected && v.Text() == "same_key":
		r.Retry = intent.RetrySameKey
	case r.Status == intent.Rejected && v.Text() == "corrected":
		r.Retry = intent.RetryCorrected
	default:
		return r, badRequest("retry goes with outcome rejected and is same_key (the same call may act) or corrected (only a changed one may).")
	}
	result := body.Member("result")
	empty := result.Kind() == 0 || result.Kind() == intent.Null || result.Kind() == intent.Object && len(result.Members()) == 0
	if r.Status == intent.Rejected && !empty {
		return r, badRequest("result goes with outcome completed: what did not happen has none.")
	}
	if r.Status == intent.Completed && result.Exists() && result.Kind() != intent.Null {
		r.Result = result.AppendJSON(nil)
	}
	return r, nil
}

func pause(body intent.Value) (time.Duration, *intent.Error) {
	v := body.Member("for")
	if !v.Exists() {
		return pauseUnsaid, nil
	}
	d, err := time.ParseDuration(v.Text())
	if v.Kind() != intent.String || err != nil || d < time.Second || d > maxPause {
		return 0, badRequest(`for is how long until the next check, from 1s to 2160h, such as "for":"1h30m".`)
	}
	return d, nil
}

func fingerprint(body intent.Value) (intent.Fingerprint, *intent.Error) {
	v := body.Member("fingerprint")
	if !v.Exists() {
		return intent.Fingerprint{}, nil
	}
	digits, ok := strings.CutPrefix(v.Text(), "sha256:")
	key, err := intent.ParseKey(digits)
	if !ok || v.Kind() != intent.String || err != nil || key == (intent.Key{}) { // zero would mean "not given"
		return intent.Fingerprint{}, badRequest("fingerprint is the receipt's intent.fingerprint as it was shown: sha256: and 64 hex digits.")
	}
	return intent.Fingerprint(key), nil
}

const sendIfMatch = `Read the receipt and send its ETag along, such as If-Match: "1.2". Then the decision is refused if the receipt has moved meanwhile.`

// ifMatch reads the version that a person saw (RFC 9110 §13.1.1); nil: whatever stands. A
// weak tag never matches, as the RFC says; a list would leave open what was seen.
func ifMatch(h http.Header, required bool) (*once.Tag, *intent.Error) {
	values := h.Values("If-Match")
	value := strings.TrimSpace(strings.Join(values, ","))
	switch {
	case len(values) == 0 || value == "*":
		if required {
			return nil, intent.Errorf(intent.PreconditionRequired, nil, "This needs If-Match with the version that was seen. "+sendIfMatch)
		}
		return nil, nil
	case strings.Contains(value, ","):
		return nil, badRequest("If-Match names several versions. " + sendIfMatch)
	case strings.HasPrefix(value, "W/"):
		return nil, intent.Errorf(intent.PreconditionFailed, nil, "A weak tag never matches. "+sendIfMatch)
	case len(value) < 2 || value[0] != '"' || strings.IndexByte(value[1:], '"') != len(value)-2:
		return nil, badRequest("If-Match is not a tag in quotes. " + sendIfMatch)
	}
	tag, ok := parseTag(value[1 : len(value)-1])
	if !ok {
		return nil, intent.Errorf(intent.PreconditionFailed, nil, "If-Match names no version that this receipt ever had. "+sendIfMatch)
	}
	return &tag, nil
}

// parseTag reads "<fence>.<version>" without quotes.
func parseTag(s string) (once.Tag, bool) {
	fence, version, _ := strings.Cut(s, ".")
	f, err1 := strconv.ParseUint(fence, 10, 64)
	v, err2 := strconv.ParseUint(version, 10, 64)
	tag := once.Tag{Fence: f, Version: v}
	return tag, err1 == nil && err2 == nil && strconv.FormatUint(f, 10)+"."+strconv.FormatUint(v, 10) == s
}
