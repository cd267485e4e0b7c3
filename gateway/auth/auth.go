// Package auth answers "who asks, and what may they do?". A caller sends
//
//	Authorization: Bearer <key>
//
// and the config holds the SHA-256 of <key>: of the whole string as sent after "Bearer ",
// without a newline, in hex. So the file can be read by people who may not call. One way to
// make a key and its hash:
//
//	KEY=$(openssl rand -hex 32); printf %s "$KEY" | sha256sum
//
// The hash of the whole header value, "Bearer <key>", is taken as well: the contract's
// words can be read either way, and neither lets anybody in who does not hold the key.
//
// The tenant of a call comes from its key and from nowhere else.
package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/latchkey-gateway/latchkey/intent"
)

// Role is what a key is for. The zero value is no role.
type Role uint8

const (
	_        Role = iota
	Agent         // calls tools and reads the receipts of its tenant
	Viewer        // reads
	Operator      // reads, approves, declines, resolves, reconciles
)

var roleNames = [...]string{"invalid", "agent", "viewer", "operator"}

// String returns the word used in config.
func (r Role) String() string {
	if int(r) >= len(roleNames) {
		return roleNames[0]
	}
	return roleNames[r]
}

// ParseRole reads Role.String.
func ParseRole(s string) (Role, error) {
	for r := Agent; r <= Operator; r++ {
		if r.String() == s {
			return r, nil
		}
	}
	return 0, fmt.Errorf("role %q is not one of agent, viewer, operator", s)
}

// Key is a bearer key as the config gives it.
type Key struct {
	ID     string // names the key in attempts and logs
	SHA256 string // hex of Hash(key)
	Tenant string
	Roles  []string
}

// Principal is who asks.
type Principal struct {
	ID     string // of the key
	Tenant string
	Roles  []Role
}

// Can says whether the principal has at least one of the roles.
func (p Principal) Can(roles ...Role) bool {
	return slices.ContainsFunc(roles, func(r Role) bool { return slices.Contains(p.Roles, r) })
}

// Require returns nil if the principal has at least one of the roles, else a Forbidden
// error that names them.
func (p Principal) Require(roles ...Role) *intent.Error {
	if p.Can(roles...) {
		return nil
	}
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = r.String()
	}
	return intent.Errorf(intent.Forbidden, nil, "This key may not do that: it needs the role "+strings.Join(names, " or ")+". Use a key that has it.")
}

// Keys are all keys that are known. They are immutable and safe for concurrent use.
type Keys struct {
	byDigest map[[sha256.Size]byte]Principal
}

// New makes Keys. It refuses a key without id, tenant or role, a hash that is not 64 hex
// digits, and an id or hash that occurs twice.
func New(keys []Key) (*Keys, error) {
	k := &Keys{byDigest: make(map[[sha256.Size]byte]Principal, len(keys))}
	ids := map[string]bool{}
	for _, key := range keys {
		var digest [sha256.Size]byte
		n, err := hex.Decode(digest[:], []byte(key.SHA256[:min(len(key.SHA256), 2*sha256.Size)]))
		_, taken := k.byDigest[digest]
		switch {
		case key.ID == "" || key.Tenant == "" || len(key.Roles) == 0:
			return nil, fmt.Errorf("key %q: id, tenant and roles are required", key.ID)
		case err != nil || n != sha256.Size || len(key.SHA256) != 2*sha256.Size:
			return nil, fmt.Errorf("key %q: sha256 must be 64 hex digits", key.ID)
		case ids[key.ID]:
			return nil, fmt.Errorf("key %q: the id is there twice", key.ID)
		case taken:
			return nil, fmt.Errorf("key %q: another id has the same sha256", key.ID)
		}
		p := Principal{ID: key.ID, Tenant: key.Tenant}
		for _, name := range key.Roles {
			role, err := ParseRole(name)
			if err != nil {
				return nil, fmt.Errorf("key %q: %w", key.ID, err)
			}
			p.Roles = append(p.Roles, role)
		}
		ids[key.ID] = true
		k.byDigest[digest] = p
	}
	return k, nil
}

// Hash returns what the config stores for a key: 64 lower-case hex digits.
func Hash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// Authenticate says who sent these headers. The error is Unauthenticated and says what to
// send instead; it never repeats what was sent. There must be exactly one Authorization
// header: with two, a proxy in between and the gateway might believe different ones.
//
// The key is looked up by its digest. How long the map takes depends on the digest alone,
// and a caller cannot choose keys whose digests approach a stored one, so no
// constant-time comparison is needed.
func (k *Keys) Authenticate(header http.Header) (Principal, *intent.Error) {
	values := header.Values("Authorization")
	switch len(values) {
	case 0:
		return Principal{}, refuse("This request carries no key. Send one as: Authorization: Bearer <key>")
	case 1:
	default:
		return Principal{}, refuse("This request carries several Authorization headers. Send exactly one: Authorization: Bearer <key>")
	}
	scheme, key, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") || key == "" {
		return Principal{}, refuse("The Authorization header is not of the form this gateway takes. Send: Authorization: Bearer <key>")
	}
	p, ok := k.byDigest[sha256.Sum256([]byte(key))]
	if !ok {
		p, ok = k.byDigest[sha256.Sum256([]byte("Bearer "+key))]
	}
	if !ok {
		return Principal{}, refuse("The gateway does not know this key. Check that it is whole and current, or ask the operator for one.")
	}
	return p, nil
}

func refuse(public string) *intent.Error {
	return intent.Errorf(intent.Unauthenticated, nil, public)
}
