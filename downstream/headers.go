package downstream

import (
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/latchkey-gateway/latchkey/intent"
)

// Bounds of what a receipt keeps of an answer's headers.
const (
	maxHeaderValue = 8 << 10
	maxHeaders     = 32 // kept ones
)

// keptHeader is a header that a receipt keeps, in both spellings.
type keptHeader struct{ lower, canonical string }

func keep(name string) keptHeader {
	return keptHeader{strings.ToLower(name), http.CanonicalHeaderKey(name)}
}

// usual are the response headers that every receipt keeps: they describe the body or name
// the thing that was made. Besides these, only those that the tool declares.
var usual = []keptHeader{keep("Content-Type"), keep("Content-Language"), keep("Content-Disposition"), keep("Location"),
	keep("ETag"), keep("Last-Modified"), keep("Link")}

// neverKept lists what a replay must not carry, so no tool can declare it: secrets, and what
// belonged to one connection, one moment or one encoding of the body.
func neverKept(lower string) bool {
	switch lower {
	case "connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
		"set-cookie", "set-cookie2", "authorization", "www-authenticate", "proxy-authenticate", "proxy-authorization",
		"authentication-info", "date", "age", "retry-after", "content-length", "content-encoding":
		return true
	}
	return strings.HasPrefix(lower, "ratelimit") || strings.HasPrefix(lower, "x-ratelimit") || strings.HasPrefix(lower, "x-rate-limit")
}

// outcome is the part of a whole answer that a receipt keeps.
func (t *Tool) outcome(o Observed) *intent.Outcome {
	out := &intent.Outcome{HTTPStatus: o.HTTPStatus, Body: o.Body, Truncated: o.Truncated, Length: o.Length, SHA256: o.SHA256}
	hop := connectionOptions(o.Header)
	for _, list := range [2][]keptHeader{usual, t.kept} {
		for _, name := range list {
			values := o.Header[name.canonical]
			if len(values) == 0 || slices.Contains(hop, name.lower) || len(out.Headers) >= maxHeaders {
				continue
			}
			value := strings.Join(values, ", ")
			if len(value) > maxHeaderValue {
				continue // half a value is worse than none
			}
			if !utf8.ValidString(value) {
				value = latin1(value) // what such bytes are, when they are anything (RFC 9110 §5.5)
			}
			if out.Headers == nil {
				out.Headers = make(map[string]string, 4)
			}
			out.Headers[name.lower] = value
		}
	}
	return out
}

// connectionOptions are the headers that Connection names: they belong to the hop.
func connectionOptions(h http.Header) []string {
	var names []string
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			names = append(names, strings.ToLower(strings.TrimSpace(name)))
		}
	}
	return names
}

func latin1(s string) string {
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}
