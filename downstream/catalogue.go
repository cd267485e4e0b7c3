package downstream

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/latchkey-gateway/latchkey/intent"
)

// Defaults, where the config says nothing.
const (
	DefaultTimeout     = 30 * time.Second
	DefaultMaxInFlight = 256
	DefaultApproval    = time.Hour
	DefaultKeyHeader   = "Idempotency-Key"
)

var defaultBreaker = BreakerSpec{Window: 30 * time.Second, MinRequests: 20, FailureRatio: 0.5, OpenFor: 10 * time.Second, HalfOpenProbes: 3}

// maxTimeout bounds a tool's timeout: an execution that takes longer is better modelled as
// one call that starts it and another that asks for it.
const maxTimeout = time.Hour

// Catalogue is the checked set of downstreams and tools. It is immutable.
type Catalogue struct {
	targets map[string]*target
	tools   map[string]*Tool
	sorted  []*Tool
}

// target is a downstream with its base URL taken apart.
type target struct {
	spec    Spec
	secure  bool   // https
	host    string // as the Host header says it
	address string // host:port to dial
	name    string // host without port, for the certificate
	prefix  string // escaped path of the base URL, without a trailing slash
	headers []byte // static header lines, ready to be sent
	typed   bool   // Content-Type is among them
}

// NewCatalogue checks everything and returns all problems at once, joined FieldErrors; a
// catalogue with one problem does not load. It fills in the defaults of each class. Whether
// a loaded tool is also safe to run is what Audit says.
func NewCatalogue(downstreams []Spec, tools []ToolSpec) (*Catalogue, error) {
	c := &Catalogue{targets: make(map[string]*target), tools: make(map[string]*Tool)}
	var problems problems
	for _, spec := range downstreams {
		at := problems.at("downstreams." + spec.Name)
		at.name(spec.Name)
		if c.targets[spec.Name] != nil {
			at.add("", "is there twice")
		}
		c.targets[spec.Name] = newTarget(spec, at)
	}
	for _, spec := range tools {
		at := problems.at("tools." + spec.Name)
		at.name(spec.Name)
		if c.tools[spec.Name] != nil {
			at.add("", "is there twice")
		}
		c.tools[spec.Name] = newTool(spec, c.targets, at)
	}
	if err := errors.Join(problems.list...); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.tools)) {
		c.sorted = append(c.sorted, c.tools[name])
	}
	return c, nil
}

// Tool returns a tool by name.
func (c *Catalogue) Tool(name string) (*Tool, bool) {
	t, ok := c.tools[name]
	return t, ok
}

// Tools returns all tools, sorted by name.
func (c *Catalogue) Tools() []*Tool { return slices.Clone(c.sorted) }

// Downstreams returns all downstreams with their defaults filled in, sorted by name.
func (c *Catalogue) Downstreams() []Spec {
	var specs []Spec
	for _, name := range slices.Sorted(maps.Keys(c.targets)) {
		specs = append(specs, c.targets[name].spec)
	}
	return specs
}

func newTarget(spec Spec, at scope) *target {
	t := &target{}
	u, err := url.Parse(spec.BaseURL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		at.add("base_url", "must be a URL such as https://billing.example.com/v1")
		u = &url.URL{Scheme: "http"}
	case u.User != nil:
		at.add("base_url", "must not hold a user or password; use headers")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		at.add("base_url", "must not have a query or a fragment")
	case strings.ContainsFunc(u.Host, func(r rune) bool { return r >= 0x80 }):
		at.add("base_url", "must write the host in ASCII (punycode)")
	}
	port := u.Port()
	if t.secure = u.Scheme == "https"; port == "" {
		port = "80"
		if t.secure {
			port = "443"
		}
	}
	t.host, t.name = u.Host, u.Hostname()
	t.address = joinHostPort(u.Hostname(), port)
	t.prefix = strings.TrimRight(u.EscapedPath(), "/")

	spec.Timeout = orDefault(spec.Timeout, DefaultTimeout)
	spec.MaxInFlight = orDefault(spec.MaxInFlight, DefaultMaxInFlight)
	b := &spec.Breaker
	b.Window = orDefault(b.Window, defaultBreaker.Window)
	b.MinRequests = orDefault(b.MinRequests, defaultBreaker.MinRequests)
	b.FailureRatio = orDefault(b.FailureRatio, defaultBreaker.FailureRatio)
	b.OpenFor = orDefault(b.OpenFor, defaultBreaker.OpenFor)
	b.HalfOpenProbes = orDefault(b.HalfOpenProbes, defaultBreaker.HalfOpenProbes)
	at.duration("timeout", spec.Timeout, time.Millisecond, maxTimeout)
	at.number("max_in_flight", spec.MaxInFlight, 1, 1<<16)
	at.duration("breaker.window", b.Window, 100*time.Millisecond, time.Hour)
	at.number("breaker.min_requests", b.MinRequests, 1, 1<<20)
	if !(b.FailureRatio > 0 && b.FailureRatio <= 1) {
		at.add("breaker.failure_ratio", "must be more than 0 and at most 1")
	}
	at.duration("breaker.open_for", b.OpenFor, time.Millisecond, time.Hour)
	at.number("breaker.half_open_probes", b.HalfOpenProbes, 1, 1<<10)

	seen := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(spec.Headers)) {
		field, value := "headers."+name, spec.Headers[name]
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			at.add(field, "is not a header name")
		case seen[canonical]:
			at.add(field, "is there twice")
		case ourHeaders[canonical]:
			at.add(field, "is set by latchkey itself")
		case !httpguts.ValidHeaderFieldValue(value):
			at.add(field, "has a value with control characters") // never shown: it may be a secret
		}
		seen[canonical] = true
		t.typed = t.typed || canonical == "Content-Type"
		t.headers = appendHeader(t.headers, canonical, strings.TrimSpace(value))
	}
	t.spec = spec
	return t
}

// ourHeaders frame the message or are written by the client; a config must not set them.
var ourHeaders = map[string]bool{"Connection": true, "Content-Length": true, "Transfer-Encoding": true, "Te": true, "Trailer": true,
	"Upgrade": true, "Expect": true, "Keep-Alive": true, "Proxy-Connection": true, "Host": true, "Accept-Encoding": true,
	"Traceparent": true, "User-Agent": true}

var toolName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)

// problems collects what is wrong; scope adds the dotted path in front.
type problems struct{ list []error }

func (p *problems) at(prefix string) scope { return scope{p, prefix} }

type scope struct {
	all    *problems
	prefix string
}

func (s scope) add(field, format string, a ...any) {
	if field != "" {
		field = "." + field
	}
	s.all.list = append(s.all.list, badField(s.prefix+field, format, a...))
}

func (s scope) in(field string) scope { return scope{s.all, s.prefix + "." + field} }

func (s scope) name(name string) {
	if !toolName.MatchString(name) {
		s.add("", "a name is 1 to 128 letters, digits, _ . - and starts with a letter or digit")
	}
}

func (s scope) duration(field string, d, low, high time.Duration) {
	if d < low || d > high {
		s.add(field, "must be between %v and %v", low, high)
	}
}

func (s scope) number(field string, n, low, high int) {
	if n < low || n > high {
		s.add(field, "must be between %d and %d", low, high)
	}
}

func (s scope) pointers(field string, list []string) []intent.Pointer {
	var out []intent.Pointer
	for i, text := range list {
		p, err := intent.ParsePointer(text)
		switch {
		case err != nil:
			s.add(field, "%v", err)
		case len(p) == 0:
			s.add(field, "must name an argument, such as /invoice_id")
		case slices.Contains(list[:i], text):
			s.add(field, "%s is there twice", text)
		}
		out = append(out, p)
	}
	return out
}

// word checks an optional enumeration.
func (s scope) word(field, word string, allowed ...string) {
	if word != "" && !slices.Contains(allowed, word) {
		s.add(field, "%q is not one of %s", word, strings.Join(allowed, ", "))
	}
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

func joinHostPort(host, port string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]:" + port
	}
	return host + ":" + port
}
