package downstream

import (
	"net/http"
	"strconv"

	"golang.org/x/net/http/httpguts"

	"github.com/latchkey-gateway/latchkey/intent"
)

// message is one HTTP/1.1 request as the bytes that go on the wire, head and body in one
// piece, so that one write sends all of it. It is reused between calls.
type message struct {
	bytes    []byte
	body     []byte
	answerTo *http.Request // the request, as far as its answer's reader must know it
}

// maxReused bounds what a message keeps for the next call.
const maxReused = 64 << 10

// compose writes the request for a call. What it cannot write it refuses before anything is
// sent.
func (m *message) compose(call *Call) *intent.Error {
	return m.write(call, call.Tool.request, call.Tool.ForwardHeader)
}

// composeLookup writes the question whether a call has acted. The key is only where the
// template has it: a downstream that dedupes on the header could answer with what it
// remembers of the key instead of with what is.
func (m *message) composeLookup(call *Call) *intent.Error {
	return m.write(call, call.Tool.asks, "")
}

func (m *message) write(call *Call, r *request, keyHeader string) *intent.Error {
	t := call.Tool
	m.answerTo = r.answerTo
	f := filling{args: call.Args, runID: call.RunID, stepID: call.StepID}
	if call.Key != (intent.Key{}) {
		f.key = call.Key.String()
	}
	var err *intent.Error
	if m.body, err = r.appendBody(m.body[:0], &f); err != nil {
		return err
	}
	b := append(append(m.bytes[:0], r.method...), ' ')
	b = append(b, t.target.prefix...)
	if b, err = r.appendTarget(b, &f); err != nil {
		return err
	}
	b = append(b, " HTTP/1.1\r\n"...)
	b = appendHeader(b, "Host", t.target.host)
	// A body that arrives compressed is decoded here anyway; asking for plain saves the work.
	b = append(b, "User-Agent: latchkey\r\nAccept-Encoding: identity\r\n"...)
	b = append(b, t.target.headers...)
	if r.body != bodyNone && !t.target.typed {
		b = append(b, "Content-Type: application/json\r\n"...)
	}
	// RFC 9110 §8.6: a length, also 0, where the method expects a body; none otherwise.
	if len(m.body) > 0 || r.method == http.MethodPost || r.method == http.MethodPut || r.method == http.MethodPatch {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(len(m.body)), 10)
		b = append(b, "\r\n"...)
	}
	if keyHeader != "" && f.key != "" {
		b = appendHeader(b, keyHeader, f.key)
	}
	b = appendContext(b, "Traceparent", call.Traceparent)
	b = appendContext(b, "Tracestate", call.Tracestate)
	b = appendContext(b, "Baggage", call.Baggage)
	b = append(b, "\r\n"...)
	m.bytes = append(b, m.body...)
	return nil
}

// appendContext sends a caller's context along (W3C Trace Context and Baggage), as far as it
// can be a header.
func appendContext(b []byte, name, value string) []byte {
	if value == "" || !httpguts.ValidHeaderFieldValue(value) {
		return b
	}
	return appendHeader(b, name, value)
}

func appendHeader(b []byte, name, value string) []byte {
	b = append(append(b, name...), ": "...)
	return append(append(b, value...), "\r\n"...)
}
