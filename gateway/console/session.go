package console

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/latchkey-gateway/latchkey/gateway/auth"
	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/tracing"
)

const (
	cookieName  = "latchkey_console"
	sessionLife = 12 * time.Hour
)

// A session's cookie is
//
//	base64url(key id) . base64url(nonce, AES-256-GCM(expiry, API key))
//
// sealed under a key derived (HKDF, RFC 5869) from the config's hash of that API key, so that
// every replica can open it and none has to remember it. Whoever has read the config could
// derive the seal's key too; but not make a session, because inside must be an API key that
// authenticates, and the config holds only its hash.

func sealKey(k auth.Key) ([]byte, error) {
	return hkdf.Key(sha256.New, []byte(strings.ToLower(k.SHA256)), nil, "latchkey console session", 32)
}

func (c *Console) aead(id string) (cipher.AEAD, error) {
	key, ok := c.seals[id]
	if !ok {
		return nil, errNoSession
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

var errNoSession = errors.New("no session")

// seal makes the cookie's value for an API key that was authenticated as id.
func (c *Console) seal(id, key string, expires time.Time) (string, error) {
	aead, err := c.aead(id)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, aead.NonceSize())
	rand.Read(nonce)
	plain := append(binary.BigEndian.AppendUint64(nil, uint64(expires.Unix())), key...)
	b64 := base64.RawURLEncoding
	return b64.EncodeToString([]byte(id)) + "." + b64.EncodeToString(aead.Seal(nonce, nonce, plain, []byte(id))), nil
}

// session says who a cookie's value stands for, and until when; errNoSession when it stands
// for nobody: forged, expired, or of a key that is gone or may not enter.
func (c *Console) session(value string, now time.Time) (auth.Principal, time.Time, error) {
	none := func() (auth.Principal, time.Time, error) { return auth.Principal{}, time.Time{}, errNoSession }
	name, rest, _ := strings.Cut(value, ".")
	id, err := base64.RawURLEncoding.DecodeString(name)
	if err != nil {
		return none()
	}
	sealed, err := base64.RawURLEncoding.DecodeString(rest)
	if err != nil {
		return none()
	}
	aead, err := c.aead(string(id))
	if err != nil || len(sealed) < aead.NonceSize() {
		return none()
	}
	plain, err := aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], id)
	if err != nil || len(plain) < 8 {
		return none()
	}
	expires := time.Unix(int64(binary.BigEndian.Uint64(plain)), 0)
	if !now.Before(expires) {
		return none()
	}
	p, refused := c.authenticate(string(plain[8:]))
	if refused != nil || p.ID != string(id) {
		return none()
	}
	return p, expires, nil
}

// authenticate says who holds an API key and whether they may enter.
func (c *Console) authenticate(key string) (auth.Principal, *intent.Error) {
	p, err := c.keys.Authenticate(http.Header{"Authorization": {"Bearer " + key}})
	if err != nil {
		return p, intent.Errorf(intent.Unauthenticated, err, "The gateway does not know this key. Check that it is whole and current.")
	}
	if !p.Can(auth.Viewer, auth.Operator) {
		return p, intent.Errorf(intent.Forbidden, nil, "This key is an agent's. The console takes keys with the role viewer or operator.")
	}
	return p, nil
}

// visit is one request of somebody who is signed in.
type visit struct {
	c       *Console
	w       http.ResponseWriter
	r       *http.Request
	who     auth.Principal
	expires time.Time
	now     time.Time
}

type handler func(*visit) error

func (v *visit) ctx() context.Context { return v.r.Context() }

// span is the request's.
func (v *visit) span() tracing.Span { return tracing.From(v.ctx()) }

// enter lets in who is signed in; others are asked to. The cookie is SameSite=Strict, so the
// first request of a link in a chat or a mail comes without it: that one is answered with a
// page of ours that asks again by itself, and then the cookie is there.
func (c *Console) enter(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{c: c, w: w, r: r, now: time.Now()}
		err := errNoSession
		if cookie, missing := r.Cookie(cookieName); missing == nil {
			v.who, v.expires, err = c.session(cookie.Value, v.now)
		}
		switch {
		case err == nil:
			err = h(v)
		case r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Site") == "cross-site":
			err = v.show(http.StatusOK, "again", "One moment", r.URL.RequestURI())
		case r.Method == http.MethodGet && !strings.HasSuffix(r.URL.Path, "/events"):
			http.Redirect(w, r, Prefix+"/login?next="+escapeQuery(r.URL.RequestURI()), http.StatusSeeOther)
			return
		default:
			err = v.showLogin(http.StatusUnauthorized, Prefix+"/attention", "Your session has ended, so nothing was done. Sign in and decide again.")
		}
		if err != nil {
			c.fail(v, err)
		}
	})
}

// operator lets through who may decide.
func (c *Console) operator(h handler) handler {
	return func(v *visit) error {
		if refused := v.who.Require(auth.Operator); refused != nil {
			return intent.Errorf(intent.Forbidden, refused, "You can look but not decide: that needs a key with the role operator. Nothing was done.")
		}
		if err := v.r.ParseForm(); err != nil {
			return intent.Errorf(intent.BadRequest, err, "The form was not whole, so nothing was done.")
		}
		return h(v)
	}
}

func (c *Console) showLogin(w http.ResponseWriter, r *http.Request) {
	v := &visit{c: c, w: w, r: r, now: time.Now()}
	if err := v.showLogin(http.StatusOK, inside(r.FormValue("next")), ""); err != nil {
		c.fail(v, err)
	}
}

func (v *visit) showLogin(status int, next, problem string) error {
	return v.show(status, "login", "Sign in", struct{ Next, Problem string }{next, problem})
}

// inside returns an address of the console's own, whatever was asked for.
func inside(next string) string {
	if !strings.HasPrefix(next, Prefix+"/") || strings.ContainsAny(next, "\\\r\n") || strings.HasPrefix(next, Prefix+"/events") {
		return Prefix + "/attention"
	}
	return next
}

func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	v := &visit{c: c, w: w, r: r, now: time.Now()}
	next, key := inside(r.PostFormValue("next")), strings.TrimSpace(r.PostFormValue("key"))
	p, refused := c.authenticate(key)
	if refused != nil {
		if err := v.showLogin(http.StatusForbidden, next, refused.Public); err != nil {
			c.fail(v, err)
		}
		return
	}
	value, err := c.seal(p.ID, key, v.now.Add(sessionLife))
	if err != nil {
		c.fail(v, err)
		return
	}
	http.SetCookie(w, cookie(r, value, int(sessionLife/time.Second)))
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, cookie(r, "", -1))
	http.Redirect(w, r, Prefix+"/login", http.StatusSeeOther)
}

// cookie is Secure where the person's connection is. A header that claims so wrongly can
// only keep the cookie from being sent.
func cookie(r *http.Request, value string, age int) *http.Cookie {
	return &http.Cookie{Name: cookieName, Value: value, Path: Prefix, MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")}
}
