package auth_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/latchkey-gateway/latchkey/gateway/auth"
	"github.com/latchkey-gateway/latchkey/intent"
)

func keys(t *testing.T) *auth.Keys {
	t.Helper()
	k, err := auth.New([]auth.Key{
		{ID: "fleet-a", SHA256: auth.Hash("secret-a"), Tenant: "acme", Roles: []string{"agent"}},
		{ID: "desk", SHA256: strings.ToUpper(auth.Hash("secret-desk")), Tenant: "acme", Roles: []string{"viewer", "operator"}},
		{ID: "fleet-b", SHA256: auth.Hash("secret-b"), Tenant: "umbrella", Roles: []string{"agent"}},
		{ID: "fleet-d", SHA256: auth.Hash("Bearer secret-d"), Tenant: "acme", Roles: []string{"agent"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestHashIsOfTheKeyAlone(t *testing.T) {
	t.Parallel()
	// printf %s secret-a | sha256sum
	if got, want := auth.Hash("secret-a"), "8766b9cb08e6040b704f1e3ee1e186efccf2635b1d2634d6525333007e6aeae1"; got != want {
		t.Fatalf("Hash = %q, want %q", got, want)
	}
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	k := keys(t)
	for _, test := range []struct {
		name   string
		values []string
		id     string // of the principal; "" for a refusal
		text   string // that the refusal holds
	}{
		{"a known key", []string{"Bearer secret-a"}, "fleet-a", ""},
		{"the other tenant's", []string{"Bearer secret-b"}, "fleet-b", ""},
		{"a hash configured in upper case", []string{"Bearer secret-desk"}, "desk", ""},
		{"a hash of the whole header value", []string{"Bearer secret-d"}, "fleet-d", ""},
		{"the scheme in another case", []string{"bEARER secret-a"}, "fleet-a", ""},
		{"no header", nil, "", "carries no key"},
		{"two headers", []string{"Bearer secret-a", "Bearer secret-a"}, "", "exactly one"},
		{"an empty header", []string{""}, "", "Authorization: Bearer <key>"},
		{"no key", []string{"Bearer"}, "", "Authorization: Bearer <key>"},
		{"an empty key", []string{"Bearer "}, "", "Authorization: Bearer <key>"},
		{"the key alone", []string{"secret-a"}, "", "Authorization: Bearer <key>"},
		{"another scheme", []string{"Basic secret-a"}, "", "Authorization: Bearer <key>"},
		{"an unknown key", []string{"Bearer secret-c"}, "", "does not know"},
		{"the stored hash", []string{"Bearer " + auth.Hash("secret-a")}, "", "does not know"},
		{"the key in another case", []string{"Bearer SECRET-A"}, "", "does not know"},
		{"a key and more", []string{"Bearer secret-a "}, "", "does not know"},
		{"two spaces", []string{"Bearer  secret-a"}, "", "does not know"},
		{"two keys in one header", []string{"Bearer secret-a, Bearer secret-a"}, "", "does not know"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p, err := k.Authenticate(http.Header{"Authorization": test.values})
			if test.id != "" {
				if err != nil || p.ID != test.id {
					t.Fatalf("Authenticate = %+v, %v; want %s", p, err, test.id)
				}
				return
			}
			if err == nil {
				t.Fatalf("Authenticate let %+v in", p)
			}
			if err.Category != intent.Unauthenticated || !strings.Contains(err.Public, test.text) {
				t.Errorf("Authenticate said %v; want unauthenticated with %q", err, test.text)
			}
			if strings.Contains(strings.ToLower(err.Error()), "secret") {
				t.Errorf("the refusal repeats the key: %v", err)
			}
		})
	}
}

func TestRoles(t *testing.T) {
	t.Parallel()
	p, err := keys(t).Authenticate(http.Header{"Authorization": {"Bearer secret-desk"}})
	if err != nil {
		t.Fatal(err)
	}
	if p.Tenant != "acme" || !p.Can(auth.Operator) || !p.Can(auth.Agent, auth.Viewer) || p.Can(auth.Agent) || p.Can() {
		t.Errorf("wrong rights of %+v", p)
	}
	if err := p.Require(auth.Agent, auth.Viewer); err != nil {
		t.Errorf("Require(agent, viewer) = %v", err)
	}
	refusal := p.Require(auth.Agent)
	if refusal == nil || refusal.Category != intent.Forbidden || !strings.Contains(refusal.Public, "role agent") {
		t.Errorf("Require(agent) = %v", refusal)
	}
	if (auth.Principal{Roles: []auth.Role{0}}).Can(auth.Agent) {
		t.Error("the zero role can something")
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	good := auth.Key{ID: "a", SHA256: auth.Hash("a"), Tenant: "acme", Roles: []string{"agent"}}
	with := func(change func(*auth.Key)) auth.Key {
		k := good
		change(&k)
		return k
	}
	for name, list := range map[string][]auth.Key{
		"no id":        {with(func(k *auth.Key) { k.ID = "" })},
		"no tenant":    {with(func(k *auth.Key) { k.Tenant = "" })},
		"no role":      {with(func(k *auth.Key) { k.Roles = nil })},
		"unknown role": {with(func(k *auth.Key) { k.Roles = []string{"admin"} })},
		"invalid role": {with(func(k *auth.Key) { k.Roles = []string{"invalid"} })},
		"no hash":      {with(func(k *auth.Key) { k.SHA256 = "" })},
		"short hash":   {with(func(k *auth.Key) { k.SHA256 = k.SHA256[:62] })},
		"long hash":    {with(func(k *auth.Key) { k.SHA256 += "00" })},
		"not hex":      {with(func(k *auth.Key) { k.SHA256 = strings.Repeat("g", 64) })},
		"same id":      {good, with(func(k *auth.Key) { k.SHA256 = auth.Hash("b") })},
		"same hash":    {good, with(func(k *auth.Key) { k.ID = "b" })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := auth.New(list); err == nil {
				t.Error("New took it")
			}
		})
	}
	if _, err := auth.New([]auth.Key{good}); err != nil {
		t.Errorf("New(good) = %v", err)
	}
}
