package intent

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth bounds nesting, and MaxValues how many values one text holds: a body of a
// megabyte could else become tens of megabytes of values. More is refused.
const (
	MaxDepth  = 128
	MaxValues = 1 << 16
)

// Parse reads exactly one JSON text (RFC 8259), strictly: duplicate member names, invalid
// UTF-8, lone surrogates, exponents beyond nine digits and texts beyond the bounds above are
// errors. An error says what is wrong and at which byte, and never repeats the input.
func Parse(data []byte) (Value, error) {
	p := parser{data: data}
	p.space()
	v := p.value(0)
	p.space()
	if p.err == nil && p.pos < len(data) {
		p.fail("there is something after the end of the JSON value")
	}
	if p.err != nil {
		return Value{}, p.err
	}
	return v, nil
}

type parser struct {
	data []byte
	pos  int
	err  error

	values int
}

func (p *parser) fail(what string) Value {
	if p.err == nil {
		p.err = fmt.Errorf("%w: %s (byte %d)", ErrBadJSON, what, p.pos)
	}
	return Value{}
}

// ErrBadJSON: the text is not strict JSON; the wrapped message says why.
var ErrBadJSON = errors.New("bad JSON")

func (p *parser) peek() byte {
	if p.pos < len(p.data) {
		return p.data[p.pos]
	}
	return 0
}

func (p *parser) space() {
	for p.pos < len(p.data) {
		switch p.data[p.pos] {
		case ' ', '\t', '\r', '\n':
			p.pos++
		default:
			return
		}
	}
}

func (p *parser) value(depth int) Value {
	if depth > MaxDepth {
		return p.fail("nested too deeply")
	}
	if p.values++; p.values > MaxValues {
		return p.fail("too many values")
	}
	if p.pos >= len(p.data) {
		return p.fail("it ends too early")
	}
	switch c := p.peek(); {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '"':
		return Value{kind: String, text: p.string()}
	case c == '-' || '0' <= c && c <= '9':
		return p.number()
	case p.literal("null"):
		return Value{kind: Null}
	case p.literal("true"):
		return Value{kind: True}
	case p.literal("false"):
		return Value{kind: False}
	}
	return p.fail("expected a JSON value")
}

func (p *parser) literal(word string) bool {
	if len(p.data)-p.pos >= len(word) && string(p.data[p.pos:p.pos+len(word)]) == word {
		p.pos += len(word)
		return true
	}
	return false
}

func (p *parser) object(depth int) Value {
	p.pos++
	var members []Member
	var seen map[string]struct{} // only for wide objects
	for p.space(); p.err == nil; p.space() {
		if p.peek() == '}' && len(members) == 0 {
			p.pos++
			return Value{kind: Object}
		}
		if p.peek() != '"' {
			return p.fail("expected a member name in double quotes")
		}
		name := p.string()
		var twice bool
		if len(members) < 16 {
			twice = slices.ContainsFunc(members, func(m Member) bool { return m.Name == name })
		} else {
			if seen == nil {
				seen = make(map[string]struct{}, 64)
				for _, m := range members {
					seen[m.Name] = struct{}{}
				}
			}
			_, twice = seen[name]
			seen[name] = struct{}{}
		}
		if twice {
			return p.fail("a member name occurs twice in one object")
		}
		p.space()
		if p.peek() != ':' {
			return p.fail("expected : after a member name")
		}
		p.pos++
		p.space()
		v := p.value(depth + 1)
		members = append(members, Member{name, v})
		p.space()
		switch p.peek() {
		case ',':
			p.pos++
		case '}':
			p.pos++
			return Value{kind: Object, members: members}
		default:
			return p.fail("expected , or } in an object")
		}
	}
	return Value{}
}

func (p *parser) array(depth int) Value {
	p.pos++
	var items []Value
	for p.space(); p.err == nil; p.space() {
		if p.peek() == ']' && len(items) == 0 {
			p.pos++
			return Value{kind: Array}
		}
		items = append(items, p.value(depth+1))
		p.space()
		switch p.peek() {
		case ',':
			p.pos++
		case ']':
			p.pos++
			return Value{kind: Array, items: items}
		default:
			return p.fail("expected , or ] in an array")
		}
	}
	return Value{}
}

func (p *parser) digits() int {
	n := 0
	for '0' <= p.peek() && p.peek() <= '9' {
		p.pos++
		n++
	}
	return n
}

func (p *parser) number() Value {
	start := p.pos
	if p.peek() == '-' {
		p.pos++
	}
	first := p.peek()
	if n := p.digits(); n == 0 || n > 1 && first == '0' {
		return p.fail("a number needs digits and no leading zero")
	}
	if p.peek() == '.' {
		p.pos++
		if p.digits() == 0 {
			return p.fail("a number needs digits after the point")
		}
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		p.pos++
		if c := p.peek(); c == '+' || c == '-' {
			p.pos++
		}
		if n := p.digits(); n == 0 || n > 9 {
			return p.fail("a number's exponent needs one to nine digits")
		}
	}
	return Value{kind: Number, text: string(p.data[start:p.pos])}
}

func (p *parser) string() string {
	p.pos++
	start := p.pos
	var b []byte // set once something was unescaped
	for p.pos < len(p.data) {
		switch c := p.data[p.pos]; {
		case c == '"':
			chunk := p.data[start:p.pos]
			p.pos++
			if b == nil {
				return string(chunk)
			}
			return string(append(b, chunk...))
		case c == '\\':
			b = append(b, p.data[start:p.pos]...)
			if b == nil {
				b = []byte{}
			}
			p.pos++
			if b = p.escape(b); p.err != nil {
				return ""
			}
			start = p.pos
		case c < 0x20:
			p.fail("a control character in a string must be escaped")
			return ""
		case c < utf8.RuneSelf:
			p.pos++
		default:
			r, n := utf8.DecodeRune(p.data[p.pos:])
			if r == utf8.RuneError && n == 1 {
				p.fail("a string is not valid UTF-8")
				return ""
			}
			p.pos += n
		}
	}
	p.fail("a string does not end")
	return ""
}

func (p *parser) escape(b []byte) []byte {
	c := p.peek()
	p.pos++
	switch c {
	case '"', '\\', '/':
		return append(b, c)
	case 'b':
		return append(b, '\b')
	case 'f':
		return append(b, '\f')
	case 'n':
		return append(b, '\n')
	case 'r':
		return append(b, '\r')
	case 't':
		return append(b, '\t')
	case 'u':
		r := p.hex4()
		if utf16.IsSurrogate(r) {
			if p.peek() != '\\' || p.pos+1 >= len(p.data) || p.data[p.pos+1] != 'u' {
				p.fail("a lone surrogate in a string")
				return b
			}
			p.pos += 2
			if r = utf16.DecodeRune(r, p.hex4()); r == utf8.RuneError {
				p.fail("a lone surrogate in a string")
				return b
			}
		}
		return utf8.AppendRune(b, r)
	}
	p.fail("an unknown escape in a string")
	return b
}

func (p *parser) hex4() rune {
	if len(p.data)-p.pos < 4 {
		p.fail("\\u needs four hex digits")
		return 0
	}
	n, err := strconv.ParseUint(string(p.data[p.pos:p.pos+4]), 16, 32)
	if err != nil {
		p.fail("\\u needs four hex digits")
		return 0
	}
	p.pos += 4
	return rune(n)
}
