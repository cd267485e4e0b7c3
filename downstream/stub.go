package downstream

import (
	"context"
	"net"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
)

type request struct{}
type target struct{}

type Catalogue struct{}

func NewCatalogue(downstreams []Spec, tools []ToolSpec) (*Catalogue, error) { panic("soon") }
func (c *Catalogue) Tool(name string) (*Tool, bool)                         { panic("soon") }
func (c *Catalogue) Tools() []*Tool                                         { panic("soon") }
func (c *Catalogue) Downstreams() []Spec                                    { panic("soon") }

func (t *Tool) Validate(args intent.Value) *intent.Error { panic("soon") }

// Finding is one thing that an audit has to say about a tool.
type Finding struct {
	Tool     string   `json:"tool"`
	Severity Severity `json:"severity"`
	Field    string   `json:"field"`
	Msg      string   `json:"msg"`
}

// Severity of a finding.
type Severity string

const (
	Unsafe  Severity = "error"
	Warning Severity = "warning"
)

// AuditRow is one line of the table that `latchkey check` prints.
type AuditRow struct {
	Tool       string `json:"tool"`
	Class      string `json:"class"`
	Identity   string `json:"identity"`
	Forwarding string `json:"forwarding"`
	Unknown    string `json:"on_unknown"`
	Retry      string `json:"retry"` // in plain words: what a second call would do
}

func (c *Catalogue) Audit() ([]AuditRow, []Finding) { panic("soon") }

// Options of a Client.
type Options struct {
	ResultCap int64 // bytes of an answer's body that are kept
	// DialContext replaces the dialer; nil: TCP.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

type Client struct{}

func NewClient(cat *Catalogue, opts Options) *Client                { panic("soon") }
func (c *Client) Execute(ctx context.Context, call Call) Observed   { panic("soon") }
func (c *Client) Forward(ctx context.Context, call Call) Observed   { panic("soon") }
func (c *Client) BreakerState(downstream string) string             { panic("soon") }
func (c *Client) InFlight(downstream string) int                    { panic("soon") }
func (c *Client) Close()                                            {}
func (c *Client) Admit(t *Tool) (func(Observed, Verdict), *Refusal) { panic("soon") }

// Refusal says why a fresh call was not admitted: nothing was sent.
type Refusal struct {
	NotSentWhy string        // no_permit or breaker_open
	RetryAfter time.Duration // 0: no hint
}

// Verdict is the refusal as a settled outcome: not sent, the same call is safe.
func (r *Refusal) Verdict() Verdict { panic("soon") }

func Classify(t *Tool, o Observed) Verdict { panic("soon") }
