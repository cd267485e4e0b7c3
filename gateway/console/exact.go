package console

import (
	"encoding/base64"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/latchkey-gateway/latchkey/intent"
)

// Exact JSON: what was stored, as it was stored. Numbers keep their digits, members their
// order; what does not show, or would show as something else, is written as an escape.

// piece is a run of text of one kind.
type piece struct {
	Kind string // "" punctuation, name, text, number, word, escape, redacted
	Text string
}

// shown is how much of one value a page shows, in bytes of its text.
const shown = 64 << 10

// redacted is what intent.Rules.Redacted puts in an argument's place.
const redacted = "[redacted]"

type printer struct {
	pieces []piece
	left   int
	flat   bool // on one line
}

func (p *printer) put(kind, text string) {
	if p.left <= 0 {
		return
	}
	if p.left -= len(text); p.left <= 0 {
		text = strings.ToValidUTF8(text[:len(text)+p.left], "")
		p.pieces = append(p.pieces, piece{kind, text}, piece{"cut", " … cut here; the API has all of it"})
		return
	}
	if n := len(p.pieces); n > 0 && p.pieces[n-1].Kind == kind && kind == "" {
		p.pieces[n-1].Text += text
		return
	}
	p.pieces = append(p.pieces, piece{kind, text})
}

func (p *printer) line(depth int) {
	if !p.flat {
		p.put("", "\n"+strings.Repeat("  ", depth))
	}
}

// quoted writes a JSON string with everything that does not show as itself escaped.
func (p *printer) quoted(kind, s string) {
	p.put(kind, `"`)
	p.plain(kind, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s))
	p.put(kind, `"`)
}

// plain writes text, with escapes for what hides, reorders or is no character.
func (p *printer) plain(kind, s string) {
	from := 0
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		if visible(r) && (r != utf8.RuneError || size > 1) {
			continue
		}
		if from < i {
			p.put(kind, s[from:i])
		}
		switch {
		case r == utf8.RuneError && size == 1:
			p.put("escape", fmt.Sprintf(`\x%02x`, s[i]))
		case r == '\n':
			p.put("escape", `\n`)
		case r == '\t':
			p.put("escape", `\t`)
		case r > 0xFFFF:
			p.put("escape", fmt.Sprintf(`\u{%x}`, r))
		default:
			p.put("escape", fmt.Sprintf(`\u%04x`, r))
		}
		from = i + size
	}
	if from < len(s) {
		p.put(kind, s[from:])
	}
}

// visible: it shows, and as itself. Format characters (Cf) hold what reorders text and what
// has no width; other spaces than the plain one look like it.
func visible(r rune) bool {
	return r == ' ' || unicode.IsGraphic(r) && !unicode.Is(unicode.Zs, r) && !unicode.Is(unicode.Variation_Selector, r) && r != '\u3164' && r != '\u115f' && r != '\u1160' && r != '\uffa0'
}

func (p *printer) value(v intent.Value, depth int) {
	if p.left <= 0 {
		return
	}
	switch v.Kind() {
	case intent.Object:
		members := v.Members()
		if len(members) == 0 {
			p.put("", "{}")
			return
		}
		p.put("", "{")
		for i, m := range members {
			if i > 0 {
				p.put("", p.comma())
			}
			p.line(depth + 1)
			p.quoted("name", m.Name)
			p.put("", ": ")
			p.value(m.Value, depth+1)
		}
		p.line(depth)
		p.put("", "}")
	case intent.Array:
		items := v.Items()
		if len(items) == 0 {
			p.put("", "[]")
			return
		}
		p.put("", "[")
		for i, item := range items {
			if i > 0 {
				p.put("", p.comma())
			}
			p.line(depth + 1)
			p.value(item, depth+1)
		}
		p.line(depth)
		p.put("", "]")
	case intent.String:
		if v.Text() == redacted {
			p.put("redacted", "redacted")
			return
		}
		p.quoted("text", v.Text())
	case intent.Number:
		p.put("number", v.Text())
	default:
		p.put("word", string(v.AppendJSON(nil)))
	}
}

func (p *printer) comma() string {
	if p.flat {
		return ", "
	}
	return ","
}

// exact returns JSON over several lines; what is no JSON is shown as text.
func exact(b []byte) []piece { return printed(b, false, shown) }

// brief returns JSON on one line, cut to what fits in a list.
func brief(b []byte) []piece { return printed(b, true, 400) }

func printed(b []byte, flat bool, most int) []piece {
	if len(b) == 0 {
		return nil
	}
	p := &printer{left: most, flat: flat}
	v, err := intent.Parse(b)
	switch {
	case err != nil:
		p.plain("text", string(b))
	case v.Kind() == intent.Object && flat: // a list shows arguments without the braces
		for i, m := range v.Members() {
			if i > 0 {
				p.put("", "  ")
			}
			p.plain("name", m.Name)
			p.put("", " ")
			p.value(m.Value, 0)
		}
	default:
		p.value(v, 0)
	}
	return p.pieces
}

// words returns text of somebody else's on one line.
func words(s string) []piece {
	p := &printer{left: 1024, flat: true}
	p.plain("", s)
	return p.pieces
}

// body returns a downstream's answer as text, never as what it claims to be.
func body(o *intent.Outcome) []piece {
	switch {
	case o == nil:
		return nil
	case o.Truncated:
		return []piece{{"word", fmt.Sprintf("The body was over the cap and was not kept: %d bytes, SHA-256 %s.", o.Length, o.SHA256)}}
	case utf8.Valid(o.Body):
		return exact(o.Body)
	}
	p := &printer{left: shown}
	p.put("word", "These bytes are no text; in base64:\n")
	p.put("text", base64.StdEncoding.EncodeToString(o.Body[:min(len(o.Body), shown)]))
	return p.pieces
}

// difference is one place where two values differ.
type difference struct {
	At       string // JSON Pointer
	Was, Now []piece
	Kind     string // added, removed, changed
}

// maxDifferences bounds what is listed; beyond it two calls are not similar.
const maxDifferences = 50

// differences lists where now differs from was, in the order of now.
func differences(was, now []byte) []difference {
	a, errA := intent.Parse(was)
	b, errB := intent.Parse(now)
	if errA != nil || errB != nil {
		return nil
	}
	var d differ
	d.compare(nil, a, b)
	return d.list
}

type differ struct {
	list []difference
	same int // leaves that are equal
}

func (d *differ) add(at intent.Pointer, kind string, was, now intent.Value) {
	if len(d.list) == maxDifferences {
		return
	}
	pointer := at.String()
	if pointer == "" {
		pointer = "/"
	}
	text := func(v intent.Value) []piece {
		if !v.Exists() {
			return nil
		}
		p := &printer{left: 2048, flat: true}
		p.value(v, 0)
		return p.pieces
	}
	d.list = append(d.list, difference{pointer, text(was), text(now), kind})
}

func (d *differ) compare(at intent.Pointer, was, now intent.Value) {
	below := func(name string) intent.Pointer { return append(at[:len(at):len(at)], name) }
	switch {
	case !was.Exists():
		d.add(at, "added", was, now)
	case !now.Exists():
		d.add(at, "removed", was, now)
	case was.Kind() == intent.Object && now.Kind() == intent.Object:
		for _, m := range now.Members() {
			d.compare(below(m.Name), was.Member(m.Name), m.Value)
		}
		for _, m := range was.Members() {
			if !now.Member(m.Name).Exists() {
				d.add(below(m.Name), "removed", m.Value, intent.Value{})
			}
		}
	case string(was.AppendCanonical(nil)) == string(now.AppendCanonical(nil)):
		d.same++
	default:
		d.add(at, "changed", was, now)
	}
}
