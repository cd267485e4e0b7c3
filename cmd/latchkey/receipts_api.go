package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const defaultURL = "http://127.0.0.1:8081"

// answerMost bounds what is read of one answer: a receipt may hold a result of some MiB, and
// a page 200 of them.
const answerMost = 1 << 30

// api is the gateway as its operators' API shows it.
type api struct {
	url, key string
	json     bool
	client   *http.Client
}

// problemView is an RFC 9457 problem.
type problemView struct {
	Status int
	Code   string
	Detail string
}

// refusedError is the gateway's no: it exits with 1.
type refusedError struct{ problemView }

func (e refusedError) Error() string { return fmt.Sprintf("refused (%s): %s", e.Code, e.Detail) }

// open reads address and key.
func (a *api) open() error {
	if a.client != nil {
		return nil
	}
	if a.url == "" {
		a.url = os.Getenv("LATCHKEY_URL")
	}
	if a.url == "" {
		a.url = defaultURL
	}
	u, err := url.Parse(a.url)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return usagef("the gateway's address must look like %s", defaultURL)
	}
	if a.key == "" {
		a.key = os.Getenv("LATCHKEY_KEY")
	}
	if a.key == "" || strings.ContainsFunc(a.key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return usagef("an API key is needed: set LATCHKEY_KEY to it")
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		fmt.Fprintln(os.Stderr, "latchkey: warning: the key goes to "+u.Host+" unencrypted; use an https address")
	}
	a.url = strings.TrimSuffix(a.url, "/")
	// No redirect is followed: the key and the decision are for this address.
	a.client = &http.Client{Timeout: 2 * time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return nil
}

// ask sends one request and returns the answer's body if it is a success. A decision whose
// answer was lost is sent again once: the gateway makes the same decision once.
func (a *api) ask(ctx context.Context, method, path string, body []byte, headers map[string]string) ([]byte, http.Header, error) {
	if err := a.open(); err != nil {
		return nil, nil, err
	}
	answer, header, err := a.send(ctx, method, path, body, headers)
	if _, unreachable := errors.AsType[*url.Error](err); unreachable && ctx.Err() == nil {
		answer, header, err = a.send(ctx, method, path, body, headers)
	}
	if e, unreachable := errors.AsType[*url.Error](err); unreachable {
		said := ""
		if method == http.MethodPost {
			said = "; if it was reached before, show the receipt to see whether the decision stands"
		}
		return nil, nil, usagef("the gateway at %s cannot be reached: %v%s", a.url, e.Err, said)
	}
	return answer, header, err
}

func (a *api) send(ctx context.Context, method, path string, body []byte, headers map[string]string) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, usagef("the gateway's address must look like %s", defaultURL)
	}
	req.Header.Set("Authorization", "Bearer "+a.key)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	res, err := a.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, answerMost))
	if err != nil {
		return nil, nil, &url.Error{Op: method, URL: a.url, Err: err}
	}
	if res.StatusCode == http.StatusOK {
		return answer, res.Header, nil
	}
	p := problemView{Status: res.StatusCode}
	if json.Unmarshal(answer, &p) != nil || p.Code == "" {
		return nil, nil, usagef("%s answered %s and is no gateway's API", a.url, res.Status)
	}
	switch res.StatusCode {
	case http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusPreconditionFailed, http.StatusPreconditionRequired:
		return nil, nil, refusedError{p}
	}
	return nil, nil, usagef("the gateway answered %d %s: %s", p.Status, p.Code, p.Detail)
}

// listing is a page of receipts, or several put together.
type listing struct {
	Receipts []json.RawMessage `json:"receipts"`
	Next     string            `json:"next_cursor"`
}

// list reads pages until there are as many receipts as asked for.
func (a *api) list(ctx context.Context, values url.Values, limit int) (listing, error) {
	all := listing{Receipts: []json.RawMessage{}}
	for {
		values.Set("limit", fmt.Sprint(min(limit-len(all.Receipts), 200)))
		if all.Next != "" {
			values.Set("cursor", all.Next)
		}
		answer, _, err := a.ask(ctx, http.MethodGet, "/v1/receipts?"+values.Encode(), nil, nil)
		if err != nil {
			return all, err
		}
		var page listing
		if err := json.Unmarshal(answer, &page); err != nil {
			return all, usagef("%s did not answer with receipts", a.url)
		}
		all.Receipts, all.Next = append(all.Receipts, page.Receipts...), page.Next
		if page.Next == "" || len(all.Receipts) >= limit {
			return all, nil
		}
	}
}

// whole is the key that begins with the given digits.
func (a *api) whole(ctx context.Context, digits string) (string, error) {
	digits = strings.ToLower(digits)
	if len(digits) < 8 || len(digits) > 64 || strings.Trim(digits, "0123456789abcdef") != "" {
		return "", usagef("KEY is a receipt's key or its first 8 hex digits or more")
	}
	if len(digits) == 64 {
		return digits, nil
	}
	page, err := a.list(ctx, url.Values{"q": {digits}}, 1000) // others may hold the digits as a word
	if err != nil {
		return "", err
	}
	var found []string
	for _, raw := range page.Receipts {
		var r struct{ Key string }
		if json.Unmarshal(raw, &r) == nil && strings.HasPrefix(r.Key, digits) {
			found = append(found, r.Key)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("no receipt's key begins with %s", digits)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%d receipts' keys begin with %s, such as %s and %s", len(found), digits, found[0], found[1])
}

// receipt reads the receipt with the key, or the one whose key begins so.
func (a *api) receipt(ctx context.Context, digits string) (receiptView, error) {
	key, err := a.whole(ctx, digits)
	if err != nil {
		return receiptView{}, err
	}
	answer, header, err := a.ask(ctx, http.MethodGet, "/v1/receipts/"+key, nil, nil)
	if err != nil {
		return receiptView{}, err
	}
	return a.view(answer, header)
}

func (a *api) view(answer []byte, header http.Header) (receiptView, error) {
	r := receiptView{raw: answer, etag: header.Get("ETag")}
	if json.Unmarshal(answer, &r) != nil || len(r.Key) != 64 || r.etag == "" {
		return r, usagef("%s did not answer with a receipt", a.url)
	}
	return r, nil
}

func (a *api) audit(ctx context.Context, key string) ([]entryView, error) {
	answer, _, err := a.ask(ctx, http.MethodGet, "/v1/receipts/"+key+"/audit", nil, nil)
	if err != nil {
		return nil, err
	}
	var audit struct{ Entries []entryView }
	if json.Unmarshal(answer, &audit) != nil {
		return nil, usagef("%s did not answer with an audit", a.url)
	}
	return audit.Entries, nil
}
