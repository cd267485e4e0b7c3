package intent

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Kind is the type of a JSON value.
type Kind uint8

const (
	_ Kind = iota
	Null
	False
	True
	Number
	String
	Array
	Object
)

// Value is a JSON value that keeps what encoding/json loses: exact numbers and the order
// of members. The zero Value is no value at all, which differs from null.
type Value struct {
	kind    Kind
	text    string // String: the decoded text; Number: the token as written
	items   []Value
	members []Member
}

// Member is one name and value of an object, in the order written.
type Member struct {
	Name  string
	Value Value
}

// Kind returns the value's type; 0 for the zero Value.
func (v Value) Kind() Kind { return v.kind }

// Exists is false for the zero Value: the member was absent.
func (v Value) Exists() bool { return v.kind != 0 }

// Text returns a string's content or a number's token as written, else "".
func (v Value) Text() string { return v.text }

// Members returns an object's members in the order written.
func (v Value) Members() []Member { return v.members }

// Items returns an array's elements.
func (v Value) Items() []Value { return v.items }

// Member returns the named member of an object, or the zero Value.
func (v Value) Member(name string) Value {
	for _, m := range v.members {
		if m.Name == name {
			return m.Value
		}
	}
	return Value{}
}

// StringValue makes a string.
func StringValue(s string) Value { return Value{kind: String, text: s} }

// ObjectValue makes an object; the names must differ.
func ObjectValue(members ...Member) Value { return Value{kind: Object, members: members} }

// ArrayValue makes an array.
func ArrayValue(items ...Value) Value { return Value{kind: Array, items: items} }

// Pointer is a parsed JSON Pointer (RFC 6901).
type Pointer []string

// ParsePointer reads "/a/b~1c"; "" is the whole document.
func ParsePointer(s string) (Pointer, error) {
	if s == "" {
		return nil, nil
	}
	if s[0] != '/' {
		return nil, fmt.Errorf("JSON pointer %q must start with /", s)
	}
	parts := strings.Split(s[1:], "/")
	for i, part := range parts {
		for tilde := range len(part) {
			if part[tilde] == '~' && !strings.HasPrefix(part[tilde+1:], "0") && !strings.HasPrefix(part[tilde+1:], "1") {
				return nil, fmt.Errorf("JSON pointer %q: ~ must be written ~0 and / ~1", s)
			}
		}
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
	}
	return parts, nil
}

// String writes the pointer in RFC 6901's form.
func (p Pointer) String() string {
	var b strings.Builder
	for _, part := range p {
		b.WriteByte('/')
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(part, "~", "~0"), "/", "~1"))
	}
	return b.String()
}

// At returns the value a pointer names, or the zero Value.
func (v Value) At(p Pointer) Value {
	for _, part := range p {
		switch v.kind {
		case Object:
			v = v.Member(part)
		case Array:
			i, ok := index(part, len(v.items))
			if !ok {
				return Value{}
			}
			v = v.items[i]
		default:
			return Value{}
		}
	}
	return v
}

// Edit returns a copy in which the named value is replaced by f's result; the zero Value
// from f removes it (an element of an array becomes null, so that the others keep their
// places). A pointer to nothing changes nothing. v itself is not changed.
func (v Value) Edit(p Pointer, f func(Value) Value) Value {
	if len(p) == 0 {
		return f(v)
	}
	switch v.kind {
	case Object:
		i := slices.IndexFunc(v.members, func(m Member) bool { return m.Name == p[0] })
		if i < 0 {
			return v
		}
		inner := v.members[i].Value.Edit(p[1:], f)
		v.members = slices.Clone(v.members)
		if inner.Exists() {
			v.members[i].Value = inner
		} else {
			v.members = slices.Delete(v.members, i, i+1)
		}
	case Array:
		i, ok := index(p[0], len(v.items))
		if !ok {
			return v
		}
		inner := v.items[i].Edit(p[1:], f)
		if !inner.Exists() {
			inner = Value{kind: Null}
		}
		v.items = slices.Clone(v.items)
		v.items[i] = inner
	}
	return v
}

func index(part string, n int) (int, bool) {
	i, err := strconv.Atoi(part)
	return i, err == nil && i >= 0 && i < n && strconv.Itoa(i) == part
}

// AppendJSON writes the value compactly: members in the order written, numbers as written.
func (v Value) AppendJSON(b []byte) []byte { return v.append(b, false) }

// AppendCanonical writes the one form that equal values share: members sorted by UTF-16
// code unit (RFC 8785 §3.2.3), no white space, strings exact, numbers by exact decimal
// value (unlike RFC 8785, whose float64 merges integers above 2^53).
func (v Value) AppendCanonical(b []byte) []byte { return v.append(b, true) }

func (v Value) append(b []byte, canonical bool) []byte {
	switch v.kind {
	case Null:
		return append(b, "null"...)
	case False:
		return append(b, "false"...)
	case True:
		return append(b, "true"...)
	case Number:
		if canonical {
			return appendDecimal(b, v.text)
		}
		return append(b, v.text...)
	case String:
		return AppendString(b, v.text)
	case Array:
		b = append(b, '[')
		for i, item := range v.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.append(b, canonical)
		}
		return append(b, ']')
	case Object:
		members := v.members
		if canonical {
			members = slices.Clone(members)
			slices.SortFunc(members, func(x, y Member) int { return compareUTF16(x.Name, y.Name) })
		}
		b = append(b, '{')
		for i, m := range members {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(AppendString(b, m.Name), ':')
			b = m.Value.append(b, canonical)
		}
		return append(b, '}')
	}
	return b
}

// compareUTF16 orders as RFC 8785 does: UTF-8 order differs from it only where one rune is
// beyond the basic plane and the other is in U+E000..U+FFFF.
func compareUTF16(x, y string) int {
	for x != "" && y != "" {
		rx, nx := utf8.DecodeRuneInString(x)
		ry, ny := utf8.DecodeRuneInString(y)
		if rx != ry {
			return slices.Compare(utf16.AppendRune(nil, rx), utf16.AppendRune(nil, ry))
		}
		x, y = x[nx:], y[ny:]
	}
	return len(x) - len(y)
}

// AppendString writes a JSON string: only what RFC 8259 demands is escaped, and the two
// line separators that break JavaScript readers.
func AppendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == '\u2028' || r == '\u2029' {
				b = append(b, s[start:i]...)
				b = append(b, '\\', 'u', '2', '0', '2', hex[r&0xf])
				start = i + n
			} else if r == utf8.RuneError && n == 1 {
				b = append(b, s[start:i]...)
				b = append(b, `\ufffd`...)
				start = i + n
			}
			i += n
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
		i++
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// appendDecimal writes a JSON number token by its exact value: sign, digits without
// leading or trailing zeros, and a power of ten. 1, 1.0 and 10e-1 all become "1e0".
func appendDecimal(b []byte, token string) []byte {
	negative := strings.HasPrefix(token, "-")
	token = strings.TrimPrefix(token, "-")
	mantissa, exponent := token, 0
	if i := strings.IndexAny(token, "eE"); i >= 0 {
		mantissa = token[:i]
		exponent, _ = strconv.Atoi(token[i+1:]) // at most nine digits: Parse saw to it
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	exponent -= len(fraction)
	trimmed := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(trimmed)
	if trimmed == "" {
		return append(b, '0') // also -0: equal by value
	}
	if negative {
		b = append(b, '-')
	}
	b = append(append(b, trimmed...), 'e')
	return strconv.AppendInt(b, int64(exponent), 10)
}
