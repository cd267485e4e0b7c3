package config

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/url"
	"slices"
	"strings"
)

// Seal returns the 32 bytes of seal_key, nil without one. A config from Load or Parse has a
// good one.
func (s Store) Seal() []byte {
	key, _ := s.sealKey()
	return key
}

// sealKey reads 64 hex digits or base64, whichever it is: neither can be taken for the other.
// The error does not repeat it.
func (s Store) sealKey() ([]byte, error) {
	if s.SealKey == "" {
		return nil, nil
	}
	key, err := hex.DecodeString(s.SealKey)
	if err != nil {
		key, err = base64.RawStdEncoding.Strict().DecodeString(strings.TrimRight(s.SealKey, "="))
	}
	if err != nil || len(key) != 32 {
		return nil, errors.New("must be 32 random bytes as 64 hex digits or base64, from: openssl rand -hex 32")
	}
	if repeated(key) {
		return nil, errors.New("is one byte again and again, which is no secret; make one with: openssl rand -hex 32")
	}
	return key, nil
}

func repeated(key []byte) bool {
	return !slices.ContainsFunc(key, func(b byte) bool { return b != key[0] })
}

// checkSealed refuses tools whose redacted arguments would be missing when they are needed.
func (c *checker) checkSealed() {
	if _, err := c.cfg.Store.sealKey(); err != nil {
		c.problem("store.seal_key", "%s", err)
	}
	if c.cfg.Store.SealKey != "" || c.distrusted("store.seal_key") || c.cfg.catalogue == nil {
		return
	}
	for _, t := range c.cfg.catalogue.Tools() {
		if t.NeedsArgsAgain() {
			c.problem("tools."+t.Name+".redact", "these arguments are not kept in clear, but %s needs them again: set store.seal_key, so that they are kept encrypted (openssl rand -hex 32), or do without one of the two", t.ArgsNeededBy())
		}
	}
}

// checkNotify never shows the address: it may hold a token.
func (c *checker) checkNotify() {
	n := c.cfg.Notify
	if n == nil {
		return
	}
	u, err := url.Parse(n.URL)
	switch {
	case n.URL == "":
		c.problem("notify.url", "is needed: where messages are posted, such as https://ops.example.com/latchkey")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		c.problem("notify.url", "must be a URL such as https://ops.example.com/latchkey")
	case u.Scheme == "http" && !address{host: u.Hostname()}.loopback():
		c.problem("notify.url", "must be https: only messages to this machine may go in clear")
	case u.User != nil:
		c.problem("notify.url", "must not hold a user or password: the receiver knows a message by its signature")
	case u.Fragment != "":
		c.problem("notify.url", "must not have a fragment")
	}
	const how = "must be whsec_ and the base64 of 24 to 64 random bytes, from: echo whsec_$(openssl rand -base64 32)"
	text, ok := strings.CutPrefix(n.Secret, "whsec_")
	if key, err := base64.StdEncoding.Strict().DecodeString(text); !ok || err != nil || len(key) < 24 || len(key) > 64 {
		c.problem("notify.secret", how)
	} else if repeated(key) {
		c.problem("notify.secret", "is one byte again and again, which is no secret; it "+how)
	}
	if len(n.Events) == 0 {
		c.problem("notify.events", "is empty: name parked, awaiting_approval or doubt, or remove notify")
	}
	for i, event := range n.Events {
		if slices.Contains(n.Events[:i], event) {
			c.problem("notify.events", "%q is there twice", event)
		}
	}
}
