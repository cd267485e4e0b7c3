package intent_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/latchkey-gateway/latchkey/intent"
)

var (
	surrogate    = regexp.MustCompile(`\\u[dD][89a-fA-F]`)
	longExponent = regexp.MustCompile(`[eE][+-]?[0-9]{9,}`)
)

// stricter says whether valid JSON has something that Parse documents to refuse (for
// surrogates and exponents: may have).
func stricter(data []byte) bool {
	if !utf8.Valid(data) || surrogate.Match(data) || longExponent.Match(data) {
		return true
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	type level struct {
		object, atValue bool
		seen            map[string]bool
	}
	stack := []*level{{}}
	for {
		token, err := d.Token()
		if err != nil {
			return false
		}
		top := stack[len(stack)-1]
		name, isText := token.(string)
		switch {
		case token == json.Delim('}') || token == json.Delim(']'):
			stack = stack[:len(stack)-1]
			continue
		case top.object && !top.atValue && isText:
			if top.seen[name] {
				return true
			}
			top.seen[name], top.atValue = true, true
			continue
		}
		top.atValue = false
		if token == json.Delim('{') || token == json.Delim('[') {
			stack = append(stack, &level{object: token == json.Delim('{'), seen: map[string]bool{}})
			if len(stack) > MaxDepth {
				return true
			}
		}
	}
}

var texts = []string{
	`{"run_id":"run-42","step_id":"7","args":{"invoice_id":"inv-1","to":"a@example.com"}}`, `[1,1.0,1e0,-0,9007199254740993]`, `"\ud83d\ude00\u0000"`,
	`{"a":1,"\u0061":2}`, `"\ud800"`, "\"\xff\"", `1e999999999`, `10e999999999`, `{"":{"":[]}}`, " null ", `[`, `{"a"`, "\ufeff1", `01`, `"\`, `"\u12`, nested(130),
}

// FuzzParse: never a panic; what is taken and refused is what encoding/json takes and
// refuses, apart from what Parse documents to refuse; writing and reading changes nothing.
func FuzzParse(f *testing.F) {
	for _, s := range texts {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		v, err := Parse(data)
		if !bytes.Equal(data, before) {
			t.Fatal("the input was changed")
		}
		if valid := json.Valid(data); err == nil && !valid || err != nil && valid && !stricter(data) {
			t.Fatalf("%q: %v, but to encoding/json it is valid: %v", data, err, valid)
		}
		if err != nil {
			return
		}
		written := v.AppendJSON(nil)
		back, err := Parse(written)
		if err != nil || !bytes.Equal(back.AppendJSON(nil), written) || !json.Valid(written) {
			t.Fatalf("%q was written as %q: %v", data, written, err)
		}
		canonical := v.AppendCanonical(nil)
		if !bytes.Equal(back.AppendCanonical(nil), canonical) || !json.Valid(canonical) {
			t.Fatalf("%q: canonical %q, written and read %q", data, canonical, back.AppendCanonical(nil))
		}
		if again, err := Parse(canonical); err == nil && !bytes.Equal(again.AppendCanonical(nil), canonical) || err != nil && !longExponent.Match(canonical) {
			t.Fatalf("%q: canonical %q is not its own canonical form: %v", data, canonical, err)
		}
	})
}

// FuzzDerive: two calls have one key if and only if they say the same; never a panic,
// whatever the ids hold.
func FuzzDerive(f *testing.F) {
	f.Add("acme", "run", "step", 0, "", `{"a":1,"b":[2]}`, "acme", "run", "step", 0, "", `{"b":[2.0],"a":1e0}`)
	f.Add("acme", "run:step", "", 0, "", `{"a":1}`, "acme", "run", ":step", 0, "", `{"a":2}`)
	f.Add("acme", "", "", 0, "k", `{"a":"x"}`, "acmek", "\xff", "\x00", -1, "", `null`)
	f.Fuzz(func(t *testing.T, tenant, run, step string, occurrence int, explicit, args, tenant2, run2, step2 string, occurrence2 int, explicit2, args2 string) {
		a, err := Parse([]byte(args))
		b, err2 := Parse([]byte(args2))
		if err != nil || err2 != nil {
			return
		}
		identity := Pointer{"a"}
		all, some := &Rules{Tool: "t", StepGuard: true}, &Rules{Tool: "t", Identity: []Pointer{identity}, Volatile: []Pointer{{"b"}}}
		x, y := Call{tenant, run, step, occurrence, explicit, a}, Call{tenant2, run2, step2, occurrence2, explicit2, b}
		canonical := func(v Value) string { return string(v.AppendCanonical(nil)) }

		sameSlot := tenant == tenant2 && run == run2 && step == step2 && occurrence == occurrence2
		sameArgs := canonical(a) == canonical(b)
		for rules, sameIdentity := range map[*Rules]bool{all: sameArgs, some: canonical(a.At(identity)) == canonical(b.At(identity))} {
			same := sameSlot && sameIdentity
			if explicit != "" || explicit2 != "" {
				same = tenant == tenant2 && explicit == explicit2
			}
			if p, q := rules.Derive(x), rules.Derive(y); (p.Key == q.Key) != same {
				t.Fatalf("one key: %v, want %v", p.Key == q.Key, same)
			} else if sameArgs && p.Fingerprint != q.Fingerprint || rules == all && !sameArgs && p.Fingerprint == q.Fingerprint {
				t.Fatalf("one fingerprint: %v, equal arguments: %v", p.Fingerprint == q.Fingerprint, sameArgs)
			} else if rules == all && explicit == "" && explicit2 == "" && (p.Guard == q.Guard) != sameSlot {
				t.Fatalf("one guard: %v, one slot: %v", p.Guard == q.Guard, sameSlot)
			}
		}
	})
}

// FuzzDecodeReceipt: never a panic; what is read takes no more memory than a small multiple
// of what was given, and is read the same a second time.
func FuzzDecodeReceipt(f *testing.F) {
	r := typical()
	f.Add(r.Encode())
	f.Add(new(Receipt).Encode())
	for _, b := range lengths() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := DecodeReceipt(data)
		if err != nil {
			return
		}
		size := len(r.Tenant) + len(r.Tool) + len(r.RunID) + len(r.StepID) + len(r.Reason) + len(r.SettledBy) + len(r.Traceparent) +
			len(r.Replica) + len(r.Region) + len(r.Args) + len(r.Evidence)
		if r.Outcome != nil {
			size += len(r.Outcome.Body) + len(r.Outcome.SHA256) + 2*len(r.Outcome.Headers)
			for name, value := range r.Outcome.Headers {
				size += len(name) + len(value)
			}
		}
		if size > len(data) {
			t.Fatalf("%d bytes came out of %d", size, len(data))
		}
		again, err := DecodeReceipt(r.Encode())
		if err != nil || !bytes.Equal(again.Encode(), r.Encode()) {
			t.Fatalf("read again it is %+v, %v; was %+v", again, err, r)
		}
		if out := r.AppendJSON(nil, false); len(r.Args) == 0 && len(r.Evidence) == 0 && !json.Valid(out) {
			t.Fatalf("shown as %s", strings.ToValidUTF8(string(out), "?"))
		}
	})
}
