package downstream

import (
	"net/url"
	"strings"

	"github.com/latchkey-gateway/latchkey/intent"
)

// filling is what placeholders are filled from.
type filling struct {
	args               intent.Value
	key, runID, stepID string
}

// check says whether the arguments fit the template.
func (r *request) check(args intent.Value) *intent.Error {
	if !r.takesArg {
		return nil
	}
	f := filling{args: args, key: "k", runID: "r", stepID: "s"}
	if _, err := r.appendTarget(nil, &f); err != nil {
		return err
	}
	_, err := r.appendBody(nil, &f)
	return err
}

// appendTarget writes path and query. No value can change the path's structure: every byte
// that is not unreserved (RFC 3986 §2.3) is percent-encoded, and a segment that would be
// empty, "." or ".." is an error, also where a server decodes %2F before it looks.
func (r *request) appendTarget(b []byte, f *filling) ([]byte, *intent.Error) {
	for _, segment := range r.segments {
		b = append(b, '/')
		if segment.fixed() {
			for _, p := range segment {
				b = append(b, p.literal...)
			}
			continue
		}
		var plain strings.Builder // the segment as a server will read it
		for _, p := range segment {
			if p.place == placeLiteral {
				b = append(b, p.literal...)
				literal, _ := url.PathUnescape(p.literal)
				plain.WriteString(literal)
				continue
			}
			value, err := f.scalar(p)
			if err != nil {
				return nil, err
			}
			if strings.ContainsFunc(value, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
				return nil, invalid(p.where(), "is part of a URL path and must not hold control characters")
			}
			b = appendEscaped(b, value)
			plain.WriteString(value)
		}
		if changesStructure(plain.String()) {
			return nil, invalid(segment.blame(), "is part of a URL path and must not be empty and must not hold . or .. as a path segment")
		}
	}
	separator := byte('?')
	for _, q := range r.query {
		if q.value.whole() && q.value[0].place == placeArg && !f.args.At(q.value[0].arg).Exists() {
			continue
		}
		b = append(append(b, separator), q.name...)
		separator = '&'
		for _, p := range q.value {
			if p.place == placeLiteral {
				b = append(b, p.literal...)
				continue
			}
			value, err := f.scalar(p)
			if err != nil {
				return nil, err
			}
			b = appendEscaped(b, value)
		}
	}
	return b, nil
}

// appendBody writes the body, exactly as the arguments have it: numbers as written.
func (r *request) appendBody(b []byte, f *filling) ([]byte, *intent.Error) {
	switch r.body {
	case bodyArgs:
		return f.args.AppendJSON(b), nil
	case bodyTemplate:
		return r.template.append(b, f)
	}
	return b, nil
}

func (n *node) append(b []byte, f *filling) ([]byte, *intent.Error) {
	var err *intent.Error
	switch n.kind {
	case nodeText:
		return n.text.appendJSON(b, f)
	case nodeObject:
		b = append(b, '{')
		first := true
		for i := range n.members {
			m := &n.members[i]
			if m.node.absent(f) {
				continue
			}
			if !first {
				b = append(b, ',')
			}
			first = false
			if b, err = m.node.append(append(b, m.name...), f); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	case nodeArray:
		b = append(b, '[')
		first := true
		for i := range n.items {
			if n.items[i].absent(f) {
				continue
			}
			if !first {
				b = append(b, ',')
			}
			first = false
			if b, err = n.items[i].append(b, f); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	}
	return append(b, n.literal...), nil
}

// absent: the value is exactly one argument, and that was not given. It is then left out.
func (n *node) absent(f *filling) bool {
	return n.kind == nodeText && n.text.whole() && n.text[0].place == placeArg && !f.args.At(n.text[0].arg).Exists()
}

// appendJSON writes a string with placeholders: one that is a single argument becomes that
// argument's JSON value, any other is filled in as text.
func (t text) appendJSON(b []byte, f *filling) ([]byte, *intent.Error) {
	if t.whole() && t[0].place == placeArg {
		return f.args.At(t[0].arg).AppendJSON(b), nil
	}
	var s strings.Builder
	for _, p := range t {
		if p.place == placeLiteral {
			s.WriteString(p.literal)
			continue
		}
		value, err := f.scalar(p)
		if err != nil {
			return nil, err
		}
		s.WriteString(value)
	}
	return intent.AppendString(b, s.String()), nil
}

// scalar returns a placeholder's value as text.
func (f *filling) scalar(p part) (string, *intent.Error) {
	switch p.place {
	case placeKey:
		return f.key, nil
	case placeRunID:
		return f.runID, nil
	case placeStepID:
		return f.stepID, nil
	}
	switch v := f.args.At(p.arg); v.Kind() {
	case intent.String, intent.Number:
		return v.Text(), nil
	case intent.True:
		return "true", nil
	case intent.False:
		return "false", nil
	case 0:
		return "", invalid(p.arg, "is required by this tool's request")
	}
	return "", invalid(p.arg, "is used inside a text of this tool's request and must be a string, a number, true or false")
}

// where is the argument to blame; the whole of args for what is not an argument.
func (p part) where() intent.Pointer { return p.arg }

func (t text) blame() intent.Pointer {
	for _, p := range t {
		if p.place == placeArg {
			return p.arg
		}
	}
	return nil
}

// changesStructure says whether a path segment, as a server reads it, would be no segment or
// climb: it is empty, or one of its parts is "." or "..". Parts, because some servers decode
// %2F and \ to a separator first.
func changesStructure(segment string) bool {
	if segment == "" {
		return true
	}
	for part := range strings.FieldsFuncSeq(segment, func(r rune) bool { return r == '/' || r == '\\' }) {
		if part == "." || part == ".." {
			return true
		}
	}
	return false
}

// decodeLiterals returns a text's literals without percent-encoding, and whether they are
// made of what RFC 3986 allows in a path segment, and of the bytes in more.
func decodeLiterals(t text, more string) (string, bool) {
	var b strings.Builder
	for _, p := range t {
		for i := range len(p.literal) {
			c := p.literal[i]
			if !unreserved(c) && !strings.ContainsRune("%!$&'()*+,;=:@", rune(c)) && !strings.ContainsRune(more, rune(c)) {
				return "", false
			}
		}
		plain, err := url.PathUnescape(p.literal)
		if err != nil {
			return "", false
		}
		b.WriteString(plain)
	}
	return b.String(), true
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

func appendEscaped(b []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		if c := s[i]; unreserved(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', hex[c>>4], hex[c&0xf])
		}
	}
	return b
}
