package bench

import (
	"bytes"
	"fmt"
)

// request is a complete HTTP/1.1 request in which only a number of fixed width differs
// from one to the next: making one costs a copy.
type request struct {
	text []byte
	at   []int // where the number stands
}

const (
	digits      = 9
	placeholder = "#########"
)

// bareRequest posts straight to the effect, as an agent without a gateway would. run must
// be new for every measurement: it makes the refs distinct.
func bareRequest(addr, run string) request {
	return newRequest("/effects/"+bareSource, addr, "", arguments(run))
}

// callRequest calls a tool through the gateway; the number is the step.
func callRequest(addr, key, tool, run string) request {
	body := fmt.Sprintf(`{"run_id":"%s","step_id":"%s","args":%s}`, run, placeholder, arguments(run))
	return newRequest("/v1/tools/"+tool+"/calls", addr, "Authorization: Bearer "+key+"\r\n", body)
}

func arguments(run string) string {
	return fmt.Sprintf(`{"ref":"%s-%s","to":"someone@example.com","amount":129900,"currency":"EUR",`+
		`"memo":"An invoice for the work of last month, as agreed."}`, run, placeholder)
}

func newRequest(path, addr, headers, body string) request {
	text := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, addr, headers, len(body), body)
	r := request{text: text}
	for i := 0; ; {
		j := bytes.Index(text[i:], []byte(placeholder))
		if j < 0 {
			return r
		}
		r.at = append(r.at, i+j)
		i += j + digits
	}
}

func (r request) append(dst []byte, seq int) []byte {
	start := len(dst)
	dst = append(dst, r.text...)
	var number [digits]byte
	for i := digits - 1; i >= 0; i-- {
		number[i] = byte('0' + seq%10)
		seq /= 10
	}
	for _, at := range r.at {
		copy(dst[start+at:], number[:])
	}
	return dst
}
