package config_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/gateway/config"
)

// Each case adds lines to the minimal config, from line 12 on, or replaces a part of it.
// The problems are all that Parse reports, in this order.
var refused = []struct {
	name     string
	old, new string // "" adds new at the end
	problems []string
}{
	{"unknown field of a tool", "", "    tmeout: 3s\n",
		[]string{"latchkey.yaml:12: tools.send.tmeout: unknown field; did you mean timeout?"}},
	{"unknown field at the top", "", "retentoin: {}\n",
		[]string{"latchkey.yaml:12: retentoin: unknown field; did you mean retention?"}},
	{"unknown field like no other", "", "lease: 5s\nretention:\n  zzz: 1\n",
		[]string{"latchkey.yaml:14: retention.zzz: unknown field; the fields are hot, result, tombstone"}},
	{"duplicate field", "", "    timeout: 3s\n    timeout: 4s\n",
		[]string{"latchkey.yaml:13: tools.send.timeout: duplicate name, first on line 12"}},
	{"duplicate tool", "", "  send: {class: read_only}\n",
		[]string{"latchkey.yaml:12: tools.send: duplicate name, first on line 8"}},
	{"duplicate name in a free-form value", "", "    input_schema:\n      type: object\n      type: array\n",
		[]string{"latchkey.yaml:14: tools.send.input_schema.type: duplicate name, first on line 13"}},
	{"duplicate status", "", "    statuses: {503: not_accepted, 503: unknown}\n",
		[]string{"latchkey.yaml:12: tools.send.statuses.503: duplicate name, first on line 12"}},
	{"merge key", "", "    <<: {timeout: 3s}\n",
		[]string{"latchkey.yaml:12: tools.send: merging with << is not supported: write the fields out"}},
	{"a list as a name", "", "? [a]\n: 1\n",
		[]string{"latchkey.yaml:12: has a name that is a list: a name is a string"}},
	{"second document", "", "---\nlease: 3s\n",
		[]string{"latchkey.yaml:12: holds a second document (after ---): a config is one"}},
	{"no YAML", "", "a: b: c\n",
		[]string{"latchkey.yaml:12: is not valid YAML: mapping values are not allowed in this context"}},
	{"empty", minimal, "# nothing\n",
		[]string{"latchkey.yaml: is empty: it needs at least store, auth, downstreams and tools"}},
	{"a string only", minimal, "hello\n",
		[]string{`latchkey.yaml:1: needs a mapping of names to values, not the string "hello"`}},

	{"missing value", "", "lease:\n", []string{"latchkey.yaml:12: lease: has no value: give it one, or remove the line"}},
	{"list for a mapping", "", "limits: [1]\n", []string{"latchkey.yaml:12: limits: needs a mapping of names to values, not a list"}},
	{"string for a list", "", "    identity: /to\n", []string{`latchkey.yaml:12: tools.send.identity: needs a list, not the string "/to"`}},
	{"number for a string", "", "region: 7\n", []string{"latchkey.yaml:12: region: needs a string, not 7; write it in quotes"}},
	{"quoted number", "", "limits: {in_flight: \"7\"}\n", []string{`latchkey.yaml:12: limits.in_flight: needs a whole number, not the string "7"; write it without quotes`}},
	{"fraction for a whole number", "", "limits: {in_flight: 7.5}\n", []string{"latchkey.yaml:12: limits.in_flight: needs a whole number, not 7.5"}},
	{"string for a boolean", "", "pprof: maybe\n", []string{`latchkey.yaml:12: pprof: needs true or false, not the string "maybe"`}},
	{"duration without unit", "", "lease: 10\n", []string{`latchkey.yaml:12: lease: needs a duration such as 500ms, 30s or 24h, not "10"; it lacks a unit`}},
	{"no duration", "", "lease: 1d\n", []string{`latchkey.yaml:12: lease: needs a duration such as 500ms, 30s or 24h, not "1d"`}},
	{"no size", "", "limits: {body: 1XB}\n", []string{`latchkey.yaml:12: limits.body: needs a size such as 512, 64KiB or 10MB, not "1XB"`}},
	{"not a number", "", "tracing: {sample: .nan}\n", []string{`latchkey.yaml:12: tracing.sample: needs a number, not ".nan"`}},
	{"no switch", "", "    step_guard: maybe\n", []string{`latchkey.yaml:12: tools.send.step_guard: needs on or off, not "maybe"`}},
	{"body of a wrong kind", "path: /emails}", "path: /emails, body: arg}",
		[]string{`latchkey.yaml:11: tools.send.request.body: needs args, none or a mapping to be filled in, not "arg"`}},
	{"octal in a free-form value", "", "    input_schema: {maxLength: 0o17}\n",
		[]string{"latchkey.yaml:12: tools.send.input_schema.maxLength: write the number 0o17 as JSON does, or in quotes"}},
	{"number as a name in a free-form value", "", "    input_schema: {1: a}\n",
		[]string{"latchkey.yaml:12: tools.send.input_schema.1: the name must be a string; write it in quotes"}},
	{"binary in a free-form value", "", "    input_schema: {a: !!binary aGk=}\n",
		[]string{"latchkey.yaml:12: tools.send.input_schema.a: the YAML type !!binary has no form in JSON"}},
	{"a word as a status", "", "    statuses: {5xx: unknown}\n",
		[]string{"latchkey.yaml:12: tools.send.statuses.5xx: the name must be a whole number"}},
	{"unknown word for a status", "", "    statuses: {503: not_acepted}\n",
		[]string{`latchkey.yaml:12: tools.send.statuses.503: "not_acepted" is not one of accepted, not_accepted, not_accepted_for_now, unknown; did you mean not_accepted?`}},

	{"lease too short", "", "lease: 900ms\n", []string{"latchkey.yaml:12: lease: must be between 1s and 1h"}},
	{"lease too long", "", "lease: 61m\n", []string{"latchkey.yaml:12: lease: must be between 1s and 1h"}},
	{"body too large", "", "limits: {body: 1GiB}\n", []string{"latchkey.yaml:12: limits.body: must be between 1KiB and 64MiB"}},
	{"negative wait", "", "limits: {wait: -1s}\n", []string{"latchkey.yaml:12: limits.wait: must be between 0s and 1h"}},
	{"zero timeout", "", "    timeout: 0s\n", []string{"latchkey.yaml:12: tools.send.timeout: must be at least 1ms"}},

	{"hot longer than result", "", "retention: {hot: 48h, result: 24h}\n",
		[]string{"latchkey.yaml:12: retention.hot: 48h0m0s is longer than retention.result (24h0m0s): Redis would show results that the store has dropped"}},
	{"tombstone shorter than result", "", "retention: {tombstone: 25h}\n",
		[]string{"latchkey.yaml:12: retention.tombstone: 25h0m0s is shorter than retention.result (720h0m0s): a key must be remembered longer than its result"}},
	{"hot shorter than lease", "", "retention: {hot: 1m}\nlease: 2m\n",
		[]string{"latchkey.yaml:12: retention.hot: 1m0s is shorter than lease (2m0s)"}},

	{"no port", "", "listen: 127.0.0.1\n", []string{`latchkey.yaml:12: listen: "127.0.0.1" is not host:port, such as 127.0.0.1:8080`}},
	{"same addresses", "", "operator_listen: 127.0.0.1:8080\n",
		[]string{"latchkey.yaml:12: operator_listen: 127.0.0.1:8080 is also the address of listen (127.0.0.1:8080): agents must not reach the operators' API"}},
	{"overlapping addresses", "", "listen: :9000\noperator_listen: 127.0.0.1:9000\n",
		[]string{"latchkey.yaml:13: operator_listen: 127.0.0.1:9000 is also the address of listen (:9000): agents must not reach the operators' API"}},

	{"no key", "  keys:\n    - {id: desk, sha256: 79f06f8fde333461739f220090a23cb2a79f6d714bee100d0e4b4af249294619, tenant: acme, roles: [agent, operator]}\n", "  keys: []\n",
		[]string{"latchkey.yaml:3: auth.keys: there is no key, so nobody could call: add auth.keys with id, sha256, tenant and roles; hash a key with: printf %s \"$KEY\" | sha256sum"}},
	{"no key and reachable", "  keys:\n    - {id: desk, sha256: 79f06f8fde333461739f220090a23cb2a79f6d714bee100d0e4b4af249294619, tenant: acme, roles: [agent, operator]}\n", "  keys: []\nlisten: 0.0.0.0:8080\n",
		[]string{"latchkey.yaml:4: listen: 0.0.0.0:8080 can be reached from other machines but there is no key: add auth.keys with id, sha256, tenant and roles; hash a key with: printf %s \"$KEY\" | sha256sum"}},
	{"incomplete key", "tenant: acme, roles: [agent, operator]}", "roles: []}", []string{
		"latchkey.yaml:4: auth.keys[0].roles: needs one role or more: agent, viewer, operator",
		"latchkey.yaml:4: auth.keys[0].tenant: must not be empty"}},
	{"unknown role", "[agent, operator]", "[agent, oprator]",
		[]string{`latchkey.yaml:4: auth.keys[0].roles[1]: "oprator" is not one of agent, viewer, operator; did you mean operator?`}},
	{"same id", "roles: [agent, operator]}", "roles: [operator]}\n    - {id: desk, sha256: 79f06f8fde333461739f220090a23cb2a79f6d714bee100d0e4b4af24929461a, tenant: acme, roles: [agent]}",
		[]string{`latchkey.yaml:5: auth.keys[1].id: "desk" is also the id of auth.keys[0]`}},
	{"same hash in another case", "roles: [agent, operator]}", "roles: [operator]}\n    - {id: b, sha256: 79F06F8FDE333461739F220090A23CB2A79F6D714BEE100D0E4B4AF249294619, tenant: acme, roles: [agent]}",
		[]string{"latchkey.yaml:5: auth.keys[1].sha256: is also the hash of auth.keys[0]: two ids must not share a key"}},
	{"hash of nothing", "79f06f8fde333461739f220090a23cb2a79f6d714bee100d0e4b4af249294619", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		[]string{"latchkey.yaml:4: auth.keys[0].sha256: is the hash of an empty key"}},
	{"no hash at all", "79f06f8fde333461739f220090a23cb2a79f6d714bee100d0e4b4af249294619", "secret",
		[]string{`latchkey.yaml:4: auth.keys[0].sha256: must be 64 hex digits: the SHA-256 of the key, from printf %s "$KEY" | sha256sum`}},

	{"two standalone servers", "", "redis: {addrs: [\"a:1\", \"b:2\"]}\n",
		[]string{"latchkey.yaml:12: redis.addrs: mode standalone needs exactly one address; with several, say sentinel or cluster"}},
	{"sentinel without anything", "", "redis: {mode: sentinel}\n", []string{
		"latchkey.yaml:12: redis.addrs: mode sentinel needs the sentinels' addresses",
		"latchkey.yaml:12: redis.master_name: mode sentinel needs the name of the primary"}},
	{"cluster with a database", "", "redis: {mode: cluster, addrs: [\"a:1\"], db: 2}\n",
		[]string{"latchkey.yaml:12: redis.db: has no meaning with mode cluster"}},
	{"embedded with addresses", "", "redis: {mode: embedded, addrs: [\"a:1\"]}\n",
		[]string{"latchkey.yaml:12: redis.addrs: has no meaning with mode embedded"}},
	{"unknown mode", "", "redis: {mode: sentinal}\n",
		[]string{`latchkey.yaml:12: redis.mode: "sentinal" is not one of standalone, sentinel, cluster, embedded; did you mean sentinel?`}},
	{"same address twice", "", "redis: {mode: cluster, addrs: [\"a:1\", \"a:1\"]}\n",
		[]string{`latchkey.yaml:12: redis.addrs[1]: "a:1" is there twice`}},
	{"hash tag in the prefix", "", "redis: {prefix: \"{x}\"}\n",
		[]string{"latchkey.yaml:12: redis.prefix: must not contain { or }: they would decide the cluster slot of every key"}},
	{"no certificate", "", "redis: {tls: {ca: hello}}\n",
		[]string{"latchkey.yaml:12: redis.tls: ca holds no certificate in PEM form"}},
	{"certificate without key", "", "redis: {tls: {cert: hello}}\n",
		[]string{"latchkey.yaml:12: redis.tls: cert and key must be given together"}},

	{"postgres without dsn", ", dsn: \"postgres://x@127.0.0.1/latchkey\"", "",
		[]string{"latchkey.yaml:1: store.dsn: driver postgres needs a dsn, such as postgres://user@host:5432/latchkey"}},
	{"a dsn that is none", "postgres://x@127.0.0.1/latchkey", "postgres://u:hunter2@h:port/l",
		[]string{"latchkey.yaml:1: store.dsn: is not an address that PostgreSQL's clients understand, such as postgres://user@host:5432/latchkey?sslmode=verify-full (the files it names must be there)"}},
	{"sqlite with a dsn", "driver: postgres", "driver: sqlite, path: x",
		[]string{"latchkey.yaml:1: store.dsn: has no meaning with driver sqlite"}},
	{"memory is not offered", "driver: postgres", "driver: memory",
		[]string{`latchkey.yaml:1: store.driver: "memory" is not one of postgres, sqlite`}},
	{"a seal key of another length", "driver: postgres", "seal_key: 000102030405060708090a0b0c0d0e0f, driver: postgres",
		[]string{"latchkey.yaml:1: store.seal_key: must be 32 random bytes as 64 hex digits or base64, from: openssl rand -hex 32"}},
	{"a seal key of zeros", "driver: postgres", `seal_key: "0000000000000000000000000000000000000000000000000000000000000000", driver: postgres`,
		[]string{"latchkey.yaml:1: store.seal_key: is one byte again and again, which is no secret; make one with: openssl rand -hex 32"}},
	{"a seal key that is a number", "driver: postgres", "seal_key: 12345, driver: postgres",
		[]string{"latchkey.yaml:1: store.seal_key: needs a string; write it in quotes"}},
	{"redacted arguments for an approval", "", "    redact: [/card]\n    approval: {}\n",
		[]string{"latchkey.yaml:12: tools.send.redact: these arguments are not kept in clear, but approval needs them again: set store.seal_key, so that they are kept encrypted (openssl rand -hex 32), or do without one of the two"}},
	{"redacted arguments for a retry", "", "    redact: [/card]\n    forward_key: {dedupes: true, for: 24h}\n    on_unknown: retry\n",
		[]string{"latchkey.yaml:12: tools.send.redact: these arguments are not kept in clear, but on_unknown: retry needs them again: set store.seal_key, so that they are kept encrypted (openssl rand -hex 32), or do without one of the two"}},
	{"a redacted argument in a lookup", "", "    redact: [/card]\n    lookup: {request: {method: GET, path: \"/e?card={args.card.number}\"}, completed_when: \"response.status == 200\"}\n",
		[]string{"latchkey.yaml:12: tools.send.redact: these arguments are not kept in clear, but lookup.request needs them again: set store.seal_key, so that they are kept encrypted (openssl rand -hex 32), or do without one of the two"}},
	{"a lookup rule with a slip", "", "    lookup: {request: {method: GET, path: \"/e\"}, completed_when: \"response.sttaus == 200\"}\n",
		[]string{"latchkey.yaml:12: tools.send.lookup.completed_when: column 9: undefined field 'sttaus'"}},
	{"three people", "", "    approval: {people: 3}\n",
		[]string{"latchkey.yaml:12: tools.send.approval.people: must be between 1 and 2"}},
	{"acting again without proof", "", "    lookup: {request: {method: GET, path: \"/e\"}, completed_when: \"response.status == 200\", reexecute_when_absent: true}\n",
		[]string{"latchkey.yaml:12: tools.send.lookup.reexecute_when_absent: needs absence_is_proof: acting again is safe only where it is proved that it did not happen"}},

	{"an empty webhook", "", "notify: {}\n", []string{
		"latchkey.yaml:12: notify.secret: must be whsec_ and the base64 of 24 to 64 random bytes, from: echo whsec_$(openssl rand -base64 32)",
		"latchkey.yaml:12: notify.url: is needed: where messages are posted, such as https://ops.example.com/latchkey"}},
	{"a webhook in clear", "", "notify: {url: \"http://ops.example.com/?token=hunter2\", secret: whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz}\n",
		[]string{"latchkey.yaml:12: notify.url: must be https: only messages to this machine may go in clear"}},
	{"a webhook that is no URL", "", "notify: {url: \"ops.example.com\", secret: whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz}\n",
		[]string{"latchkey.yaml:12: notify.url: must be a URL such as https://ops.example.com/latchkey"}},
	{"a webhook with a password", "", "notify: {url: \"https://u:hunter2@ops.example.com\", secret: whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz}\n",
		[]string{"latchkey.yaml:12: notify.url: must not hold a user or password: the receiver knows a message by its signature"}},
	{"a webhook secret of another form", "", "notify: {url: \"https://o\", secret: hunter2-hunter2-hunter2}\n",
		[]string{"latchkey.yaml:12: notify.secret: must be whsec_ and the base64 of 24 to 64 random bytes, from: echo whsec_$(openssl rand -base64 32)"}},
	{"a short webhook secret", "", "notify: {url: \"https://o\", secret: whsec_aHVudGVyMg==}\n",
		[]string{"latchkey.yaml:12: notify.secret: must be whsec_ and the base64 of 24 to 64 random bytes, from: echo whsec_$(openssl rand -base64 32)"}},
	{"events", "", "notify: {url: \"https://o\", secret: whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz, events: [parkt, doubt, doubt]}\n", []string{
		`latchkey.yaml:12: notify.events: "doubt" is there twice`,
		`latchkey.yaml:12: notify.events[0]: "parkt" is not one of parked, awaiting_approval, doubt; did you mean parked?`}},
	{"no events", "", "notify: {url: \"https://o\", secret: whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz, events: []}\n",
		[]string{"latchkey.yaml:12: notify.events: is empty: name parked, awaiting_approval or doubt, or remove notify"}},

	{"hot with an embedded Redis and a shared store", "", "    durability: hot\nredis: {mode: embedded}\n",
		[]string{"latchkey.yaml:12: tools.send.durability: hot relies on Redis alone, and with an embedded Redis and a shared store every replica would act once: use durable, or a shared Redis"}},

	{"faults unasked", "", "faults: {send: {after_effect_timeout: 0.2}}\n",
		[]string{"latchkey.yaml:12: faults: loses real answers on purpose and is refused: remove it, or on a staging system start with --allow-faults"}},
	{"faults out of range", "", "faults: {send: {after_effect_timeout: 1.2}}\n", []string{
		"latchkey.yaml:12: faults: loses real answers on purpose and is refused: remove it, or on a staging system start with --allow-faults",
		"latchkey.yaml:12: faults.send.after_effect_timeout: must be between 0 and 1"}},
	{"link without a trace id", "", "tracing: {console_link: \"http://jaeger/trace\"}\n",
		[]string{"latchkey.yaml:12: tracing.console_link: must be an http(s) URL with {trace_id} in it"}},

	{"what package downstream finds", "class: effectful", "class: efectful",
		[]string{`latchkey.yaml:9: tools.send.class: "efectful" is not one of read_only, idempotent, effectful, irreversible; did you mean effectful?`}},
	{"an unclassed tool", "    class: effectful\n", "",
		[]string{"latchkey.yaml:8: tools.send.class: is required: read_only, idempotent, effectful or irreversible"}},
	{"a tool without its downstream", "downstream: billing", "downstream: biling",
		[]string{`latchkey.yaml:10: tools.send.downstream: "biling" is not one of the downstreams`}},
	{"a bad base URL", "http://127.0.0.1:9100", "ftp://x",
		[]string{"latchkey.yaml:6: downstreams.billing.base_url: must be a URL such as https://billing.example.com/v1"}},
	{"several at once, by line", "", "    timeout: 5\n    identity: [to]\nlisten: x\nlease: 0s\nauht: {}\n", []string{
		`latchkey.yaml:12: tools.send.timeout: needs a duration such as 500ms, 30s or 24h, not "5"; it lacks a unit`,
		`latchkey.yaml:13: tools.send.identity: JSON pointer "to" must start with /`,
		`latchkey.yaml:14: listen: "x" is not host:port, such as 127.0.0.1:8080`,
		"latchkey.yaml:15: lease: must be between 1s and 1h",
		"latchkey.yaml:16: auht: unknown field; did you mean auth?"}},
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for _, test := range refused {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			text := minimal + test.new
			if test.old != "" {
				if !strings.Contains(minimal, test.old) {
					t.Fatal("the case replaces nothing")
				}
				text = strings.Replace(minimal, test.old, test.new, 1)
			}
			cfg, _, err := parse(text)
			if cfg != nil || err == nil {
				t.Fatal("Parse took it")
			}
			if _, ok := errors.AsType[config.Problems](err); !ok {
				t.Errorf("the error is no Problems: %T", err)
			}
			if want := strings.Join(test.problems, "\n"); err.Error() != want {
				t.Errorf("got\n%v\nwant\n%s", err, want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Error("the problem shows a secret")
			}
		})
	}
}

func TestFaultsAreChecked(t *testing.T) {
	t.Parallel()
	opts := options()
	opts.AllowFaults = true
	_, _, err := config.Parse("f", []byte(minimal+"faults: {sned: {after_effect_timeout: 0.6, after_effect_reset: 0.6}}\n"), opts)
	want := "f:12: faults.sned: is not the name of a tool\nf:12: faults.sned: the shares add up to more than 1"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if _, _, err := config.Parse("f", []byte(minimal+"faults: {}\n"), config.Options{}); err != nil {
		t.Errorf("an empty section: %v", err)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, old, new, field, text string }{
		{"sqlite with a shared Redis", `driver: postgres, dsn: "postgres://x@127.0.0.1/latchkey"`, "driver: sqlite, path: a.db", "store.driver", "own SQLite file"},
		{"postgres with an embedded Redis", "", "redis: {mode: embedded}\n", "redis.mode", "own embedded Redis"},
		{"nobody decides", "[agent, operator]", "[agent]", "auth.keys", "role operator"},
		{"an unused downstream", "tools:\n", "  crm: {base_url: \"http://127.0.0.1:9101\"}\ntools:\n", "downstreams.crm", "no tool uses it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			text := minimal + test.new
			if test.old != "" {
				text = strings.Replace(minimal, test.old, test.new, 1)
			}
			_, warnings, err := parse(text)
			if err != nil || len(warnings) != 1 || warnings[0].Field != test.field || !strings.Contains(warnings[0].String(), test.text) || warnings[0].Line == 0 {
				t.Errorf("Parse: %v; warnings %v, want %s: ...%s...", err, warnings, test.field, test.text)
			}
		})
	}
	sqlite := strings.Replace(minimal, `driver: postgres, dsn: "postgres://x@127.0.0.1/latchkey"`, "driver: sqlite, path: a.db", 1)
	if _, warnings, err := parse(sqlite + "redis: {mode: embedded}\n"); err != nil || len(warnings) != 0 {
		t.Errorf("the embedded pair: %v, %v", err, warnings)
	}
}

func TestSealKeys(t *testing.T) {
	t.Parallel()
	want := make([]byte, 32)
	for i := range want {
		want[i] = byte(i)
	}
	for _, written := range []string{"${env:LATCHKEY_SEAL_KEY}", "000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F",
		"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"} {
		cfg := mustParse(t, strings.Replace(minimal, "{driver", `{seal_key: "`+written+`", driver`, 1)+"    redact: [/card]\n    approval: {people: 2}\n")
		if got := cfg.Store.Seal(); !bytes.Equal(got, want) {
			t.Errorf("%s: %x", written, got)
		}
		if a := cfg.Tools["send"].Approval; a.People != 2 || a.Expires != time.Hour {
			t.Errorf("approval %+v", a)
		}
	}
	if got := mustParse(t, minimal).Store.Seal(); got != nil {
		t.Errorf("without one: %x", got)
	}
	// A redacted argument that nothing needs again needs no key.
	mustParse(t, minimal+"    redact: [/card]\n    lookup: {request: {method: GET, path: \"/e?r={key}\"}, completed_when: \"response.body.to == args.to\"}\n")
}

func TestNotify(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"https://ops.example.com/hook?token=x", "http://127.0.0.1:9/hook", "http://localhost/hook", "http://[::1]:9/"} {
		cfg := mustParse(t, minimal+"notify: {url: \""+url+"\", secret: whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz}\n")
		if n := cfg.Notify; n.URL != url || len(n.Events) != 3 {
			t.Errorf("%+v", n)
		}
	}
	cfg := mustParse(t, minimal+"notify: {url: \"https://o\", secret: whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz, events: [doubt]}\n")
	if n := cfg.Notify; !slices.Equal(n.Events, []string{"doubt"}) {
		t.Errorf("%+v", n)
	}
	if mustParse(t, minimal).Notify != nil {
		t.Error("there is a webhook that nobody asked for")
	}
}
