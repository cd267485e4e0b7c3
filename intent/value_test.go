package intent_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	. "github.com/latchkey-gateway/latchkey/intent"
)

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func TestParseIsStrict(t *testing.T) {
	t.Parallel()
	good := map[string]string{ // input -> AppendJSON
		" null ":                               `null`,
		"\t\r\n true":                          `true`,
		`0`:                                    `0`,
		`-0`:                                   `-0`,
		`-0.0e-0`:                              `-0.0e-0`,
		`1E+2`:                                 `1E+2`,
		`1e999999999`:                          `1e999999999`,
		`123456789012345678901234`:             `123456789012345678901234`,
		`""`:                                   `""`,
		`"\"\\\/\b\f\n\r\t"`:                   `"\"\\/\u0008\u000c\n\r\t"`,
		`"\u00e9\u0000\ud83d\ude00\uFFFD"`:     "\"é\\u0000😀\uFFFD\"",
		"\"\x7f\u2028\u2029\uFFFF\U0010FFFF\"": "\"\x7f\\u2028\\u2029\uFFFF\U0010FFFF\"",
		`[ ]`:                                  `[]`,
		`[ 1 , [ ] , { } ]`:                    `[1,[],{}]`,
		`{ "b" : 1 , "a" : "x" }`:              `{"b":1,"a":"x"}`,
		`{"":0," ":1,"A":2,"a":3}`:             `{"":0," ":1,"A":2,"a":3}`,
		`{"a":{"a":{"a":1}}}`:                  `{"a":{"a":{"a":1}}}`,
		nested(MaxDepth):                       nested(MaxDepth),
	}
	for in, want := range good {
		v, err := Parse([]byte(in))
		if got := string(v.AppendJSON(nil)); err != nil || got != want {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	wide := make([]string, 40)
	for i := range wide {
		wide[i] = fmt.Sprintf(`"m%d":0`, i)
	}
	bad := []string{
		// nothing, too little, too much
		"", " ", "\ufeff{}", "{}\ufeff", "{} {}", "1 2", "nullnull", "null,", "]", "}", ",", ":", "\x00", "{}\x00", "//x\n1", "'a'", "a",
		// literals
		"nul", "nulll", "True", "NULL", "NaN", "Infinity", "-Infinity", "undefined", "tru e",
		// numbers
		"+1", "-", "--1", "01", "-01", "00", "1.", ".5", "-.5", "1.e5", "1e", "1e+", "1e-", "1e1.5", "1e5e5", "0x10", "1_000", "1,000", "١",
		"1e1000000000", "1e0000000001", "1e-1000000000",
		// strings
		`"`, `"abc`, `"\"`, `"\`, `"\x"`, `"\u"`, `"\u12"`, `"\u12g4"`, `"\u+123"`, `"\u 123"`, `"\u1_23"`, `"\U0041"`, `"\'"`,
		"\"\x00\"", "\"\n\"", "\"\t\"", "\"\x1f\"", "\"a\nb\"",
		// invalid UTF-8: bare continuation, cut short, overlong, surrogate, beyond the last rune
		"\"\x80\"", "\"\xc3\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xff\"", "\xff", "{\"\xff\":1}",
		// lone surrogates
		`"\ud800"`, `"\udc00"`, `"\udc00\ud800"`, `"\ud800x"`, `"\ud800\n"`, `"\ud800\u0041"`, `"\ud800\ud800"`, `"\ud83d\ude0"`, `{"\ud800":1}`, `"\uD800\\uDC00"`,
		// arrays and objects
		"[", "[1", "[1,", "[1,]", "[,1]", "[,]", "[1 2]", "[1}", "[1]]", "{", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `{"a",1}`, `{"a":}`, `{"a" 1}`,
		`{a:1}`, `{1:1}`, `{null:1}`, `{"a":1 "b":2}`, `{"a":1;}`, `{"a"::1}`, `{"a":1]`, `{[]:1}`,
		// one name twice, also under another spelling, deep, and past where a wide object is indexed
		`{"a":1,"a":1}`, `{"a":1,"\u0061":2}`, `{"\u0061":1,"a":2}`, `{"é":1,"\u00e9":2}`, `{"😀":1,"\ud83d\ude00":2}`, `{"/":1,"\/":2}`, `{"":1,"":2}`,
		`[{"x":{"a":1,"b":2,"a":3}}]`, "{" + strings.Join(wide, ",") + `,"m0":1}`, "{" + strings.Join(wide, ",") + `,"m39":1}`,
		"{" + strings.Join(wide[:15], ",") + `,"m7":1}`, "{" + strings.Join(wide[:16], ",") + `,"m15":1}`, "{" + strings.Join(wide[:17], ",") + `,"m16":1}`,
		// a bomb of depth, closed and not
		"[" + strings.Repeat("0,", MaxValues) + "0]",
		nested(MaxDepth + 2), strings.Repeat("[", 1<<20), strings.Repeat(`{"a":`, 1<<18), strings.Repeat(`[{"a":`, 1<<18),
	}
	for _, in := range bad {
		v, err := Parse([]byte(in))
		if !errors.Is(err, ErrBadJSON) || v.Exists() {
			t.Errorf("%.60q: %v, %v", in, v, err)
		}
	}
}

func TestParseErrorsDoNotRepeatTheInput(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t"
	for _, in := range []string{
		secret, `"` + secret, `"` + secret + `\x"`, `"` + secret + "\x01\"", "\"" + secret + "\xff\"", `{"` + secret + `":1,"` + secret + `":2}`,
		`{"` + secret + `" 1}`, `{"a":` + secret + `}`, `["` + secret + `" 1]`, `{} ` + secret, `1` + secret, `"\u` + secret + `"`, `"\ud800` + secret + `"`,
	} {
		if _, err := Parse([]byte(in)); err == nil || strings.Contains(err.Error(), secret[:3]) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestCanonicalForm(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		`{"b":[true,false,null,""],"a":1}`:                                 `{"a":1e0,"b":[true,false,null,""]}`,
		`[0,-0.00,0e9,1,-1,1.50,1500,0.0150,-12e-3,1E+2,9007199254740993]`: `[0,0,0,1e0,-1e0,15e-1,15e2,15e-3,-12e-3,1e2,9007199254740993e0]`,
		// RFC 8785 §3.2.3: by UTF-16 code unit, so U+10000 (D800 DC00) before U+E000.
		"{\"\ue000\":1,\"\U00010000\":2,\"z\":3,\"\uffff\":4,\"zz\":5,\"\":6}":        "{\"\":6e0,\"z\":3e0,\"zz\":5e0,\"\U00010000\":2e0,\"\ue000\":1e0,\"\uffff\":4e0}",
		`{"\r":1,"\ufb33":2,"1":3,"\ud83d\ude00":4,"\u0080":5,"\u00f6":6,"\u20ac":7}`: "{\"\\r\":1e0,\"1\":3e0,\"\u0080\":5e0,\"\u00f6\":6e0,\"\u20ac\":7e0,\"\U0001f600\":4e0,\"\ufb33\":2e0}",
	}
	for in, want := range tests {
		if got := string(parse(t, in).AppendCanonical(nil)); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}

// spelled is one value in two spellings, or two values that may or may not be equal.
type spelled struct{ a, b string }

// pairs draws JSON texts that a careless comparison gets wrong: mostly one value spelled
// twice, with other white space, escapes, member order and numerals; sometimes one leaf
// differs.
func pairs() *rapid.Generator[spelled] {
	return rapid.Custom(func(t *rapid.T) spelled { return drawPair(t, 3) })
}

func drawPair(t *rapid.T, depth int) spelled {
	kinds := []string{"null", "bool", "number", "string", "array", "object", "object"}
	if depth == 0 {
		kinds = kinds[:4]
	}
	ws := rapid.SampledFrom([]string{"", "", " ", "\n\t"})
	if rapid.IntRange(0, 19).Draw(t, "differs") == 0 {
		return spelled{drawPair(t, 0).a, drawPair(t, 0).b}
	}
	var p spelled
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "null":
		p = spelled{"null", "null"}
	case "bool":
		b := fmt.Sprint(rapid.Bool().Draw(t, "bool"))
		p = spelled{b, b}
	case "number":
		m := rapid.SampledFrom([]string{"0", "1", "-1", "15", "150", "9007199254740992", "9007199254740993", "-12345678901234567890123"}).Draw(t, "mantissa")
		e := rapid.IntRange(-4, 4).Draw(t, "exponent")
		p = spelled{numeral(t, m, e), numeral(t, m, e)}
	case "string":
		s := drawText(t)
		p = spelled{quoted(t, s), quoted(t, s)}
	case "array":
		for i := range rapid.IntRange(0, 3).Draw(t, "length") {
			inner := drawPair(t, depth-1)
			if i > 0 {
				p.a, p.b = p.a+",", p.b+","
			}
			p.a, p.b = p.a+inner.a, p.b+inner.b
		}
		p = spelled{"[" + p.a + "]", "[" + p.b + "]"}
	case "object":
		var first, second []string
		seen := map[string]bool{}
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			name := drawText(t)
			if seen[name] {
				continue
			}
			seen[name] = true
			inner := drawPair(t, depth-1)
			first = append(first, quoted(t, name)+ws.Draw(t, "ws")+":"+inner.a)
			second = append(second, quoted(t, name)+":"+inner.b)
		}
		second = rapid.Permutation(second).Draw(t, "order")
		p = spelled{"{" + strings.Join(first, ",") + "}", "{" + strings.Join(second, ",") + "}"}
	}
	return spelled{ws.Draw(t, "ws") + p.a, p.b + ws.Draw(t, "ws")}
}

// numeral writes m × 10^e in one of its many ways.
func numeral(t *rapid.T, m string, e int) string {
	sign, digits := "", strings.TrimPrefix(m, "-")
	if digits != m {
		sign = "-"
	}
	zeros := rapid.IntRange(0, 3).Draw(t, "zeros")
	digits, e = digits+strings.Repeat("0", zeros), e-zeros
	if digits = strings.TrimLeft(digits, "0"); digits == "" {
		digits = "0"
	}
	if point := rapid.IntRange(0, 4).Draw(t, "point"); point > 0 {
		for len(digits) <= point {
			digits = "0" + digits
		}
		digits, e = digits[:len(digits)-point]+"."+digits[len(digits)-point:], e+point
	}
	if e == 0 && rapid.Bool().Draw(t, "bare") {
		return sign + digits
	}
	return sign + digits + fmt.Sprintf(rapid.SampledFrom([]string{"e%d", "E%+d", "e%+03d"}).Draw(t, "form"), e)
}

func drawText(t *rapid.T) string {
	return rapid.StringOfN(rapid.SampledFrom([]rune("ab\"\\/\x00\n\u2028é\ue000\uffff\U00010000😀")), 0, 2, -1).Draw(t, "text")
}

// quoted writes a JSON string, each rune in one of its ways.
func quoted(t *rapid.T, s string) string {
	b := []byte{'"'}
	for _, r := range s {
		switch plain := r >= 0x20 && r != '"' && r != '\\'; {
		case plain && rapid.Bool().Draw(t, "plain"):
			b = utf8.AppendRune(b, r)
		case r > 0xffff:
			b = fmt.Appendf(b, `\u%04x\u%04X`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return string(append(b, '"'))
}

// decode reads JSON by encoding/json alone.
func decode(t *rapid.T, text []byte) any {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("encoding/json does not read %s: %v", text, err)
	}
	return v
}

// equal compares two decoded values; numbers as rationals.
func equal(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		n, ok := b.(json.Number)
		if !ok {
			return false
		}
		x, _ := new(big.Rat).SetString(string(a))
		y, _ := new(big.Rat).SetString(string(n))
		return x.Cmp(y) == 0
	case []any:
		list, ok := b.([]any)
		if !ok || len(a) != len(list) {
			return false
		}
		for i := range a {
			if !equal(a[i], list[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		object, ok := b.(map[string]any)
		if !ok || len(a) != len(object) {
			return false
		}
		for name, v := range a {
			if w, ok := object[name]; !ok || !equal(v, w) {
				return false
			}
		}
		return true
	}
	switch b.(type) {
	case []any, map[string]any:
		return false
	}
	return a == b
}

// TestCanonicalMeansEqual: two texts have one canonical form if and only if another JSON
// library finds them equal.
func TestCanonicalMeansEqual(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := pairs().Draw(t, "pair")
		a, b := parse(t, p.a).AppendCanonical(nil), parse(t, p.b).AppendCanonical(nil)
		if want := equal(decode(t, []byte(p.a)), decode(t, []byte(p.b))); bytes.Equal(a, b) != want {
			t.Fatalf("equal: %v, but canonical forms are\n%s\n%s", want, a, b)
		}
		if again := parse(t, string(a)).AppendCanonical(nil); !bytes.Equal(a, again) {
			t.Fatalf("%s is not its own canonical form but %s", a, again)
		}
	})
}

// TestAppendJSONKeepsEverything: written out and read back, by us and by another library,
// a value is what it was; the text is a fixed point.
func TestAppendJSONKeepsEverything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := pairs().Draw(t, "pair").a
		out := parse(t, text).AppendJSON(nil)
		if !equal(decode(t, []byte(text)), decode(t, out)) {
			t.Fatalf("%s became %s", text, out)
		}
		if again := parse(t, string(out)).AppendJSON(nil); !bytes.Equal(out, again) {
			t.Fatalf("%s became %s", out, again)
		}
	})
}

// TestAppendString: whatever bytes a string holds, the result is JSON, and without invalid
// UTF-8 nothing is lost.
func TestAppendString(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Custom(func(t *rapid.T) string {
			return string(rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, "bytes"))
		})).Draw(t, "s")
		out := AppendString([]byte("x"), s)[1:]
		var got string
		if err := json.Unmarshal(out, &got); err != nil || !utf8.Valid(out) {
			t.Fatalf("%q is %s: %v", s, out, err)
		}
		if want := strings.ToValidUTF8(s, "\ufffd"); utf8.ValidString(s) && got != s || !utf8.ValidString(s) && strings.ReplaceAll(got, "\ufffd", "") != strings.ReplaceAll(want, "\ufffd", "") {
			t.Fatalf("%q came back as %q", s, got)
		}
		if bytes.ContainsAny(out, "\u2028\u2029") {
			t.Fatalf("%q has a bare line separator", out)
		}
	})
}
