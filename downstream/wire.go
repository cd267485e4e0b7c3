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
	bytes []byte
	body  []byte
}

// maxReused bounds what a message keeps for the next call.
const maxReused = 64 << 10

// compose writes the request for a call. What it cannot write it refuses before anything is
// sent.
func (m *message) compose(call *Call) *intent.Error {
	t := call.Tool
	f := filling{args: call.Args, runID: call.RunID, stepID: call.StepID}
	if call.Key != (intent.Key{}) {
		f.key = call.Key.String()
	}
	var err *intent.Error
	if m.body, err = t.request.appendBody(m.body[:0], &f); err != nil {
		return err
	}
	b := append(append(m.bytes[:0], t.Method...), ' ')
	b = append(b, t.target.prefix...)
	if b, err = t.request.appendTarget(b, &f); err != nil {
		return err
	}
	b = append(b, " HTTP/1.1\r\n"...)
	b = appendHeader(b, "Host", t.target.host)
	// A body that arrives compressed is decoded here anyway; asking for plain saves the work.
	b = append(b, "User-Agent: latchkey\r\nAccept-Encoding: identity\r\n"...)
	b = append(b, t.target.headers...)
	if t.request.body != bodyNone && !t.target.typed {
		b = append(b, "Content-Type: application/json\r\n"...)
	}
	// RFC 9110 §8.6: a length, also 0, where the method expects a body; none otherwise.
	if len(m.body) > 0 || t.Method == http.MethodPost || t.Method == http.MethodPut || t.Method == http.MethodPatch {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(len(m.body)), 10)
		b = append(b, "\r\n"...)
	}
	if t.ForwardHeader != "" && f.key != "" {
		b = appendHeader(b, t.ForwardHeader, f.key)
	}
	if call.Traceparent != "" && httpguts.ValidHeaderFieldValue(call.Traceparent) {
		b = appendHeader(b, "Traceparent", call.Traceparent)
	}
	b = append(b, "\r\n"...)
	m.bytes = append(b, m.body...)
	return nil
}

func appendHeader(b []byte, name, value string) []byte {
	b = append(append(b, name...), ": "...)
	return append(append(b, value...), "\r\n"...)
}
