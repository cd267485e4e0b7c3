package intent

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// AppendJSON writes the receipt as CONTRACT.md shows it. The same receipt always gives the
// same bytes; a replay differs in "replayed" alone.
func (r *Receipt) AppendJSON(b []byte, replayed bool) []byte {
	key := r.Key.String()
	if r.Key == (Key{}) { // read-only: forwarded, nothing kept
		b = append(b, `{"key":null`...)
	} else {
		b = append(b, `{"key":"`...)
		b = append(b, key...)
		b = append(b, '"')
	}
	b = appendText(b, `,"tool":`, r.Tool)
	b = appendText(b, `,"class":`, r.Class.String())
	b = appendText(b, `,"tenant":`, r.Tenant)
	b = appendText(b, `,"run_id":`, r.RunID)
	b = appendText(b, `,"step_id":`, r.StepID)
	b = appendInt(b, `,"occurrence":`, int64(r.Occurrence))
	b = appendText(b, `,"status":`, r.Status.String())
	b = appendBool(b, `,"replayed":`, replayed)
	b = appendBool(b, `,"durable":`, r.Durable)
	b = appendText(b, `,"retry":`, r.RetryWord().String())
	b = appendText(b, `,"advice":`, r.Advice())
	b = append(b, `,"outcome":`...)
	b = r.Outcome.AppendJSON(b)
	b = append(b, `,"intent":{"args":`...)
	if len(r.Args) == 0 {
		b = append(b, "null"...)
	} else {
		b = append(b, r.Args...)
	}
	b = appendText(b, `,"fingerprint":`, r.Fingerprint.String())
	b = append(b, '}')
	b = appendInt(b, `,"attempts":`, int64(r.Attempts))
	b = appendInt(b, `,"executions":`, int64(r.Executions))
	b = appendInt(b, `,"fence":`, int64(r.Fence))
	b = appendTime(b, `,"created_at":`, r.CreatedAt)
	b = appendTime(b, `,"started_at":`, r.StartedAt)
	b = appendTime(b, `,"settled_at":`, r.SettledAt)
	b = appendTime(b, `,"unknown_since":`, r.UnknownSince)
	b = appendText(b, `,"settled_by":`, r.SettledBy)
	b = appendText(b, `,"reason":`, r.Reason)
	b = append(b, `,"evidence":`...)
	b = append(b, r.evidence()...)
	b = appendText(b, `,"trace_id":`, r.TraceID())
	b = r.Recovery.append(b)
	if r.Key == (Key{}) {
		return append(b, `,"links":{}}`...)
	}
	b = append(b, `,"links":{"self":"/v1/receipts/`...)
	b = append(b, key...)
	b = append(b, `","attempts":"/v1/receipts/`...)
	b = append(b, key...)
	return append(b, `/attempts"}}`...)
}

// RetryWord is what the receipt tells a caller to do next: a key in flight may be asked
// for again (the call is joined), an unknown or final one never.
func (r *Receipt) RetryWord() Retry {
	switch r.Status {
	case Started:
		return RetrySameKey
	case Completed:
		if r.Class == ReadOnly {
			return RetrySameKey
		}
	case Rejected:
		return r.Retry
	}
	return RetryNever
}

// TraceID is the execution's trace id, 32 hex digits, or "".
func (r *Receipt) TraceID() string {
	if parts := strings.Split(r.Traceparent, "-"); len(parts) == 4 {
		return parts[1]
	}
	return ""
}

// ETag is `"<fence>.<version>"`, with the quotes.
func (r *Receipt) ETag() string { return fmt.Sprintf(`"%d.%d"`, r.Fence, r.Version) }

// Advice is one or two plain sentences for a language model: what is true, and what it may
// do. It never contains stored arguments or results.
func (r *Receipt) Advice() string {
	check := " Check GET /v1/receipts/" + r.Key.String() + "."
	switch r.Status {
	case AwaitingApproval:
		return r.Tool + " has not been done yet: a person must approve these exact arguments first. Do not repeat this action or send it in another form." + check
	case Started:
		return r.Tool + " is still running; its result is not known yet. Do not report it as done and do not send it in another form; the same call again will be joined to this one." + check
	case Unknown:
		return "The outcome of " + r.Tool + " is unknown: it may already have happened. Do not repeat this action or send it in another form." + check
	case Rejected:
		switch {
		case r.Reason == ReasonDeclined:
			return "A person declined " + r.Tool + ": it did not happen. Do not send the same call again; ask the person, or correct the arguments first."
		case r.Reason == ReasonExpired:
			return "Nobody approved " + r.Tool + " in time: it did not happen. Do not send the same call again; ask a person first."
		case r.Retry == RetrySameKey:
			return r.Tool + " was not done: nothing happened. It is safe to send exactly the same call again later."
		}
		return r.Tool + " was not accepted and did not happen. The same call would be refused again; correct the arguments before you call it again."
	}
	return ""
}

// append writes the recovery where there is one to tell of.
func (c *Recovery) append(b []byte) []byte {
	if c.NextCheck.IsZero() && c.Parked == 0 && c.Checks == 0 && c.Doubt == 0 && len(c.ApprovedBy) == 0 {
		return b
	}
	b = appendInt(b, `,"recovery":{"checks":`, int64(c.Checks))
	b = appendTime(b, `,"next_check_at":`, c.NextCheck)
	b = appendText(b, `,"parked":`, c.Parked.String())
	b = appendText(b, `,"doubt":`, c.Doubt.String())
	b = append(b, `,"approved_by":[`...)
	for i, by := range c.ApprovedBy {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendString(b, by)
	}
	return append(b, "]}"...)
}

// AppendJSON writes the outcome as a receipt shows it.
func (o *Outcome) AppendJSON(b []byte) []byte {
	if o == nil {
		return append(b, "null"...)
	}
	b = appendInt(b, `{"http_status":`, int64(o.HTTPStatus))
	b = append(b, `,"headers":{`...)
	for i, name := range sortedKeys(o.Headers) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(AppendString(b, name), ':')
		b = AppendString(b, o.Headers[name])
	}
	b = append(b, '}')
	switch {
	case o.Truncated:
		b = appendInt(b, `,"body":{"truncated":true,"length":`, o.Length)
		b = appendText(b, `,"sha256":`, o.SHA256)
		b = append(b, '}')
	case len(o.Body) == 0:
	case o.isJSON():
		b = append(b, `,"body":`...)
		b = append(b, bytes.TrimSpace(o.Body)...) // as sent: numbers stay exact
	case utf8.Valid(o.Body):
		b = appendText(b, `,"body_text":`, string(o.Body))
	default:
		b = append(b, `,"body_base64":"`...)
		b = base64.StdEncoding.AppendEncode(b, o.Body)
		b = append(b, '"')
	}
	return append(b, '}')
}

// isJSON: the body is JSON when it is valid and its media type says so or says nothing.
// One that is nested so deeply that readers would choke on the receipt around it is text.
func (o *Outcome) isJSON() bool {
	media, _, _ := strings.Cut(strings.ToLower(o.Headers["content-type"]), ";")
	media = strings.TrimSpace(media)
	return (media == "" || media == "application/json" || strings.HasSuffix(media, "+json")) &&
		utf8.Valid(o.Body) && json.Valid(o.Body) && depth(o.Body) <= MaxDepth
}

// depth counts how deeply the arrays and objects of valid JSON are nested.
func depth(b []byte) int {
	deepest, now, quoted := 0, 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			now++
			deepest = max(deepest, now)
		case c == ']' || c == '}':
			now--
		}
	}
	return deepest
}

func appendText(b []byte, label, s string) []byte { return AppendString(append(b, label...), s) }

func appendInt(b []byte, label string, n int64) []byte {
	return strconv.AppendInt(append(b, label...), n, 10)
}

func appendBool(b []byte, label string, v bool) []byte {
	return strconv.AppendBool(append(b, label...), v)
}

func appendTime(b []byte, label string, t time.Time) []byte {
	b = append(b, label...)
	if t.IsZero() {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}
