package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/history"
)

// Tenant is a customer whose agents and operators have keys.
type Tenant struct {
	Name        string
	AgentKey    string
	OperatorKey string
}

// client sends what an agent sends and reads what it is told.
type client struct {
	http   *http.Client
	direct string // the target's address where there is no gateway
}

func newClient(direct string) *client {
	return &client{direct: direct, http: &http.Client{
		Transport:     &http.Transport{MaxIdleConns: 512, MaxIdleConnsPerHost: 256, IdleConnTimeout: 20 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// call is one request for an intent, as it is now worded.
type call struct {
	it       Intent
	tenant   Tenant
	door     string
	why      history.Why
	to, memo string
	sdkKey   string // direct alone: what a provider's library sends with each of its tries
}

// reply is an attempt and the hints that came with it.
type reply struct {
	history.Attempt
	noRetry    bool // X-Should-Retry: false
	retryAfter time.Duration
}

// receiptJSON is what the contract says of receipts and problems, as far as agents read it.
type receiptJSON struct {
	Key        *string         `json:"key"`
	Tool       string          `json:"tool"`
	Class      string          `json:"class"`
	Tenant     string          `json:"tenant"`
	RunID      string          `json:"run_id"`
	StepID     string          `json:"step_id"`
	Status     json.RawMessage `json:"status"` // a word in receipts, a number in problems
	Replayed   bool            `json:"replayed"`
	Durable    bool            `json:"durable"`
	Retry      string          `json:"retry"`
	Reason     string          `json:"reason"`
	SettledBy  string          `json:"settled_by"`
	Code       string          `json:"code"`
	EarlierKey string          `json:"earlier_key"`
	Attempts   int             `json:"attempts"`
	Executions int             `json:"executions"`
	Fence      int             `json:"fence"`
	CreatedAt  *time.Time      `json:"created_at"`
	SettledAt  *time.Time      `json:"settled_at"`
	Unknown    *time.Time      `json:"unknown_since"`
	Outcome    *struct {
		HTTPStatus int             `json:"http_status"`
		Body       json.RawMessage `json:"body"`
		Text       string          `json:"body_text"`
	} `json:"outcome"`
	Intent struct {
		Args        order  `json:"args"`
		Fingerprint string `json:"fingerprint"`
	} `json:"intent"`
	Recovery struct {
		Parked string `json:"parked"`
		Doubt  string `json:"doubt"`
	} `json:"recovery"`
}

type order struct {
	Ref    string `json:"ref"`
	To     string `json:"to"`
	Memo   string `json:"memo"`
	Amount int    `json:"amount"`
}

// send makes one attempt. It never fails: no answer is a fact, too.
func (c *client) send(ctx context.Context, a call) reply {
	out := reply{Attempt: history.Attempt{
		Intent: a.it.Index, Tenant: a.tenant.Name, Tool: a.it.Tool.Name, Ref: a.it.Ref,
		Wording: history.Wording(a.to, a.memo), Why: a.why, Door: a.door,
	}}
	req, err := c.request(ctx, a)
	if err != nil {
		out.Err = err.Error()
		return out
	}
	out.Sent = time.Now().UTC()
	resp, err := c.http.Do(req)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	if err != nil {
		out.Err = errorText(err)
		return out
	}
	out.Got, out.HTTP = time.Now().UTC(), resp.StatusCode
	out.noRetry = resp.Header.Get("X-Should-Retry") == "false"
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		out.retryAfter = time.Duration(n) * time.Second
	}
	if c.direct == "" {
		out.read(body, resp.Header)
		if out.Code != "" && out.HTTP != http.StatusBadRequest {
			out.Leaked = a.memo != a.it.Memo && bytes.Contains(body, []byte(a.it.Memo)) || bytes.Contains(body, []byte(`"outcome"`))
		}
	}
	return out
}

func (c *client) request(ctx context.Context, a call) (*http.Request, error) {
	args, err := json.Marshal(order{a.it.Ref, a.to, a.memo, a.it.Amount})
	if err != nil {
		return nil, err
	}
	if c.direct != "" {
		if a.it.Tool.Class == "read_only" {
			return http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.direct+"/"+a.it.Tool.Name+"?q="+url.QueryEscape(a.it.Ref), nil)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.direct+"/"+a.it.Tool.Name, bytes.NewReader(args))
		if err == nil {
			req.Header.Set("Idempotency-Key", a.sdkKey)
		}
		return req, err
	}
	body, err := json.Marshal(map[string]any{"run_id": a.it.RunID, "step_id": a.it.StepID, "args": json.RawMessage(args)})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+a.door+"/v1/tools/"+a.it.Tool.Name+"/calls", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	// net/http resends a request with an Idempotency-Key when its connection breaks, unseen: an
	// attempt on record would be two, and the answer that of the second.
	req.GetBody = nil
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+a.tenant.AgentKey)
	if a.it.Explicit != "" {
		req.Header.Set("Idempotency-Key", `"`+a.it.Explicit+`"`)
	}
	return req, nil
}

// read takes a receipt or a problem apart.
func (r *reply) read(body []byte, h http.Header) {
	var got receiptJSON
	if err := json.Unmarshal(body, &got); err != nil {
		r.Err = fmt.Sprintf("not JSON: %.80q", body)
		return
	}
	r.Retry, r.Code, r.Replayed, r.Durable, r.Earlier = got.Retry, got.Code, got.Replayed, got.Durable, got.EarlierKey
	if got.Key != nil {
		r.Key = *got.Key
	}
	if r.Key == "" {
		r.Key = h.Get("Latchkey-Receipt")
	}
	if got.Code == "" {
		r.Status = got.word()
		r.Result, r.Effect = got.result()
	}
}

// word is the status of a receipt.
func (g *receiptJSON) word() string { return strings.Trim(string(g.Status), `"`) }

// result names the outcome by a digest that does not depend on how its JSON is spelt, and
// the effect that it tells of.
func (g *receiptJSON) result() (digest, effect string) {
	if g.Outcome == nil {
		return "", ""
	}
	var body any
	if json.Unmarshal(g.Outcome.Body, &body) == nil {
		if members, ok := body.(map[string]any); ok {
			effect, _ = members["id"].(string)
		}
	}
	text, _ := json.Marshal([]any{g.Outcome.HTTPStatus, body, g.Outcome.Text}) // it was JSON just now
	return history.Digest(text), effect
}

// get reads something of the API; v may be nil.
func (c *client) get(ctx context.Context, url, bearer string, v any) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	if err == nil && v != nil && resp.StatusCode == http.StatusOK {
		err = json.Unmarshal(body, v)
	}
	return resp.StatusCode, body, err
}

// decide sends an operator's decision.
func (c *client) decide(ctx context.Context, url, bearer, etag string, body any) (int, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(text))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+bearer)
	if etag != "" {
		req.Header.Set("If-Match", etag)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// errorText leaves out the address, which differs from run to run.
func errorText(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, `": `); i >= 0 {
		text = text[i+3:]
	}
	return text
}
