package intent_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	. "github.com/latchkey-gateway/latchkey/intent"
)

// parse reads JSON that the test itself wrote.
func parse(t interface{ Fatalf(string, ...any) }, text string) Value {
	v, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func pointers(t *testing.T, list ...string) (ps []Pointer) {
	for _, s := range list {
		p, err := ParsePointer(s)
		if err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p)
	}
	return ps
}

// mailer is CONTRACT.md's tool.
func mailer(t *testing.T) *Rules {
	trimmed, err := ParseNormaliser([]string{"trim", "lowercase"})
	if err != nil {
		t.Fatal(err)
	}
	return &Rules{Tool: "send_invoice_email", StepGuard: true, Identity: pointers(t, "/invoice_id", "/to"),
		Volatile: pointers(t, "/requested_at"), Normalise: map[string]Normaliser{"/to": trimmed}, Redact: pointers(t, "/card_number")}
}

func call(t *testing.T, args string) Call {
	return Call{Tenant: "acme", RunID: "run-42", StepID: "7", Args: parse(t, args)}
}

// TestGoldenKeys fixes the derivation itself. The values come from a second implementation
// in another language. If this fails, every call that is repeated across the deployment of
// the change acts twice: a new derivation needs a new label and a way for old keys to stay.
func TestGoldenKeys(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		rules                   *Rules
		call                    Call
		key, guard, fingerprint string
	}{
		"identity, guarded, normalised, volatile": {
			mailer(t), call(t, `{"to":" A@Example.com ","invoice_id":"inv-1","memo":"hi","requested_at":"2026-01-01T00:00:00Z"}`),
			"1fd430b0b96efe46ca343c0c5d3807afd9fd72aed561ed80bdbdd8870e4c66db",
			"e1830aa256075abea3cada9081e296a5ca14011ff75a8f20fbab793c57ce7962",
			"3991301234b50d8f20d71e8edb76cf9a2904daf3c373ba4f94f5bd27493292b5",
		},
		"all arguments, occurrence 1": {
			&Rules{Tool: "charge_card", StepGuard: true},
			Call{"acme", "run-42", "7", 1, "", parse(t, `{"é":[1,null,true,-0],"n":9007199254740993,"currency":"EUR","amount":1.50}`)},
			"d6453f09944dd56b15167748183690179b894ca51461e5d92c26991327e43ba0",
			"1dd0f70f19edef33e90993be688ed11e4a8f29df60a70c62741d9c75943d58af",
			"ce7bb7a89278edf37259b173fedabb6e0dd0277706b31f8561b4ca025922c8cd",
		},
		"explicit key": {
			&Rules{Tool: "charge_card", StepGuard: true, Identity: pointers(t, "/amount")},
			Call{"acme", "label", "label", 3, "order-7", parse(t, `{"amount":100}`)},
			"1946af352a0044bee428fb8e9be266ae71c2a6b62295f9b9475d8abd9b91b1c4",
			"1946af352a0044bee428fb8e9be266ae71c2a6b62295f9b9475d8abd9b91b1c4",
			"6472528804c43b45e436d9ebe2c69f0ecb90fff8df503a35d668f0a14dd17abd",
		},
		"absent and null, unguarded": {
			&Rules{Tool: "t", Identity: pointers(t, "/to", "/a~1b")},
			Call{"ünïcode", "r", "s", 0, "", parse(t, `{"to":null}`)},
			"107e389af6643b948e61267f1ee460c65e34d45aeec04ff8944adabb3b74ba37",
			"107e389af6643b948e61267f1ee460c65e34d45aeec04ff8944adabb3b74ba37",
			"32a68f67d9a4fdb01b1edfacb8a3eb63cb53e0b12c974685dc44f8e133c31a8b",
		},
	}
	for name, test := range tests {
		id := test.rules.Derive(test.call)
		if id.Key.String() != test.key || id.Guard.String() != test.guard || id.Fingerprint.String() != "sha256:"+test.fingerprint {
			t.Errorf("%s: key %s, guard %s, fingerprint %s", name, id.Key, id.Guard, id.Fingerprint)
		}
	}
}

// TestSameOrOther says of pairs of arguments whether they are one intention. The rules have
// no identity list, so key and fingerprint must agree on it.
func TestSameOrOther(t *testing.T) {
	t.Parallel()
	tests := []struct {
		why, a, b string
		same      bool
	}{
		{"64-bit integers beyond float64", `{"id":9007199254740992}`, `{"id":9007199254740993}`, false},
		{"largest 64-bit integers", `{"id":18446744073709551615}`, `{"id":18446744073709551614}`, false},
		{"a far decimal", `{"x":0.1}`, `{"x":0.10000000000000000001}`, false},
		{"1 and 1.0", `{"x":1}`, `{"x":1.0}`, true},
		{"1 and 1e0", `{"x":1}`, `{"x":1e0}`, true},
		{"1.0 and 10e-1", `{"x":1.0}`, `{"x":10E-1}`, true},
		{"-0 and 0", `{"x":-0}`, `{"x":0}`, true},
		{"-0.0e5 and 0", `{"x":-0.0e5}`, `{"x":0}`, true},
		{"100 and 1e2", `{"x":100}`, `{"x":1e+02}`, true},
		{"0.01 and 1e-2", `{"x":0.01}`, `{"x":1e-2}`, true},
		{"1 and -1", `{"x":1}`, `{"x":-1}`, false},
		{"1 and 10", `{"x":1}`, `{"x":10}`, false},
		{"1e5 and 15", `{"x":1e5}`, `{"x":15}`, false},
		{"huge powers", `{"x":1e400}`, `{"x":1e401}`, false},
		{"tiny is not zero", `{"x":1e-400}`, `{"x":0}`, false},
		{"number and string", `{"x":1}`, `{"x":"1"}`, false},
		{"number and its canonical form as a string", `{"x":1}`, `{"x":"1e0"}`, false},
		{"bool and string", `{"x":true}`, `{"x":"true"}`, false},
		{"member order", `{"a":1,"b":{"c":2,"d":3}}`, `{"b":{"d":3,"c":2},"a":1}`, true},
		{"white space", `{"a":[1,2]}`, " {\n\"a\" : [1 ,\t2 ]\r}", true},
		{"array order", `{"a":[1,2]}`, `{"a":[2,1]}`, false},
		{"array and object", `{"a":[]}`, `{"a":{}}`, false},
		{"nesting", `{"a":[[1],2]}`, `{"a":[1,[2]]}`, false},
		{"absent and null", `{}`, `{"x":null}`, false},
		{"null and empty string", `{"x":null}`, `{"x":""}`, false},
		{"escaped spelling", `{"x":"é\/A"}`, `{"\u0078":"\u00e9/\u0041"}`, true},
		{"surrogate pair spelling", `{"x":"😀"}`, `{"x":"\ud83d\ude00"}`, true},
		{"composed and decomposed", "{\"x\":\"\u00e9\"}", "{\"x\":\"e\u0301\"}", false},
		{"case", `{"x":"A"}`, `{"x":"a"}`, false},
		{"space", `{"x":"a "}`, `{"x":"a"}`, false},
		{"NUL", `{"x":"a\u0000"}`, `{"x":"a"}`, false},
		{"a quote that moves", `{"a":"\",\"b\":\""}`, `{"a":"","b":""}`, false},
		{"name and value boundary", `{"ab":"c"}`, `{"a":"bc"}`, false},
	}
	for _, test := range tests {
		rules := &Rules{Tool: "t", StepGuard: true}
		a, b := rules.Derive(call(t, test.a)), rules.Derive(call(t, test.b))
		if got := a.Key == b.Key; got != test.same {
			t.Errorf("%s: one key: %v", test.why, got)
		}
		if got := a.Fingerprint == b.Fingerprint; got != test.same {
			t.Errorf("%s: one fingerprint: %v", test.why, got)
		}
		if a.Guard != b.Guard {
			t.Errorf("%s: the guard of one step depends on arguments", test.why)
		}
	}
}

// TestRewordedRetries: what a model changes between two tries of one step.
func TestRewordedRetries(t *testing.T) {
	t.Parallel()
	const first = `{"invoice_id":"inv-1","to":"a@example.com","memo":"Your invoice","requested_at":"1"}`
	tests := []struct {
		why, args               string
		key, guard, fingerprint bool // the same as the first call's
	}{
		{"nothing", first, true, true, true},
		{"free text", `{"invoice_id":"inv-1","to":"a@example.com","memo":"Here is your invoice","requested_at":"1"}`, true, true, false},
		{"free text left out", `{"invoice_id":"inv-1","to":"a@example.com","requested_at":"1"}`, true, true, false},
		{"an identity argument", `{"invoice_id":"inv-2","to":"a@example.com","memo":"Your invoice","requested_at":"1"}`, false, true, false},
		{"an identity argument left out", `{"invoice_id":"inv-1","memo":"Your invoice"}`, false, true, false},
		{"identity values exchanged", `{"invoice_id":"a@example.com","to":"inv-1","memo":"Your invoice"}`, false, true, false},
		{"a volatile argument", `{"invoice_id":"inv-1","to":"a@example.com","memo":"Your invoice","requested_at":"2"}`, true, true, true},
		{"a volatile argument left out", `{"invoice_id":"inv-1","to":"a@example.com","memo":"Your invoice"}`, true, true, true},
		{"what is normalised", `{"invoice_id":"inv-1","to":"\tA@EXAMPLE.com ","memo":"Your invoice"}`, true, true, true},
		{"the same, where nobody asked", `{"invoice_id":"INV-1","to":"a@example.com","memo":"Your invoice"}`, false, true, false},
		{"space, where nobody asked", `{"invoice_id":"inv-1","to":"a@example.com","memo":" Your invoice"}`, true, true, false},
	}
	rules := mailer(t)
	a := rules.Derive(call(t, first))
	for _, test := range tests {
		b := rules.Derive(call(t, test.args))
		if (a.Key == b.Key) != test.key || (a.Guard == b.Guard) != test.guard || (a.Fingerprint == b.Fingerprint) != test.fingerprint {
			t.Errorf("%s: same key %v, guard %v, fingerprint %v", test.why, a.Key == b.Key, a.Guard == b.Guard, a.Fingerprint == b.Fingerprint)
		}
	}
	rules.StepGuard = false
	if c := rules.Derive(call(t, first)); c.Key != a.Key || c.Guard != Guard(c.Key) {
		t.Error("without a step guard a key guards itself, and stays what it was")
	}
}

func TestRulesThatMustNotRename(t *testing.T) {
	t.Parallel()
	const args = `{"invoice_id":"inv-1","to":"a@example.com","card_number":"4242","memo":{"lines":["x"]}}`
	rules := mailer(t)
	want := rules.Derive(call(t, args))
	same := func(why string, change func(*Rules)) {
		changed := mailer(t)
		change(changed)
		got := changed.Derive(call(t, args))
		if got.Key != want.Key || got.Fingerprint != want.Fingerprint {
			t.Errorf("%s renames the intention", why)
		}
	}
	same("the order of the identity list", func(r *Rules) { slices.Reverse(r.Identity) })
	same("redaction", func(r *Rules) { r.Redact = append(r.Redact, pointers(t, "/to", "/memo", "/invoice_id")...) })
	same("a normaliser of what is absent", func(r *Rules) { r.Normalise["/cc"] = Normaliser{"trim"} })
	same("a normaliser of what is no string", func(r *Rules) { r.Normalise["/memo/lines"] = Normaliser{"trim"} })
	same("a volatile argument that is absent", func(r *Rules) { r.Volatile = append(r.Volatile, Pointer{"cc"}) })

	if shown := string(rules.Redacted(want.Args).AppendJSON(nil)); shown != strings.Replace(args, `"4242"`, `"[redacted]"`, 1) {
		t.Errorf("redacted: %s", shown)
	}
	if kept := string(want.Args.AppendJSON(nil)); kept != args {
		t.Errorf("redaction or derivation changed what is sent: %s", kept)
	}
}

func TestNormalisers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		steps    []string
		in, want string
	}{
		{nil, ` É `, ` É `},
		{[]string{"trim"}, "\u00a0\t a b \n", "a b"},
		{[]string{"lowercase"}, " ÀB ", " àb "},
		{[]string{"nfc"}, "e\u0301", "é"},
		{[]string{"collapse_space"}, " a \t\n b\u2003c ", "a b c"},
		{[]string{"nfc", "lowercase", "trim"}, " E\u0301 ", "é"},
	}
	for _, test := range tests {
		n, err := ParseNormaliser(test.steps)
		if err != nil {
			t.Fatal(err)
		}
		rules := &Rules{Tool: "t", Normalise: map[string]Normaliser{"/deep/0": n}}
		in := ObjectValue(Member{Name: "deep", Value: ArrayValue(StringValue(test.in))})
		if got := rules.Derive(Call{Args: in}).Args.At(Pointer{"deep", "0"}).Text(); got != test.want {
			t.Errorf("%v of %q is %q, want %q", test.steps, test.in, got, test.want)
		}
		if in.At(Pointer{"deep", "0"}).Text() != test.in {
			t.Errorf("%v changed the caller's value", test.steps)
		}
	}
	rules := &Rules{Normalise: map[string]Normaliser{"/n": {"lowercase"}, "": {"trim"}}}
	if got := rules.Derive(Call{Args: parse(t, `{"n":1E2}`)}).Args.AppendJSON(nil); string(got) != `{"n":1E2}` {
		t.Errorf("a number was normalised: %s", got)
	}
	if _, err := ParseNormaliser([]string{"trim", "uppercase"}); err == nil {
		t.Error("an unknown normaliser was taken")
	}
}

// TestFieldBoundaries moves characters between neighbouring fields, and changes one field
// at a time: only a call with all fields equal has the same key.
func TestFieldBoundaries(t *testing.T) {
	t.Parallel()
	text := rapid.StringOfN(rapid.SampledFrom([]rune(":ab0\x00/\"")), 0, 4, -1)
	type fields struct {
		Tenant, Run, Step, Tool, Explicit, Arg string
		Occurrence                             int
	}
	drawn := rapid.Custom(func(t *rapid.T) fields {
		f := fields{text.Draw(t, "tenant"), text.Draw(t, "run"), text.Draw(t, "step"), text.Draw(t, "tool"), "",
			text.Draw(t, "arg"), rapid.IntRange(0, 11).Draw(t, "occurrence")}
		if rapid.Bool().Draw(t, "is explicit") {
			f.Explicit = "k" + text.Draw(t, "explicit")
		}
		return f
	})
	derive := func(f fields) Identity {
		r := Rules{Tool: f.Tool, StepGuard: true}
		args := ObjectValue(Member{Name: "x", Value: StringValue(f.Arg)})
		return r.Derive(Call{f.Tenant, f.Run, f.Step, f.Occurrence, f.Explicit, args})
	}
	compare := func(t interface{ Fatalf(string, ...any) }, a, b fields) {
		x, y := derive(a), derive(b)
		slotOf := func(f fields) fields { f.Arg = ""; return f }
		keyOf := func(f fields) fields {
			if f.Explicit != "" {
				f.Run, f.Step, f.Occurrence, f.Arg = "", "", 0, ""
			}
			return f
		}
		if same := keyOf(a) == keyOf(b); (x.Key == y.Key) != same {
			t.Fatalf("same key: %v, for\n%+v\n%+v", x.Key == y.Key, a, b)
		}
		if same := slotOf(keyOf(a)) == slotOf(keyOf(b)); (x.Guard == y.Guard) != same {
			t.Fatalf("same guard: %v, for\n%+v\n%+v", x.Guard == y.Guard, a, b)
		}
		if (x.Fingerprint == y.Fingerprint) != (a.Arg == b.Arg) {
			t.Fatalf("same fingerprint: %v, for\n%+v\n%+v", x.Fingerprint == y.Fingerprint, a, b)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a := drawn.Draw(t, "a")
		b := a
		places := []*string{&b.Tenant, &b.Run, &b.Step, &b.Tool, &b.Arg, &b.Explicit}
		switch rapid.IntRange(0, 2).Draw(t, "how") {
		case 0: // move a tail of one field to the front of another, with or without a separator
			from := rapid.SampledFrom(places).Draw(t, "from")
			to := rapid.SampledFrom(places).Draw(t, "to")
			cut := rapid.IntRange(0, len(*from)).Draw(t, "cut")
			tail := (*from)[cut:]
			*from = strings.TrimSuffix((*from)[:cut], ":")
			*to = tail + *to
		case 1:
			*rapid.SampledFrom(places).Draw(t, "changed") = text.Draw(t, "to")
		case 2:
			b.Occurrence = rapid.IntRange(0, 11).Draw(t, "occurrence")
		}
		compare(t, a, b)
	})
	// Every pair of fields once, with and without the separator of a careless join.
	for from := range 6 {
		for to := range 6 {
			for _, explicit := range []string{"", "k"} {
				a := fields{"a:b", "a:b", "a:b", "a:b", explicit, "a:b", 0}
				for _, cut := range []string{"b", ":b"} {
					b := a
					places := []*string{&b.Tenant, &b.Run, &b.Step, &b.Tool, &b.Arg, &b.Explicit}
					if from == to || *places[from] == "" || *places[to] == "" || !strings.HasSuffix(*places[from], cut) {
						continue
					}
					*places[from] = strings.TrimSuffix(*places[from], cut)
					*places[to] = strings.TrimPrefix(cut, ":") + ":" + *places[to]
					compare(t, a, b)
					*places[to] = strings.Replace(*places[to], ":", "", 1)
					compare(t, a, b)
				}
			}
		}
	}
}

// TestExplicitKey: all arguments go to the fingerprint, run and step are labels, and the
// key guards nothing but itself, whatever the tool says.
func TestExplicitKey(t *testing.T) {
	t.Parallel()
	rules := mailer(t)
	with := func(explicit, run, args string) Identity {
		c := call(t, args)
		c.Explicit, c.RunID = explicit, run
		return rules.Derive(c)
	}
	a := with("k-1", "run-42", `{"invoice_id":"inv-1","to":"a@example.com"}`)
	b := with("k-1", "", `{"invoice_id":"inv-2","to":"a@example.com"}`)
	if a.Key != b.Key || a.Fingerprint == b.Fingerprint {
		t.Error("another identity argument under one explicit key must be one key with two fingerprints")
	}
	if c := with("k-2", "run-42", `{"invoice_id":"inv-1","to":"a@example.com"}`); c.Key == a.Key || c.Guard == a.Guard || c.Fingerprint != a.Fingerprint {
		t.Error("another explicit key must be another key and guard with the same fingerprint")
	}
	if a.Guard != Guard(a.Key) {
		t.Error("an explicit key must guard itself")
	}
}

func TestCheckID(t *testing.T) {
	t.Parallel()
	good := []string{"a", "run-42", "a:b", "日本", "😀", strings.Repeat("x", MaxID), " ", "\u00a0", "\u2028"}
	bad := []string{"", strings.Repeat("x", MaxID+1), strings.Repeat("é", 128), "\x00", "a\nb", "a\rb", "\x1f", "\x7f", "\u0085", "\u009f", "\xff", "a\xc3", "\xed\xa0\x80"}
	for _, id := range good {
		if why := CheckID(id); why != "" {
			t.Errorf("%q: %s", id, why)
		}
	}
	for _, id := range bad {
		if why := CheckID(id); why == "" || id != "" && strings.Contains(why, id) {
			t.Errorf("%q: %q", id, why)
		}
	}
}

func TestCheckExplicit(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		if got, want := CheckExplicit("k"+string([]byte{byte(c)})) == "", c > 0x20 && c < 0x7f; got != want {
			t.Errorf("byte %#x: good is %v", c, got)
		}
	}
	for n, want := range map[int]bool{0: false, 1: true, MaxID: true, MaxID + 1: false} {
		if got := CheckExplicit(strings.Repeat("k", n)) == ""; got != want {
			t.Errorf("%d characters: good is %v", n, got)
		}
	}
}
