package load

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadResponse(t *testing.T) {
	t.Parallel()
	// Every text is followed by another answer, which must be found intact.
	const next = "HTTP/1.1 418 next\r\nContent-Length: 0\r\n\r\n"
	for name, tc := range map[string]struct {
		text string
		want Response
	}{
		"length":           {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", Response{Status: 200}},
		"no reason":        {"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", Response{Status: 200}},
		"bare newlines":    {"HTTP/1.1 200 OK\nContent-Length: 2\n\nab", Response{Status: 200}},
		"odd case, spaces": {"HTTP/1.1 200 OK\r\ncOnTeNt-LeNgTh:  3 \r\n\r\nabc", Response{Status: 200}},
		"same length name": {"HTTP/1.1 200 OK\r\nContent-Foobar: 9\r\nConnectiom: close\r\nContent-Length: 1\r\n\r\nx", Response{Status: 200}},
		"replayed":         {"HTTP/1.1 200 OK\r\nIdempotent-Replayed: true\r\nContent-Length: 0\r\n\r\n", Response{Status: 200, Replayed: "true"}},
		"not replayed":     {"HTTP/1.1 200 OK\r\nidempotent-replayed:false\r\nContent-Length: 0\r\n\r\n", Response{Status: 200, Replayed: "false"}},
		"nonsense":         {"HTTP/1.1 200 OK\r\nIdempotent-Replayed: yes\r\nContent-Length: 0\r\n\r\n", Response{Status: 200, Replayed: "yes"}},
		"close":            {"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n", Response{Status: 200, Close: true}},
		"keep-alive":       {"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", Response{Status: 200}},
		"no content":       {"HTTP/1.1 204 No Content\r\n\r\n", Response{Status: 204}},
		"not modified":     {"HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n", Response{Status: 304}},
		"informational":    {"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", Response{Status: 200}},
		"chunks":           {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", Response{Status: 200}},
		"trailers":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nEtag: x\r\n\r\n", Response{Status: 200}},
		"excerpt":          {"HTTP/1.1 503 Nope\r\nContent-Length: 4\r\n\r\nsent", Response{Status: 503, Excerpt: []byte("sent")}},
		"excerpt, chunks":  {"HTTP/1.1 409 Nope\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n", Response{Status: 409, Excerpt: []byte("abcd")}},
		"long excerpt": {"HTTP/1.1 500 Nope\r\nContent-Length: 1000\r\n\r\n" + strings.Repeat("x", 1000),
			Response{Status: 500, Excerpt: bytes.Repeat([]byte("x"), maxExcerpt)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := bufio.NewReaderSize(slowly(tc.text+next), 64)
			got, err := ReadResponse(r)
			if err != nil {
				t.Fatal(err)
			}
			if got.Status != tc.want.Status || got.Replayed != tc.want.Replayed || got.Close != tc.want.Close || !bytes.Equal(got.Excerpt, tc.want.Excerpt) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			if got, err := ReadResponse(r); err != nil || got.Status != 418 {
				t.Errorf("the next answer: %+v, %v", got, err)
			}
			if _, err := ReadResponse(r); err != io.EOF {
				t.Errorf("at the end: %v, want EOF", err)
			}
		})
	}
}

func TestReadResponseMalformed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want error
	}{
		"cut in the status line": {"HTTP/1.1 20", io.ErrUnexpectedEOF},
		"cut after it":           {"HTTP/1.1 200 OK\r\n", io.ErrUnexpectedEOF},
		"cut in the headers":     {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n", io.ErrUnexpectedEOF},
		"cut in the body":        {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", io.ErrUnexpectedEOF},
		"no body at all":         {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", io.ErrUnexpectedEOF},
		"cut in an excerpt":      {"HTTP/1.1 500 OK\r\nContent-Length: 3\r\n\r\nab", io.ErrUnexpectedEOF},
		"cut in a chunk":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", io.ErrUnexpectedEOF},
		"cut between chunks":     {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", io.ErrUnexpectedEOF},
		"no last empty line":     {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", io.ErrUnexpectedEOF},
		"not HTTP":               {"SSH-2.0-OpenSSH_9.2\r\n", ErrMalformed},
		"status not a number":    {"HTTP/1.1 2x0 OK\r\n\r\n", ErrMalformed},
		"status too small":       {"HTTP/1.1 099 OK\r\n\r\n", ErrMalformed},
		"status too long":        {"HTTP/1.1 2000 OK\r\n\r\n", ErrMalformed},
		"header without colon":   {"HTTP/1.1 200 OK\r\nContent-Length\r\n\r\n", ErrMalformed},
		"negative length":        {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", ErrMalformed},
		"no length":              {"HTTP/1.1 200 OK\r\n\r\nuntil the end", ErrMalformed},
		"unknown encoding":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", ErrMalformed},
		"bad chunk size":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", ErrMalformed},
		"negative chunk size":    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", ErrMalformed},
		"chunk over its size":    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", ErrMalformed},
		"endless line":           {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 100), ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := ReadResponse(bufio.NewReaderSize(slowly(tc.text), 64)); !errors.Is(err, tc.want) {
				t.Errorf("%+v, %v; want %v", got, err, tc.want)
			}
		})
	}
}

// FuzzReadResponse: whatever this parser accepts, net/http reads with the same status and
// the same end; a difference would let a run mistake one answer for another.
func FuzzReadResponse(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 204 No Content\r\n\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		text = append(text, "HTTP/1.1 418 next\r\nContent-Length: 0\r\n\r\n"...)
		r := bufio.NewReader(bytes.NewReader(text))
		got, err := ReadResponse(r)
		if err != nil || got.Status < 200 {
			return
		}
		ref := bufio.NewReader(bytes.NewReader(text))
		for {
			resp, err := http.ReadResponse(ref, nil)
			if err != nil {
				return // stricter than this parser: it never sees what a server would not send
			}
			_, err = io.Copy(io.Discard, resp.Body)
			if resp.StatusCode < 200 {
				continue
			}
			if err != nil {
				return
			}
			if resp.StatusCode != got.Status {
				t.Fatalf("status %d, net/http has %d", got.Status, resp.StatusCode)
			}
			break
		}
		mine, _ := io.ReadAll(r)
		theirs, _ := io.ReadAll(ref)
		if !bytes.Equal(mine, theirs) {
			t.Fatalf("%q is left, net/http leaves %q", mine, theirs)
		}
	})
}

// slowly gives one byte a read, as a bad network does.
func slowly(s string) io.Reader { return iotest.OneByteReader(strings.NewReader(s)) }
