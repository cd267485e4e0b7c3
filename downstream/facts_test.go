package downstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
)

// script serves each accepted connection with its own function, in order, on real sockets.
func script(t *testing.T, conns ...func(c net.Conn, r *bufio.Reader)) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, serve := range conns {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			serve(c, bufio.NewReader(c))
			c.Close()
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
	})
	return "http://" + listener.Addr().String()
}

// read consumes one whole request.
func read(r *bufio.Reader) {
	if request, err := http.ReadRequest(r); err == nil {
		io.Copy(io.Discard, request.Body)
	}
}

// says reads a request and writes a raw answer.
func says(answer string) func(net.Conn, *bufio.Reader) {
	return func(c net.Conn, r *bufio.Reader) {
		read(r)
		io.WriteString(c, answer)
	}
}

func TestNotSentIsAFact(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := "http://" + closed.Addr().String()
	closed.Close()
	noDNS := &net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no name server")
	}}}
	untrusted := httptest.NewUnstartedServer(answer(200, nil, ""))
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0) // the handshake that fails is the test
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	plain := httptest.NewServer(answer(200, nil, ""))
	t.Cleanup(plain.Close)
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()

	tests := []struct {
		name    string
		url     string
		opts    Options
		ctx     context.Context
		may     func() bool
		timeout time.Duration
		why     string
	}{
		{name: "connection refused", url: refused, why: "dial"},
		{name: "no such name", url: "http://mail.invalid", opts: Options{DialContext: noDNS.DialContext}, why: "dns"},
		{name: "certificate not trusted", url: untrusted.URL, why: "tls"},
		{name: "no TLS there", url: "https" + strings.TrimPrefix(plain.URL, "http"), why: "tls"},
		{name: "cancelled first", url: plain.URL, ctx: cancelled, why: "cancelled"},
		{name: "the lease ran out", url: plain.URL, may: func() bool { return false }, why: "lease"},
		{name: "broken before the first byte", url: plain.URL, opts: Options{DialContext: brokenDial}, why: "closed"},
		{name: "nobody picks up", url: plain.URL, opts: Options{DialContext: blackHole}, timeout: 20 * time.Millisecond, why: "dial"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			spec := emailSpec()
			spec.Timeout = tt.timeout
			c, tool := client(t, tt.url, spec, tt.opts)
			in := call(t, tool, `{}`)
			in.MayBegin = tt.may
			ctx := tt.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			o := c.Execute(ctx, in)
			if o.Sent || o.NotSentWhy != tt.why || o.Err == nil {
				t.Errorf("observed %+v, want not sent: %s", o, tt.why)
			}
			if v := Classify(tool, o); v.Status != intent.Rejected || v.Retry != intent.RetrySameKey || !v.Unsent || v.Outcome != nil {
				t.Errorf("verdict %+v", v)
			}
		})
	}
}

// brokenDial connects, but no byte gets out.
func brokenDial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return brokenConn{c}, err
}

type brokenConn struct{ net.Conn }

func (brokenConn) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func blackHole(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestSentAndNotAnsweredIsUnknown(t *testing.T) {
	t.Parallel()
	hang := func(c net.Conn, r *bufio.Reader) { read(r); io.Copy(io.Discard, r) }
	tests := []struct {
		name     string
		serve    func(net.Conn, *bufio.Reader)
		timeout  time.Duration
		timedOut bool
		status   int
	}{
		{name: "closed after the request was read", serve: says("")},
		{name: "closed without reading", serve: func(c net.Conn, r *bufio.Reader) { r.Peek(1) }},
		{name: "reset", serve: func(c net.Conn, r *bufio.Reader) { read(r); rst(c) }},
		{name: "no answer in time", serve: hang, timeout: 30 * time.Millisecond, timedOut: true},
		{name: "half a head", serve: says("HTTP/1.1 200 OK\r\nContent-Le")},
		{name: "body shorter than its length", serve: says("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}"), status: 200},
		{name: "chunked body without an end", serve: says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"), status: 200},
		{name: "half a body in time", timeout: 30 * time.Millisecond, timedOut: true, status: 200, serve: func(c net.Conn, r *bufio.Reader) {
			says("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}")(c, r)
			io.Copy(io.Discard, r)
		}},
		{name: "not HTTP", serve: says("SSH-2.0-secret\r\n")},
		{name: "endless head", serve: func(c net.Conn, r *bufio.Reader) {
			says("HTTP/1.1 200 OK\r\n")(c, r)
			for line := "X-Fill: " + strings.Repeat("x", 8000) + "\r\n"; ; {
				if _, err := io.WriteString(c, line); err != nil {
					return
				}
			}
		}},
		{name: "endless interim answers", serve: says(strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 100))},
		{name: "gzip cut short", status: 200, serve: says("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 10\r\n\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			spec := emailSpec()
			spec.Timeout = tt.timeout
			c, tool := client(t, script(t, tt.serve), spec, Options{})
			o, v := execute(t, c, tool, `{}`)
			if !o.Sent || o.Err == nil || o.TimedOut != tt.timedOut || o.HTTPStatus != tt.status || o.NotSentWhy != "" {
				t.Errorf("observed %+v", o)
			}
			if o.Err != nil && strings.Contains(o.Err.Error(), "secret") {
				t.Errorf("the error repeats what the downstream sent: %v", o.Err)
			}
			if v.Status != intent.Unknown || v.Retry != intent.RetryNever || v.Unsent || v.Outcome != nil {
				t.Errorf("verdict %+v", v)
			}
		})
	}
}

func TestCancelledAfterSendingIsUnknown(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	url := script(t, func(c net.Conn, r *bufio.Reader) {
		read(r)
		cancel()
		io.Copy(io.Discard, r)
	})
	c, tool := client(t, url, emailSpec(), Options{})
	o := c.Execute(ctx, call(t, tool, `{}`))
	if v := Classify(tool, o); !o.Sent || o.TimedOut || v.Status != intent.Unknown {
		t.Errorf("observed %+v, verdict %+v", o, v)
	}
}

// An answer that nobody asked for must not become the answer of the next call.
func TestAnUnsolicitedAnswerIsNotTaken(t *testing.T) {
	t.Parallel()
	const two = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2"
	url := script(t, func(c net.Conn, r *bufio.Reader) {
		says(two)(c, r)
		read(r)
	}, says("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n3"))
	c, tool := client(t, url, emailSpec(), Options{})
	for _, want := range []string{"1", "3"} {
		if o, _ := execute(t, c, tool, `{}`); string(o.Body) != want {
			t.Errorf("body %q, want %q (%+v)", o.Body, want, o)
		}
	}
}

func TestARefusalBeforeTheBodyWasReadIsHeard(t *testing.T) {
	t.Parallel()
	const refusal = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig"
	big := `{"memo":"` + strings.Repeat("x", 8<<20) + `"}`
	answered := make(chan struct{})
	url := script(t, func(c net.Conn, r *bufio.Reader) {
		c.(*net.TCPConn).SetReadBuffer(4096)
		r.Peek(1)
		io.WriteString(c, refusal)
		<-answered // neither reads on nor hangs up
	})
	c, tool := client(t, url, emailSpec(), Options{})
	o, v := execute(t, c, tool, big)
	close(answered)
	if o.HTTPStatus != 413 || o.Err != nil || v.Status != intent.Rejected || v.Retry != intent.RetryCorrected || string(o.Body) != "big" {
		t.Errorf("status %d, err %v, verdict %+v", o.HTTPStatus, o.Err, v)
	}
}

func TestABigRequestArrivesWhole(t *testing.T) {
	t.Parallel()
	var got atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		got.Store(n)
	}))
	t.Cleanup(server.Close)
	c, tool := client(t, server.URL, emailSpec(), Options{})
	args := `{"memo":"` + strings.Repeat("x", 4<<20) + `"}`
	if o, v := execute(t, c, tool, args); v.Status != intent.Completed || got.Load() != int64(len(args)) {
		t.Errorf("%d bytes arrived of %d: %+v", got.Load(), len(args), o)
	}
}

func TestInterimAnswersAreSkipped(t *testing.T) {
	t.Parallel()
	url := script(t, says("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"))
	c, tool := client(t, url, emailSpec(), Options{})
	if o, _ := execute(t, c, tool, `{}`); o.HTTPStatus != 201 || string(o.Body) != "{}" || o.Header.Get("Link") != "" {
		t.Errorf("%+v", o)
	}
}

func TestTheServersKeepAliveHintIsHeeded(t *testing.T) {
	t.Parallel()
	for hint, want := range map[string]time.Duration{"": idleDefault, "timeout=5": 4 * time.Second, "timeout=5, max=100": 4 * time.Second,
		"timeout=1": 0, "timeout=3600": idleMax, "timeout=-9": 0, "nonsense": idleDefault} {
		c := &conn{idleFor: idleDefault}
		h := http.Header{}
		if hint != "" {
			h.Set("Keep-Alive", hint)
		}
		if c.heed(h); c.idleFor != want {
			t.Errorf("Keep-Alive %q: kept for %v, want %v", hint, c.idleFor, want)
		}
	}
}

func TestTheLeaseIsAskedRightBeforeEachWrite(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	t.Cleanup(server.Close)
	var dials atomic.Int32
	c, tool := client(t, server.URL, emailSpec(), Options{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}})
	in := call(t, tool, `{}`)
	asked := 0
	in.MayBegin = func() bool {
		asked++
		if dials.Load() == 0 {
			t.Error("asked before there was a connection: the answer may be old by the time of the write")
		}
		return false
	}
	if o := c.Execute(t.Context(), in); o.NotSentWhy != "lease" || asked != 1 || requests.Load() != 0 {
		t.Errorf("%+v, asked %d times, %d requests", o, asked, requests.Load())
	}
	in.MayBegin = func() bool { asked++; return true }
	if o := c.Execute(t.Context(), in); !o.Sent || asked != 2 || dials.Load() != 1 {
		t.Errorf("%+v, asked %d times, %d dials: the unused connection should have been kept", o, asked, dials.Load())
	}
}

func TestForwardRetriesReadsOnly(t *testing.T) {
	t.Parallel()
	const busy, ok = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1"
	read := ToolSpec{Name: "search", Class: "read_only", Downstream: "mail", Request: RequestSpec{Method: "GET", Path: "/s?q={args.q}"}}
	in := func(tool *Tool) Call { return Call{Tool: tool, Args: parse(t, `{"q":"a b"}`)} }

	t.Run("an answer at last", func(t *testing.T) {
		t.Parallel()
		c, tool := client(t, script(t, says(busy), says(""), says(ok)), read, Options{})
		if o := c.Forward(t.Context(), in(tool)); o.HTTPStatus != 200 || string(o.Body) != "1" {
			t.Errorf("%+v", o)
		}
	})
	t.Run("three times at most", func(t *testing.T) {
		t.Parallel()
		c, tool := client(t, script(t, says(busy), says(busy), says(busy), says(ok)), read, Options{})
		if o := c.Forward(t.Context(), in(tool)); o.HTTPStatus != 503 {
			t.Errorf("%+v", o)
		}
	})
	t.Run("a refusal is an answer", func(t *testing.T) {
		t.Parallel()
		c, tool := client(t, script(t, says("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"), says(ok)), read, Options{})
		if o := c.Forward(t.Context(), in(tool)); o.HTTPStatus != 404 {
			t.Errorf("%+v", o)
		}
	})
	t.Run("never an effect", func(t *testing.T) {
		t.Parallel()
		c, tool := client(t, script(t, says(busy), says(ok)), emailSpec(), Options{})
		if o := c.Forward(t.Context(), call(t, tool, `{}`)); o.HTTPStatus != 503 {
			t.Errorf("an effect was sent again: %+v", o)
		}
	})
	t.Run("within the timeout", func(t *testing.T) {
		t.Parallel()
		slow := read
		slow.Timeout = 20 * time.Millisecond
		c, tool := client(t, script(t, func(_ net.Conn, r *bufio.Reader) { io.Copy(io.Discard, r) }), slow, Options{})
		if o := c.Forward(t.Context(), in(tool)); !o.TimedOut || !errors.Is(o.Err, os.ErrDeadlineExceeded) {
			t.Errorf("%+v", o)
		}
	})
}
