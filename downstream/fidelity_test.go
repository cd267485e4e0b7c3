package downstream

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/latchkey-gateway/latchkey/intent"
)

// What a replay can show is what this layer keeps, so it is compared byte for byte.
func TestAnswersAreKeptByteForByte(t *testing.T) {
	t.Parallel()
	png := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), bytes.Repeat([]byte{0, 0xff, 0xfe}, 500)...)
	tests := []struct {
		name   string
		status int
		body   []byte
		header http.Header
	}{
		{"no content", 204, nil, nil},
		{"empty", 200, nil, nil},
		{"null", 200, []byte("null"), nil},
		{"zero", 200, []byte("0"), nil},
		{"exact number", 200, []byte(`{"id":9007199254740993, "f":1.0}`), nil},
		{"picture", 200, png, http.Header{"Content-Type": {"image/png"}}},
		{"not UTF-8", 200, []byte("\xff\xfe"), nil},
		{"exactly the cap", 200, bytes.Repeat([]byte("x"), 1000), nil},
	}
	for _, tt := range tests {
		for _, chunked := range []bool{false, true} {
			for _, packed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/chunked=%v/gzip=%v", tt.name, chunked, packed), func(t *testing.T) {
					t.Parallel()
					server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						maps.Copy(w.Header(), tt.header)
						body := tt.body
						if packed && tt.status != 204 {
							w.Header().Set("Content-Encoding", "gzip")
							body = pack(body)
						}
						if !chunked && tt.status != 204 {
							w.Header().Set("Content-Length", fmt.Sprint(len(body)))
						}
						w.WriteHeader(tt.status)
						w.Write(body)
						if chunked {
							w.(http.Flusher).Flush()
						}
					}))
					t.Cleanup(server.Close)
					c, tool := client(t, server.URL, emailSpec(), Options{ResultCap: max(1000, int64(len(png)))})
					o, v := execute(t, c, tool, `{}`)
					if v.Status != intent.Completed || v.Outcome.HTTPStatus != tt.status || v.Outcome.Truncated || !bytes.Equal(v.Outcome.Body, tt.body) {
						t.Errorf("kept %q of %q; %+v", v.Outcome.Body, tt.body, o)
					}
					if v.Outcome.Body == nil {
						t.Error("no body is not the same as an empty one")
					}
					if _, ok := v.Outcome.Headers["content-encoding"]; ok {
						t.Error("the body is decoded, but the header says otherwise")
					}
				})
			}
		}
	}
}

func pack(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(body)
	w.Close()
	return b.Bytes()
}

func TestALongAnswerIsKeptAsLengthAndHash(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	for _, size := range []int{limit, limit + 1, 10 << 20} {
		for _, packed := range []bool{false, true} { // packed, this is a small bomb: 1000 to 1
			t.Run(fmt.Sprintf("%d/gzip=%v", size, packed), func(t *testing.T) {
				t.Parallel()
				whole := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
				sent := whole
				header := http.Header{}
				if packed {
					sent = pack(whole)
					header.Set("Content-Encoding", "gzip")
				}
				server := httptest.NewServer(answer(200, header, string(sent)))
				t.Cleanup(server.Close)
				c, tool := client(t, server.URL, emailSpec(), Options{ResultCap: limit})
				o, v := execute(t, c, tool, `{}`)
				if v.Status != intent.Completed {
					t.Fatalf("%+v", o)
				}
				if size <= limit {
					if o.Truncated || !bytes.Equal(o.Body, whole) {
						t.Errorf("truncated %v at the cap, %d bytes kept", o.Truncated, len(o.Body))
					}
					return
				}
				sum := sha256.Sum256(whole)
				if !v.Outcome.Truncated || v.Outcome.Body != nil || v.Outcome.Length != int64(size) || v.Outcome.SHA256 != hex.EncodeToString(sum[:]) {
					t.Errorf("truncated %v, %d bytes kept, length %d, hash %s", o.Truncated, len(o.Body), o.Length, o.SHA256)
				}
			})
		}
	}
}

func TestReplaysCarryTheRightHeaders(t *testing.T) {
	t.Parallel()
	header := http.Header{
		"Content-Type": {"application/json"}, "Content-Language": {"de"}, "Content-Disposition": {"inline"},
		"Location": {"/emails/1"}, "Etag": {`"1"`}, "Last-Modified": {"Mon, 01 Jan 2024 00:00:00 GMT"}, "Link": {"</a>", "</b>"},
		"X-Request-Id": {"r1"}, "X-Other": {"no"}, "X-Hop": {"no"}, "X-Huge": {strings.Repeat("x", maxHeaderValue+1)},
		"Connection": {"X-Hop, keep-alive"}, "Keep-Alive": {"timeout=5"}, "Upgrade": {"h2c"}, "Trailer": {"X-T"},
		"Set-Cookie": {"a=1", "b=2"}, "Authorization": {"no"}, "Www-Authenticate": {"Basic"}, "Proxy-Authenticate": {"Basic"},
		"Retry-After": {"5"}, "X-Ratelimit-Remaining": {"1"}, "Ratelimit-Limit": {"1"}, "Ratelimit": {"1"}, "Age": {"1"},
	}
	server := httptest.NewServer(answer(201, header, "{}"))
	t.Cleanup(server.Close)
	spec := emailSpec()
	spec.ResponseHeaders = []string{"x-request-id", "X-Hop", "X-Huge", "X-Absent"}
	c, tool := client(t, server.URL, spec, Options{})
	_, v := execute(t, c, tool, `{}`)
	want := map[string]string{"content-type": "application/json", "content-language": "de", "content-disposition": "inline",
		"location": "/emails/1", "etag": `"1"`, "last-modified": "Mon, 01 Jan 2024 00:00:00 GMT", "link": "</a>, </b>", "x-request-id": "r1"}
	if !maps.Equal(v.Outcome.Headers, want) {
		t.Errorf("kept %v\nwant %v", v.Outcome.Headers, want)
	}
}

func TestHeadersThatAReplayMustNotCarryCannotBeDeclared(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Set-Cookie", "Authorization", "WWW-Authenticate", "Date", "X-RateLimit-Reset", "Content-Encoding", "Connection", "Retry-After"} {
		spec := emailSpec()
		spec.ResponseHeaders = []string{name}
		if _, err := NewCatalogue([]Spec{{Name: "mail", BaseURL: "http://x"}}, []ToolSpec{spec}); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// A HEAD or 304 answer describes a body that does not come.
func TestAHeadAnswerHasNoBody(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.Header().Set("Content-Encoding", "gzip")
		if r.Method != http.MethodHead {
			io.WriteString(w, strings.Repeat("x", 1000))
		}
	}))
	t.Cleanup(server.Close)
	spec := emailSpec()
	spec.Request.Method = "HEAD"
	c, tool := client(t, server.URL, spec, Options{})
	for range 2 {
		if o, v := execute(t, c, tool, `{}`); v.Status != intent.Completed || len(o.Body) != 0 {
			t.Errorf("%+v", o)
		}
	}
}
