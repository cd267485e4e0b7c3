package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// ErrMalformed: the peer's bytes are not an HTTP/1.1 response with a length or chunks.
var ErrMalformed = errors.New("malformed HTTP response")

// Response is what a run looks at. Everything else of the answer is read and thrown away.
type Response struct {
	Status   int
	Replayed string // value of Idempotent-Replayed, "" when absent
	Close    bool   // the peer ends the connection after this answer
	Excerpt  []byte // first bytes of the body, kept only for answers that are not 2xx
}

const maxExcerpt = 400

// ReadResponse reads one final response to a POST from r and leaves r at its end.
// Informational answers (1xx) are skipped. A body that only ends with the connection is
// malformed here: a run needs keep-alive, and a cut could not be told from an end.
func ReadResponse(r *bufio.Reader) (Response, error) {
	for {
		resp, err := readOne(r)
		if err != nil || resp.Status >= 200 {
			return resp, err
		}
	}
}

func readOne(r *bufio.Reader) (Response, error) {
	var resp Response
	line, err := readLine(r)
	if err != nil {
		return resp, err // io.EOF: the peer closed between two answers
	}
	// "HTTP/1.1 200 OK"; the reason is optional.
	if len(line) < 12 || string(line[:7]) != "HTTP/1." || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return resp, fmt.Errorf("%w: status line %q", ErrMalformed, line)
	}
	if resp.Status, err = strconv.Atoi(string(line[9:12])); err != nil || resp.Status < 100 {
		return resp, fmt.Errorf("%w: status line %q", ErrMalformed, line)
	}
	length, chunked := int64(-1), false
	for {
		if line, err = readLine(r); err != nil {
			return resp, noEOF(err)
		}
		if len(line) == 0 {
			break
		}
		name, value, ok := bytes.Cut(line, []byte{':'})
		if !ok {
			return resp, fmt.Errorf("%w: header line %q", ErrMalformed, line)
		}
		value = bytes.TrimSpace(value)
		switch len(name) { // cheaper than comparing every name with every header
		case len("Connection"):
			if equalFold(name, "connection") {
				resp.Close = equalFold(value, "close")
			}
		case len("Content-Length"):
			if equalFold(name, "content-length") {
				if length, err = strconv.ParseInt(string(value), 10, 64); err != nil || length < 0 {
					return resp, fmt.Errorf("%w: Content-Length %q", ErrMalformed, value)
				}
			}
		case len("Transfer-Encoding"):
			if equalFold(name, "transfer-encoding") {
				if chunked = equalFold(value, "chunked"); !chunked {
					return resp, fmt.Errorf("%w: Transfer-Encoding %q", ErrMalformed, value)
				}
			}
		case len("Idempotent-Replayed"):
			if equalFold(name, "idempotent-replayed") {
				resp.Replayed = boolText(value)
			}
		}
	}
	switch {
	case resp.Status < 200 || resp.Status == 204 || resp.Status == 304:
		return resp, nil
	case chunked:
		return resp, resp.readChunks(r)
	case length < 0:
		return resp, fmt.Errorf("%w: neither Content-Length nor chunks", ErrMalformed)
	}
	return resp, resp.readBody(r, length)
}

func (resp *Response) readChunks(r *bufio.Reader) error {
	for {
		line, err := readLine(r)
		if err != nil {
			return noEOF(err)
		}
		size, _, _ := bytes.Cut(line, []byte{';'})
		n, err := strconv.ParseInt(string(bytes.TrimSpace(size)), 16, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("%w: chunk size %q", ErrMalformed, line)
		}
		if n == 0 {
			break
		}
		if err := resp.readBody(r, n); err != nil {
			return err
		}
		if line, err = readLine(r); err != nil {
			return noEOF(err)
		} else if len(line) != 0 {
			return fmt.Errorf("%w: chunk is longer than its size", ErrMalformed)
		}
	}
	for { // trailers
		if line, err := readLine(r); err != nil {
			return noEOF(err)
		} else if len(line) == 0 {
			return nil
		}
	}
}

func (resp *Response) readBody(r *bufio.Reader, n int64) error {
	if keep := min(n, int64(maxExcerpt-len(resp.Excerpt))); keep > 0 && resp.Status >= 300 {
		part := make([]byte, keep)
		if _, err := io.ReadFull(r, part); err != nil {
			return noEOF(err)
		}
		resp.Excerpt = append(resp.Excerpt, part...)
		n -= keep
	}
	for n > 0 { // Discard takes an int
		step, err := r.Discard(int(min(n, 1<<30)))
		n -= int64(step)
		if err != nil {
			return noEOF(err)
		}
	}
	return nil
}

// readLine returns a line without its end; it is valid until the next read.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, fmt.Errorf("%w: line over %d bytes", ErrMalformed, r.Size())
	case errors.Is(err, io.EOF) && len(line) > 0:
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	}
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// equalFold compares with a lower-case ASCII word without allocating.
func equalFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// boolText saves the allocation of the two values that occur.
func boolText(b []byte) string {
	switch string(b) {
	case "true":
		return "true"
	case "false":
		return "false"
	}
	return string(b)
}
