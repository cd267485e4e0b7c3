package downstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// inlineWrite is how much is written before reading starts. A longer request is written
	// while the answer is awaited, so that a server that refuses early is heard.
	inlineWrite = 64 << 10
	// maxHead bounds the answer's status line and headers, with everything before them.
	maxHead = 1 << 20
	// maxInterim bounds how many 1xx answers are skipped.
	maxInterim = 8
	// idleDefault is how long an unused connection is kept, where the server does not say.
	// Shorter than the 5 s after which common servers close theirs: a request that crosses
	// such a close has an unknown outcome, a new connection costs a round trip.
	idleDefault = 4 * time.Second
	idleMax     = 60 * time.Second
)

// wireConn counts the bytes that reached the kernel, so that "not sent" is a fact.
type wireConn struct {
	net.Conn
	written atomic.Int64
	budget  int64 // bytes that may still be read; negative: no limit
}

var (
	errHeadTooLarge = errors.New("the head of the answer is longer than 1 MiB")
	errMalformed    = errors.New("the answer is not HTTP/1.1")
)

func (c *wireConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.written.Add(int64(n))
	return n, err
}

func (c *wireConn) Read(b []byte) (int, error) {
	if c.budget == 0 {
		return 0, errHeadTooLarge
	}
	if c.budget > 0 && int64(len(b)) > c.budget {
		b = b[:c.budget]
	}
	n, err := c.Conn.Read(b)
	if c.budget > 0 {
		c.budget -= int64(n)
	}
	return n, err
}

// conn is one connection, used by one call at a time.
//
// net/http.Transport is not used for this: it sends a request again by itself when a reused
// connection breaks (DESIGN §5). Here one call of exchange is one write, and nothing repeats
// it. Only HTTP/1.1 is spoken, so a connection never carries two requests at once and the
// byte count belongs to this one.
type conn struct {
	wire   *wireConn
	stream net.Conn // wire itself, or TLS over it
	reader *bufio.Reader
	probe  probe
	reused bool

	idleSince time.Time
	idleFor   time.Duration
}

// dial connects. why is a bounded word of Observed.NotSentWhy, for when it fails.
func (p *pool) dial(ctx context.Context) (c *conn, why string, err error) {
	raw, err := p.connect(ctx, "tcp", p.target.address)
	if err != nil {
		if _, ok := errors.AsType[*net.DNSError](err); ok {
			return nil, notSentDNS, err
		}
		return nil, notSentDial, err
	}
	c = &conn{wire: &wireConn{Conn: raw, budget: -1}, idleFor: idleDefault}
	c.stream = c.wire
	c.probe.init(raw)
	if p.target.secure {
		secure := tls.Client(c.wire, p.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			raw.Close()
			return nil, notSentTLS, err
		}
		c.stream = secure
	}
	c.reader = bufio.NewReader(c.stream)
	return c, "", nil
}

// exchange writes the request once and reads the answer. reusable says that the connection
// may carry another one.
func (c *conn) exchange(ctx context.Context, m *message, deadline time.Time, limit int64) (o Observed, reusable bool) {
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() { c.stream.SetDeadline(time.Unix(1, 0)) })
		defer func() { reusable = stop() && reusable }()
	}
	before := c.wire.written.Load() // the TLS handshake's bytes are not the request's
	var written chan error
	var writeErr error
	if len(m.bytes) <= inlineWrite {
		_, writeErr = c.stream.Write(m.bytes)
	} else {
		written = make(chan error, 1)
		go func() {
			_, err := c.stream.Write(m.bytes)
			written <- err
		}()
	}
	if writeErr == nil || c.wire.written.Load() > before {
		// Also after a failed write: a server that refuses early and hangs up has answered.
		o, reusable = c.receive(m.answerTo, limit)
	}
	if written != nil {
		select {
		case writeErr = <-written:
		default: // there is an answer, or there will be none: stop writing
			reusable = false
			c.stream.SetWriteDeadline(time.Unix(1, 0))
			<-written
		}
	}
	if writeErr != nil {
		reusable = false
		if o.HTTPStatus == 0 {
			o.Err = writeErr
		}
	}
	o.Sent = c.wire.written.Load() > before
	if !o.Sent {
		o.NotSentWhy = notSentClosed
	}
	o.TimedOut = o.Err != nil && errors.Is(o.Err, os.ErrDeadlineExceeded) && ctx.Err() != context.Canceled && !time.Now().Before(deadline)
	return o, reusable
}

// receive reads one whole answer.
func (c *conn) receive(answerTo *http.Request, limit int64) (o Observed, reusable bool) {
	c.wire.budget = maxHead
	var answer *http.Response
	for interim := 0; ; interim++ {
		var err error
		if answer, err = http.ReadResponse(c.reader, answerTo); err != nil {
			return Observed{Err: unspoken(err)}, false
		}
		if answer.StatusCode >= 200 || answer.StatusCode == http.StatusSwitchingProtocols {
			break
		}
		if interim == maxInterim {
			return Observed{Err: errors.New("too many interim answers")}, false
		}
	}
	c.wire.budget = -1
	o.HTTPStatus, o.Header = answer.StatusCode, answer.Header
	if answer.StatusCode == http.StatusSwitchingProtocols {
		o.Body = []byte{}
		return o, false // what follows is not HTTP
	}
	o.Err = o.readBody(answer, limit)
	c.heed(answer.Header)
	return o, o.Err == nil && !answer.Close && c.reader.Buffered() == 0
}

// unspoken keeps what the downstream sent out of errors: net/http quotes it when it is not
// HTTP.
func unspoken(err error) error {
	if _, ok := errors.AsType[net.Error](err); ok || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errHeadTooLarge) {
		return err
	}
	return errMalformed
}

// heed follows the server's "Keep-Alive: timeout=N": the connection is dropped a second
// before the server would.
func (c *conn) heed(h http.Header) {
	hint := h.Get("Keep-Alive")
	if hint == "" {
		return
	}
	for directive := range strings.SplitSeq(hint, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		if seconds, err := strconv.Atoi(value); err == nil && strings.EqualFold(name, "timeout") {
			c.idleFor = min(max(time.Duration(seconds)*time.Second-time.Second, 0), idleMax)
		}
	}
}

func (c *conn) close() { c.wire.Conn.Close() }
