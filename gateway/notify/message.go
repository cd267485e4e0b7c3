package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
)

// What a message tells.
const (
	AwaitingApproval = "awaiting_approval" // nothing was sent; a person must approve
	Parked           = "parked"            // unknown, and nobody but a person goes on
	InDoubt          = "doubt"             // it may have happened twice, or otherwise than the status says
)

// What says what there is to tell of a receipt as it stands; "" nothing.
func What(r *intent.Receipt) string {
	switch {
	case r.Expired:
		return ""
	case r.Doubt != 0:
		return InDoubt
	case r.Status == intent.AwaitingApproval:
		return AwaitingApproval
	case r.Status == intent.Unknown && r.Parked != 0:
		return Parked
	}
	return ""
}

// message is the body: a Standard Webhooks payload.
type message struct {
	Type      string    `json:"type"` // "receipt." and what
	Timestamp time.Time `json:"timestamp"`
	Data      data      `json:"data"`
}

type data struct {
	Key        string            `json:"key"`
	Tool       string            `json:"tool"`
	Class      string            `json:"class"`
	Tenant     string            `json:"tenant"`
	Status     string            `json:"status"`
	Parked     string            `json:"parked"`      // why only a person goes on; ""
	Doubt      string            `json:"doubt"`       // "", possible_double or contradicted
	AgeSeconds int64             `json:"age_seconds"` // since it became so
	ExpiresAt  *time.Time        `json:"expires_at"`  // awaiting_approval: when it is rejected without anybody
	Links      map[string]string `json:"links"`
}

func (n *Notifier) message(r *intent.Receipt, what string, now time.Time) message {
	d := data{Key: r.Key.String(), Tool: r.Tool, Class: r.Class.String(), Tenant: r.Tenant, Status: r.Status.String(),
		Parked: r.Parked.String(), Doubt: r.Doubt.String(), Links: map[string]string{"self": "/v1/receipts/" + r.Key.String()}}
	since := r.CreatedAt
	if what != AwaitingApproval {
		since = latest(r.CreatedAt, r.UnknownSince)
	}
	d.AgeSeconds = max(0, int64(now.Sub(since)/time.Second))
	if what == AwaitingApproval && !r.NextCheck.IsZero() {
		d.ExpiresAt = &r.NextCheck
	}
	if n.Console != "" {
		d.Links["console"] = n.Console + "/receipts/" + r.Key.String()
	}
	return message{"receipt." + what, now.UTC().Truncate(time.Second), d}
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// id names what is told, the same over all tries of all replicas, so that a receiver takes a
// repeated message once. Another state of the same receipt is another message.
func id(r *intent.Receipt, what string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %s %s %d", r.Key, r.Standing(), what, r.Parked, r.Doubt, r.Checks))
	return "msg_" + hex.EncodeToString(sum[:16])
}

// post sends one message and returns the receiver's status; 0 when there was no answer.
func (n *Notifier) post(ctx context.Context, r *intent.Receipt, what string, now time.Time) (int, error) {
	body, err := json.Marshal(n.message(r, what, now))
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.URL, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	name, at := id(r, what), strconv.FormatInt(now.Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "latchkey")
	req.Header.Set("Webhook-Id", name)
	req.Header.Set("Webhook-Timestamp", at)
	req.Header.Set("Webhook-Signature", n.secret.sign(name, at, body))
	res, err := n.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection can be used again
	return res.StatusCode, nil
}

// newClient makes a client of our own: nothing of the process' default one, whose time-out
// is none, and no redirect followed: a signed message goes where the config says.
func newClient(timeout time.Duration) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxConnsPerHost, transport.MaxIdleConnsPerHost = atOnce, atOnce
	return &http.Client{Timeout: timeout, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// secret is the key of the signatures.
type secret []byte

func parseSecret(s string) (secret, error) {
	text, ok := strings.CutPrefix(s, "whsec_")
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, errors.New(`the webhook's secret must be "whsec_" and the base64 of 24 to 64 random bytes`)
	}
	return key, nil
}

// sign is the value of Webhook-Signature.
func (s secret) sign(id, at string, body []byte) string {
	mac := hmac.New(sha256.New, s)
	fmt.Fprintf(mac, "%s.%s.", id, at)
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
