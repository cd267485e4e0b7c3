package downstream

import (
	"net/http"
	"slices"
	"strings"

	"github.com/latchkey-gateway/latchkey/intent"
)

// Bounds of what a receipt keeps of an answer's headers.
const (
	maxHeaderValue = 8 << 10
	maxHeaders     = 32 // kept ones
)

// usual are the response headers that every receipt keeps: they describe the body or name
// the thing that was made. Besides these, only those that the tool declares.
var usual = []string{"content-type", "content-language", "content-disposition", "location", "etag", "last-modified", "link"}

// neverKept lists what a replay must not carry, also where a tool declares it: secrets, what
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
	keep := func(lower string) {
		values := o.Header[http.CanonicalHeaderKey(lower)]
		if len(values) == 0 || neverKept(lower) || slices.Contains(hop, lower) || len(out.Headers) >= maxHeaders {
			return
		}
		value := strings.Join(values, ", ")
		if len(value) > maxHeaderValue {
			return // half a value is worse than none
		}
		if out.Headers == nil {
			out.Headers = make(map[string]string, 4)
		}
		out.Headers[lower] = value
	}
	for _, name := range usual {
		keep(name)
	}
	for _, name := range t.kept {
		keep(name)
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
