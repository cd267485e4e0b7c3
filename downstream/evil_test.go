package downstream

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/latchkey-gateway/latchkey/intent"
)

// evilServer executes every request that it has read whole, and loses the answer of those to
// /evil when they come on a connection that was used before. That is the moment at which
// net/http.Transport sends a request again.
type evilServer struct {
	effects atomic.Int32
	goodbye func(net.Conn) // how it leaves on HTTP/1.1
	frame   func(f *http2.Framer, stream uint32)
	url     string
	roots   *tls.Config // nil without TLS
	lost    atomic.Int32
}

func fin(c net.Conn) { c.Close() }

func rst(c net.Conn) {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// start listens; protocols are offered in the TLS handshake, none means plain TCP.
func (e *evilServer) start(t *testing.T, protocols ...string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e.url = "http://" + listener.Addr().String()
	if len(protocols) > 0 {
		lender := httptest.NewTLSServer(nil) // for its certificate
		lender.Close()
		e.roots = lender.Client().Transport.(*http.Transport).TLSClientConfig
		e.url = "https://" + listener.Addr().String()
		listener = tls.NewListener(listener, &tls.Config{Certificates: lender.TLS.Certificates, NextProtos: protocols,
			GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				if !slices.ContainsFunc(protocols, func(p string) bool { return slices.Contains(hello.SupportedProtos, p) }) {
					return nil, errors.New("no protocol in common") // crypto/tls alone would let http/1.1 in
				}
				return nil, nil
			}})
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	all.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			all.Go(func() { e.serve(c) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
}

func (e *evilServer) serve(c net.Conn) {
	defer c.Close()
	if secure, ok := c.(*tls.Conn); ok {
		if secure.Handshake() != nil {
			return
		}
		if secure.ConnectionState().NegotiatedProtocol == "h2" {
			e.serveH2(c)
			return
		}
	}
	reader := bufio.NewReader(c)
	for used := false; ; used = true {
		r, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if r.URL.Path == "/evil" {
			e.effects.Add(1)
			if used && e.lost.CompareAndSwap(0, 1) {
				e.goodbye(c)
				return
			}
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
	}
}

func (e *evilServer) serveH2(c net.Conn) {
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	f.WriteSettings()
	paths := make(map[uint32]string)
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		ended := false
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				f.WriteSettingsAck()
			}
		case *http2.MetaHeadersFrame:
			paths[frame.StreamID] = frame.PseudoValue("path")
			ended = frame.StreamEnded()
		case *http2.DataFrame:
			ended = frame.StreamEnded()
		}
		if !ended {
			continue
		}
		stream := frame.Header().StreamID
		if paths[stream] == "/evil" {
			e.effects.Add(1)
			if e.lost.CompareAndSwap(0, 1) {
				e.frame(f, stream)
				continue
			}
		}
		var block bytes.Buffer
		hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
	}
}

func goAway(f *http2.Framer, _ uint32) { f.WriteGoAway(0, http2.ErrCodeNo, nil) }

func protocolError(f *http2.Framer, stream uint32) { f.WriteRSTStream(stream, http2.ErrCodeProtocol) }

// shape is a kind of effect that net/http might resend.
type shape struct {
	method, body, header string
}

func shapes() []shape {
	var all []shape
	for _, header := range []string{"Idempotency-Key", "X-Idempotency-Key", ""} {
		for _, m := range []shape{{method: "POST", body: "args"}, {method: "POST", body: "none"}, {method: "PUT", body: "args"},
			{method: "PATCH", body: "args"}, {method: "DELETE", body: "none"}, {method: "DELETE", body: "args"}, {method: "GET", body: "none"}} {
			m.header = header
			all = append(all, m)
		}
	}
	return all
}

func (s shape) String() string { return strings.Join([]string{s.method, s.body, s.header}, "_") }

func (s shape) tool(class string) ToolSpec {
	spec := ToolSpec{Name: "evil", Class: class, Downstream: "mail", Request: RequestSpec{Method: s.method, Path: "/evil", Body: s.body}}
	if s.header != "" {
		spec.ForwardKey = &ForwardKeySpec{Header: s.header}
	}
	return spec
}

func TestAnEffectIsSentOnceOverABrokenConnection(t *testing.T) {
	t.Parallel()
	for name, goodbye := range map[string]func(net.Conn){"fin": fin, "rst": rst} {
		for _, protocols := range [][]string{nil, {"http/1.1"}, {"h2", "http/1.1"}} {
			for _, s := range shapes() {
				t.Run(fmt.Sprintf("%s/%v/%v", name, protocols, s), func(t *testing.T) {
					t.Parallel()
					e := &evilServer{goodbye: goodbye, frame: protocolError}
					e.start(t, protocols...)
					cat := load(t, e.url, s.tool("effectful"), ToolSpec{Name: "warm", Class: "idempotent", Downstream: "mail",
						Request: RequestSpec{Method: "POST", Path: "/warm"}})
					c := NewClient(cat, Options{TLS: e.roots})
					t.Cleanup(c.Close)
					warm, _ := cat.Tool("warm")
					evil, _ := cat.Tool("evil")
					if o, v := execute(t, c, warm, `{}`); v.Status != intent.Completed {
						t.Fatalf("warming the connection: %+v", o)
					}

					o, v := execute(t, c, evil, `{"to":"a"}`)
					if n := e.effects.Load(); n != 1 {
						t.Errorf("%d effects, want 1", n)
					}
					if e.lost.Load() != 1 {
						t.Error("the connection was not reused: the test shows nothing")
					}
					if !o.Sent || o.Err == nil || v.Status != intent.Unknown || v.Unsent {
						t.Errorf("observed %+v, verdict %+v, want sent and unknown", o, v)
					}
				})
			}
		}
	}
}

// The control: with net/http's own client the same servers see the effect twice, and the
// caller is told that all is well. Without this the test above would show nothing.
func TestNetHTTPSendsItTwice(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		method    string
		body      string
		header    string
		protocols []string
		frame     func(*http2.Framer, uint32)
	}{
		{"POST with body and key", "POST", "{}", "Idempotency-Key", nil, nil},
		{"DELETE with key", "DELETE", "", "X-Idempotency-Key", nil, nil},
		{"GET", "GET", "", "", nil, nil},
		{"HTTP/2 GOAWAY, POST without body", "POST", "", "", []string{"h2"}, goAway},
		{"HTTP/2 PROTOCOL_ERROR, POST without body", "POST", "", "", []string{"h2"}, protocolError},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := &evilServer{goodbye: fin, frame: tt.frame}
			e.start(t, tt.protocols...)
			transport := &http.Transport{TLSClientConfig: e.roots, ForceAttemptHTTP2: true}
			t.Cleanup(transport.CloseIdleConnections)
			plain := &http.Client{Transport: transport}
			send := func(path string) error {
				r, err := http.NewRequest(tt.method, e.url+path, strings.NewReader(tt.body))
				if err != nil {
					return err
				}
				if tt.header != "" {
					r.Header.Set(tt.header, "k")
				}
				answer, err := plain.Do(r)
				if err != nil {
					return err
				}
				io.Copy(io.Discard, answer.Body)
				return answer.Body.Close()
			}
			if err := errors.Join(send("/warm"), send("/evil")); err != nil {
				t.Fatal(err)
			}
			if n := e.effects.Load(); n != 2 {
				t.Errorf("%d effects; the servers of these tests no longer provoke what they are for", n)
			}
		})
	}
}

// HTTP/2 is impossible, not just unlikely: a server that speaks nothing else gets no request.
func TestHTTP2IsNeverSpoken(t *testing.T) {
	t.Parallel()
	for name, frame := range map[string]func(*http2.Framer, uint32){"goaway": goAway, "protocol_error": protocolError} {
		for _, s := range shapes() {
			t.Run(name+"/"+s.String(), func(t *testing.T) {
				t.Parallel()
				e := &evilServer{goodbye: fin, frame: frame}
				e.start(t, "h2")
				c, tool := client(t, e.url, s.tool("effectful"), Options{TLS: e.roots})
				o, v := execute(t, c, tool, `{}`)
				if o.Sent || o.NotSentWhy != "tls" || v.Retry != intent.RetrySameKey || e.effects.Load() != 0 {
					t.Errorf("observed %+v with %d effects, want not sent: tls", o, e.effects.Load())
				}
			})
		}
	}
	t.Run("a server with both", func(t *testing.T) {
		t.Parallel()
		var major atomic.Int32
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { major.Store(int32(r.ProtoMajor)) }))
		server.EnableHTTP2 = true
		server.StartTLS()
		t.Cleanup(server.Close)
		asked := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		asked.NextProtos = []string{"h2", "http/1.1"} // what an operator's settings might say
		c, tool := client(t, server.URL, emailSpec(), Options{TLS: asked})
		if o, v := execute(t, c, tool, `{}`); v.Status != intent.Completed || major.Load() != 1 {
			t.Errorf("HTTP/%d, %+v", major.Load(), o)
		}
	})
}

// The framing of every shape, byte for byte as a server reads it: no chunks, no second
// request, a length exactly where RFC 9110 wants one.
func TestFramingOnTheWire(t *testing.T) {
	t.Parallel()
	for _, s := range shapes() {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { listener.Close() })
			wire := make(chan string, 1)
			go func() {
				c, err := listener.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				b := make([]byte, 4096)
				n, _ := c.Read(b)
				io.WriteString(c, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
				wire <- string(b[:n])
			}()
			c, tool := client(t, "http://"+listener.Addr().String(), s.tool("effectful"), Options{})
			if o, v := execute(t, c, tool, `{"a":1.0}`); v.Status != intent.Completed {
				t.Fatalf("%+v", o)
			}
			want := s.method + " /evil HTTP/1.1\r\nHost: " + listener.Addr().String() + "\r\nUser-Agent: latchkey\r\nAccept-Encoding: identity\r\n"
			switch {
			case s.body == "args":
				want += "Content-Type: application/json\r\nContent-Length: 9\r\n"
			case s.method == "POST":
				want += "Content-Length: 0\r\n"
			}
			if s.header != "" {
				want += s.header + ": " + intent.Key{1, 2, 3}.String() + "\r\n"
			}
			want += "\r\n"
			if s.body == "args" {
				want += `{"a":1.0}`
			}
			if got := <-wire; got != want {
				t.Errorf("on the wire\n%q\nwant\n%q", got, want)
			}
		})
	}
}
