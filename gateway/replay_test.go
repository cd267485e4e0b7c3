package gateway_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// answers are downstream answers and what a receipt must show of them.
var answers = []struct {
	name   string
	script http.HandlerFunc
	status int
	shown  string // the outcome's last member as JSON; "" for no body at all
}{
	{"204", answer(204, ""), 204, ""},
	{"empty 200", answer(200, "", "Content-Type", "application/json"), 200, ""},
	{"null", answer(200, `null`), 200, `"body":null`},
	{"0", answer(200, `0`), 200, `"body":0`},
	{"false", answer(200, `false`), 200, `"body":false`},
	{"empty string", answer(200, `""`), 200, `"body":""`},
	{"exact numbers", answer(200, `{"a":9007199254740993,"b":1.10,"c":1E400,"d":-0.0}`), 200, `"body":{"a":9007199254740993,"b":1.10,"c":1E400,"d":-0.0}`},
	{"white space kept inside", answer(200, " {\"a\" : [1,\t2]}\n"), 200, "\"body\":{\"a\" : [1,\t2]}"},
	{"duplicate members", answer(200, `{"a":1,"a":2}`), 200, `"body":{"a":1,"a":2}`},
	{"201 with a place", answer(201, `{"id":7}`, "Location", "/emails/7"), 201, `"body":{"id":7}`},
	{"303 not followed", answer(303, "", "Location", "/elsewhere"), 303, ""},
	{"304", answer(304, "", "ETag", `"x"`), 304, ""},
	{"JSON without a type", raw("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"a\":1}"), 200, `"body":{"a":1}`},
	{"problem", answer(200, `{"a":1}`, "X", "y"), 200, `"body":{"a":1}`},
	{"said to be JSON", answer(200, `{"a":`), 200, `"body_text":"{\"a\":"`},
	{"JSON said to be text", typed("text/plain", `{"a":1}`), 200, `"body_text":"{\"a\":1}"`},
	{"text", typed("text/plain; charset=utf-8", "línea\u2028\x00\x7f"), 200, `"body_text":"línea\u2028\u0000` + "\x7f" + `"`},
	{"PNG", typed("image/png", png), 200, `"body_base64":"iVBORw0KGgoAAAANSUhEUv8="`},
	{"invalid UTF-8 said to be JSON", typed("application/json", "\"\xff\""), 200, `"body_base64":"Iv8i"`},
	{"gzip", zipped(`{"zipped":true}`), 200, `"body":{"zipped":true}`},
	{"chunked", chunked("{\"a\":", "1}"), 200, `"body":{"a":1}`},
	{"until the connection closes", raw("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\n\r\n[1]"), 200, `"body":[1]`},
	{"as much as is kept", typed("text/plain", strings.Repeat("x", resultCap)), 200, `"body_text":"` + strings.Repeat("x", resultCap) + `"`},
	{"one byte more", typed("text/plain", strings.Repeat("x", resultCap+1)), 200, tombstone(strings.Repeat("x", resultCap+1))},
	{"10 MB", typed("application/json", huge), 200, tombstone(huge)},
	{"gzip of 10 MB", zipped(huge), 200, tombstone(huge)},
}

const png = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\xff"

var huge = `"` + strings.Repeat("0123456789", 1<<20) + `"`

func typed(media, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		io.WriteString(w, body)
	}
}

func zipped(body string) http.HandlerFunc {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, body)
	z.Close()
	return answer(200, b.String(), "Content-Encoding", "gzip")
}

func chunked(parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for _, part := range parts {
			io.WriteString(w, part)
			http.NewResponseController(w).Flush()
		}
	}
}

func tombstone(body string) string {
	sum := sha256.Sum256([]byte(body))
	return fmt.Sprintf(`"body":{"truncated":true,"length":%d,"sha256":"%s"}`, len(body), hex.EncodeToString(sum[:]))
}

// A replay is the first answer byte for byte but for "replayed", from wherever it comes:
// this replica's memory, Redis, or the store.
func TestReplayFidelity(t *testing.T) {
	t.Parallel()
	for _, c := range answers {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			near, redis := w.replica("near"), w.replica("redis")
			w.services.answer(inTurn(c.script, answer(500, `"acted twice"`)))
			first := near.call("mail", `{"id":1}`)
			got := first.completed()
			if got.Outcome.HTTPStatus != c.status {
				t.Errorf("http_status %d", got.Outcome.HTTPStatus)
			}
			var outcome struct{ Outcome json.RawMessage }
			if err := json.Unmarshal(first.body, &outcome); err != nil {
				t.Fatal(err)
			}
			want := "}}"
			if c.shown != "" {
				want = "}," + c.shown + "}"
			}
			if !bytes.HasSuffix(outcome.Outcome, []byte(want)) && !(c.shown == "" && bytes.HasSuffix(outcome.Outcome, []byte(`"headers":{}}`))) {
				t.Errorf("outcome %.300s\nwant ... %.300s", outcome.Outcome, want)
			}
			sameButReplayed(t, first, near.call("mail", `{"id":1}`))
			sameButReplayed(t, first, redis.call("mail", `{"id":1}`))
			w.forgetRedis()
			store := w.replica("store")
			sameButReplayed(t, first, store.call("mail", `{"id":1}`))
			sameButReplayed(t, first, store.call("mail", `{"id":1}`))
			if kept := store.get("/v1/receipts/" + *got.Key).read("completed"); !kept.Durable {
				t.Error("not durable")
			}
			w.effects(1)
		})
	}
}

// What a rejection said is kept as exactly as a result.
func TestRejectionFidelity(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.replica("a"), w.replica("b")
	w.services.answer(inTurn(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(409)
		io.WriteString(w, `{"balance":9007199254740993}`)
	}, answer(200, `{}`)))
	first := a.call("mail", `{"id":1}`)
	if got := first.receipt(424, "rejected", "corrected"); string(got.Outcome.Body) != `{"balance":9007199254740993}` {
		t.Errorf("%s", first.body)
	}
	sameButReplayed(t, first, a.call("mail", `{"id":1}`))
	sameButReplayed(t, first, b.call("mail", `{"id":1}`))
	w.forgetRedis()
	sameButReplayed(t, first, b.call("mail", `{"id":1}`))
	w.effects(1)
}

func TestWhichHeadersAreKept(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	w.services.answer(answer(201, `{"id":7}`,
		"Location", "/emails/7", "ETag", `"v1"`, "Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT", "Link", "</a>; rel=x", "Link", "</b>; rel=y",
		"Content-Language", "en", "X-Ticket", "T-1", // declared by the tool
		"X-Undeclared", "u", "Set-Cookie", "session=secret", "Authorization", "secret", "WWW-Authenticate", "Basic", "Proxy-Authenticate", "Basic",
		"Retry-After", "7", "Age", "3", "RateLimit-Remaining", "1", "X-RateLimit-Limit", "2", "Keep-Alive", "timeout=5", "Via", "1.1 proxy",
		"Server", "office", "Trailer", "X-T", "Upgrade", "h2c"))
	first := a.call("mail", `{"id":1}`)
	want := map[string]string{"content-type": "application/json", "location": "/emails/7", "etag": `"v1"`, "last-modified": "Mon, 02 Jan 2006 15:04:05 GMT",
		"link": "</a>; rel=x, </b>; rel=y", "content-language": "en", "x-ticket": "T-1"}
	for _, got := range []reply{first, a.call("mail", `{"id":1}`)} {
		r := got.completed()
		for name, value := range want {
			if r.Outcome.Headers[name] != value {
				t.Errorf("%s: %q, want %q", name, r.Outcome.Headers[name], value)
			}
		}
		if len(r.Outcome.Headers) != len(want) {
			t.Errorf("headers kept: %v", r.Outcome.Headers)
		}
		got.hides("secret")
		got.headers(map[string]string{"Set-Cookie": "", "Location": "", "Etag": "", "Retry-After": "", "X-Ticket": ""})
	}
	// A tool that declares nothing keeps none of its own.
	if r := a.call("put", `{"id":1}`).completed(); r.Outcome.Headers["x-ticket"] != "" || r.Outcome.Headers["location"] != "/emails/7" {
		t.Errorf("%v", r.Outcome.Headers)
	}
}

// File names outside ASCII come as Latin-1 more often than not. The result must be stored
// all the same.
func TestHeadersThatAreNotUTF8(t *testing.T) {
	w, a := oneReplica(t)
	w.services.answer(answer(200, `{}`, "Content-Disposition", "attachment; filename=\"caf\xe9.pdf\"", "X-Ticket", "T\x80"))
	got := a.call("mail", `{"id":1}`).completed()
	if !got.Durable {
		t.Error("not durable")
	}
	a.get("/v1/receipts/" + *got.Key).read("completed")
	if rows := w.rows(); len(rows) != 1 || rows[0].Status.String() != "completed" {
		t.Errorf("%+v", rows)
	}
	w.effects(1)
}
