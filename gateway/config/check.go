package config

import (
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/latchkey-gateway/latchkey/intent"
)

// checker compares fields with each other: what each may be by itself is in its tags.
// Combinations that would break the promise are problems, so that they refuse to start;
// those that merely surprise are warnings.
type checker struct {
	cfg      *Config
	problems []Problem
	warnings []Problem
	wrong    []string // fields found wrong in themselves: one problem is enough
}

func (c *checker) at(field, format string, a ...any) Problem {
	return Problem{File: c.cfg.file, Line: c.cfg.Line(field), Field: field, Message: fmt.Sprintf(format, a...)}
}

func (c *checker) problem(field, format string, a ...any) {
	if !c.distrusted(field) {
		c.problems = append(c.problems, c.at(field, format, a...))
	}
}

// distrusted: the field or one around it was found wrong, so what it holds is not what the
// file says.
func (c *checker) distrusted(field string) bool {
	return slices.ContainsFunc(c.wrong, func(w string) bool {
		rest, below := strings.CutPrefix(field, w)
		return below && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

func (c *checker) warn(field, format string, a ...any) {
	c.warnings = append(c.warnings, c.at(field, format, a...))
}

func (c *checker) check(opts Options) {
	for _, p := range c.problems {
		c.wrong = append(c.wrong, p.Field)
	}
	c.checkNames()
	c.checkListeners()
	c.checkRedis()
	c.checkStore()
	c.checkNotify()
	c.checkRetention()
	c.checkKeys()
	c.checkTools()
	c.checkFaults(opts)
	c.checkTracing()
	c.checkCatalogue()
	c.checkSealed()
}

func (c *checker) checkNames() {
	for field, name := range map[string]string{"region": c.cfg.Region, "replica": c.cfg.Replica} {
		if why := intent.CheckID(name); why != "" {
			c.problem(field, "%s", why)
		}
	}
}

func (c *checker) checkListeners() {
	agents, okA := c.address("listen", c.cfg.Listen)
	operators, okO := c.address("operator_listen", c.cfg.OperatorListen)
	if okA && okO && agents.overlaps(operators) {
		c.problem("operator_listen", "%s is also the address of listen (%s): agents must not reach the operators' API", c.cfg.OperatorListen, c.cfg.Listen)
	}
	if len(c.cfg.Auth.Keys) > 0 || c.distrusted("auth.keys") {
		return
	}
	const how = "add auth.keys with id, sha256, tenant and roles; hash a key with: printf %s \"$KEY\" | sha256sum"
	switch {
	case okA && !agents.loopback():
		c.problem("listen", "%s can be reached from other machines but there is no key: %s", c.cfg.Listen, how)
	case okO && !operators.loopback():
		c.problem("operator_listen", "%s can be reached from other machines but there is no key: %s", c.cfg.OperatorListen, how)
	default:
		c.problem("auth.keys", "there is no key, so nobody could call: %s", how)
	}
}

type address struct{ host, port string }

// address takes host:port apart; the host may be empty, which means every interface.
func (c *checker) address(field, text string) (address, bool) {
	host, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		c.problem(field, "%q is not host:port, such as 127.0.0.1:8080", text)
	}
	return address{host, port}, err == nil
}

func (a address) everywhere() bool {
	ip := net.ParseIP(a.host)
	return a.host == "" || ip != nil && ip.IsUnspecified()
}

func (a address) loopback() bool {
	ip := net.ParseIP(a.host)
	return a.host == "localhost" || ip != nil && ip.IsLoopback()
}

// overlaps: port 0 asks for any free port, which never is the same one.
func (a address) overlaps(b address) bool {
	return a.port == b.port && a.port != "0" && (a.host == b.host || a.everywhere() || b.everywhere())
}

func (c *checker) checkRedis() {
	r := &c.cfg.Redis
	for i, addr := range r.Addrs {
		if field := fmt.Sprintf("redis.addrs[%d]", i); slices.Contains(r.Addrs[:i], addr) {
			c.problem(field, "%q is there twice", addr)
		} else if a, ok := c.address(field, addr); ok && a.host == "" {
			c.problem(field, "%q lacks a host", addr)
		}
	}
	for _, f := range []struct {
		given bool
		field string
		modes []string
	}{
		{len(r.Addrs) > 0, "addrs", []string{"standalone", "sentinel", "cluster"}},
		{r.MasterName != "", "master_name", []string{"sentinel"}},
		{r.SentinelUsername != "", "sentinel_username", []string{"sentinel"}},
		{r.SentinelPassword != "", "sentinel_password", []string{"sentinel"}},
		{r.Username != "", "username", []string{"standalone", "sentinel", "cluster"}},
		{r.Password != "", "password", []string{"standalone", "sentinel", "cluster"}},
		{r.TLS.Enabled, "tls", []string{"standalone", "sentinel", "cluster"}},
		{r.DB != 0, "db", []string{"standalone", "sentinel"}},
	} {
		if f.given && !slices.Contains(f.modes, r.Mode) {
			c.problem("redis."+f.field, "has no meaning with mode %s", r.Mode)
		}
	}
	switch {
	case r.Mode == "standalone" && len(r.Addrs) != 1:
		c.problem("redis.addrs", "mode standalone needs exactly one address; with several, say sentinel or cluster")
	case r.Mode == "sentinel" && len(r.Addrs) == 0:
		c.problem("redis.addrs", "mode sentinel needs the sentinels' addresses")
	case r.Mode == "cluster" && len(r.Addrs) == 0:
		c.problem("redis.addrs", "mode cluster needs the address of one node or more")
	}
	if r.Mode == "sentinel" && r.MasterName == "" {
		c.problem("redis.master_name", "mode sentinel needs the name of the primary")
	}
	if why := intent.CheckID(r.Prefix); why != "" {
		c.problem("redis.prefix", "%s", why)
	} else if strings.ContainsAny(r.Prefix, "{}") {
		c.problem("redis.prefix", "must not contain { or }: they would decide the cluster slot of every key")
	}
	if _, err := r.TLS.Config(); err != nil {
		c.problem("redis.tls", "%s", err)
	}
}

func (c *checker) checkStore() {
	s, embedded := &c.cfg.Store, c.cfg.Redis.Mode == "embedded"
	switch {
	case s.Driver == "postgres" && s.DSN == "":
		c.problem("store.dsn", "driver postgres needs a dsn, such as postgres://user@host:5432/latchkey")
	case s.Driver == "postgres" && s.Path != "":
		c.problem("store.path", "has no meaning with driver postgres")
	case s.Driver == "sqlite" && s.Path == "":
		c.problem("store.path", "driver sqlite needs the path of its file")
	case s.Driver == "sqlite" && s.DSN != "":
		c.problem("store.dsn", "has no meaning with driver sqlite")
	}
	if s.Driver == "postgres" && s.DSN != "" {
		// The reason stays out: it may quote what is around the password.
		if _, err := pgconn.ParseConfig(s.DSN); err != nil {
			c.problem("store.dsn", "is not an address that PostgreSQL's clients understand, such as postgres://user@host:5432/latchkey?sslmode=verify-full (the files it names must be there)")
		}
	}
	if s.Driver == "sqlite" && !embedded {
		c.warn("store.driver", "every replica would have its own SQLite file, and the same key could act once in each: run one replica, or use postgres")
	}
	if s.Driver == "postgres" && embedded {
		c.warn("redis.mode", "every replica has its own embedded Redis: replicas meet only in the store, which is safe but slower")
		for _, name := range slices.Sorted(maps.Keys(c.cfg.Tools)) {
			if c.cfg.Tools[name].Durability == "hot" {
				c.problem("tools."+name+".durability", "hot relies on Redis alone, and with an embedded Redis and a shared store every replica would act once: use durable, or a shared Redis")
			}
		}
	}
}

func (c *checker) checkRetention() {
	r := &c.cfg.Retention
	if r.Hot > r.Result {
		c.problem("retention.hot", "%s is longer than retention.result (%s): Redis would show results that the store has dropped", r.Hot, r.Result)
	}
	if r.Result > r.Tombstone {
		c.problem("retention.tombstone", "%s is shorter than retention.result (%s): a key must be remembered longer than its result", r.Tombstone, r.Result)
	}
	if r.Hot < c.cfg.Lease {
		c.problem("retention.hot", "%s is shorter than lease (%s)", r.Hot, c.cfg.Lease)
	}
}

// emptySHA256 is the hash of nothing: what a hashing command prints when its input is lost.
const emptySHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func (c *checker) checkKeys() {
	ids, hashes, decides := map[string]int{}, map[string]int{}, false
	for i, k := range c.cfg.Auth.Keys {
		field := func(name string) string { return fmt.Sprintf("auth.keys[%d].%s", i, name) }
		for name, value := range map[string]string{"id": k.ID, "tenant": k.Tenant} {
			if why := intent.CheckID(value); why != "" {
				c.problem(field(name), "%s", why)
			}
		}
		if first, ok := ids[k.ID]; ok && k.ID != "" {
			c.problem(field("id"), "%q is also the id of auth.keys[%d]", k.ID, first)
		} else {
			ids[k.ID] = i
		}
		hash := strings.ToLower(k.SHA256)
		if b, err := hex.DecodeString(hash); err != nil || len(b) != 32 {
			c.problem(field("sha256"), "must be 64 hex digits: the SHA-256 of the key, from printf %%s \"$KEY\" | sha256sum")
		} else if hash == emptySHA256 {
			c.problem(field("sha256"), "is the hash of an empty key")
		} else if first, ok := hashes[hash]; ok {
			c.problem(field("sha256"), "is also the hash of auth.keys[%d]: two ids must not share a key", first)
		} else {
			hashes[hash] = i
		}
		if len(k.Roles) == 0 {
			c.problem(field("roles"), "needs one role or more: agent, viewer, operator")
		}
		decides = decides || slices.Contains(k.Roles, "operator")
	}
	if len(c.cfg.Auth.Keys) > 0 && !decides {
		c.warn("auth.keys", "no key has the role operator: nobody could approve a call or resolve an unknown outcome")
	}
}

func (c *checker) checkTools() {
	if len(c.cfg.Tools) == 0 {
		c.warn("tools", "there is no tool: agents can call nothing")
	}
	used := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(c.cfg.Tools)) {
		used[c.cfg.Tools[name].Downstream] = true
	}
	for _, name := range slices.Sorted(maps.Keys(c.cfg.Downstreams)) {
		if !used[name] {
			c.warn("downstreams."+name, "no tool uses it")
		}
	}
}

func (c *checker) checkFaults(opts Options) {
	if len(c.cfg.Faults) == 0 {
		return
	}
	if !opts.AllowFaults {
		c.problem("faults", "loses real answers on purpose and is refused: remove it, or on a staging system start with --allow-faults")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.cfg.Faults)) {
		f := c.cfg.Faults[name]
		if _, ok := c.cfg.Tools[name]; !ok {
			c.problem("faults."+name, "is not the name of a tool")
		}
		if f.AfterEffectTimeout+f.AfterEffectReset+f.AfterEffectTruncate+f.BeforeEffectRefuse > 1 {
			c.problem("faults."+name, "the shares add up to more than 1")
		}
	}
}

func (c *checker) checkTracing() {
	t := &c.cfg.Tracing
	if t.OTLP != nil {
		if a, ok := c.address("tracing.otlp.endpoint", t.OTLP.Endpoint); ok && a.host == "" {
			c.problem("tracing.otlp.endpoint", "%q lacks a host", t.OTLP.Endpoint)
		}
	}
	if t.ConsoleLink == "" {
		return
	}
	u, err := url.Parse(strings.ReplaceAll(t.ConsoleLink, "{trace_id}", "0"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || !strings.Contains(t.ConsoleLink, "{trace_id}") {
		c.problem("tracing.console_link", "must be an http(s) URL with {trace_id} in it")
	}
}
