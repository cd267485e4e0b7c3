package downstream

import (
	"net/http"
	"slices"
	"strings"

	"github.com/latchkey-gateway/latchkey/intent"
)

// request is a parsed request template. Everything that can be wrong with a template is
// found when it is loaded; what is left for a call is whether its arguments fit.
type request struct {
	method   string
	answerTo *http.Request // what http.ReadResponse must know of the request: its method
	segments []text        // of the path, after the leading slash
	query    []param
	body     bodyKind
	template node
	takesArg bool // an argument is used outside a plain "args" body
}

type bodyKind uint8

const (
	bodyNone bodyKind = iota
	bodyArgs
	bodyTemplate
)

// place says what a part of a text stands for.
type place uint8

const (
	placeLiteral place = iota
	placeArg
	placeKey
	placeRunID
	placeStepID
)

// part is a literal or one placeholder.
type part struct {
	place   place
	literal string         // as written in the template
	arg     intent.Pointer // for placeArg
}

type text []part

// whole: the text is exactly one placeholder.
func (t text) whole() bool { return len(t) == 1 && t[0].place != placeLiteral }

func (t text) fixed() bool {
	return !slices.ContainsFunc(t, func(p part) bool { return p.place != placeLiteral })
}

// param is one name=value of the query; the name is literal.
type param struct {
	name  string // escaped, with "=" where the template has one
	value text
}

// node is one value of a body template.
type node struct {
	literal []byte   // JSON, ready to be sent, when nothing in it is to be filled in
	text    text     // a string that holds placeholders
	members []member // an object
	items   []node   // an array
	kind    nodeKind
}

type nodeKind uint8

const (
	nodeLiteral nodeKind = iota
	nodeText
	nodeObject
	nodeArray
)

type member struct {
	name []byte // quoted, with the colon
	node node
}

var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

func parseRequest(spec RequestSpec, at scope) *request {
	r := &request{method: strings.ToUpper(spec.Method)}
	r.answerTo = &http.Request{Method: r.method}
	if r.method == "" {
		at.add("method", "is required: one of %s", strings.Join(methods, ", "))
	} else if !slices.Contains(methods, r.method) {
		at.add("method", "%q is not one of %s", spec.Method, strings.Join(methods, ", "))
	}
	r.parsePath(spec.Path, at)
	r.parseBody(spec, at)
	for p := range r.parts() {
		r.takesArg = r.takesArg || p.place == placeArg
	}
	return r
}

func (r *request) parsePath(path string, at scope) {
	path, query, hasQuery := strings.Cut(path, "?")
	switch {
	case !strings.HasPrefix(path, "/"):
		at.add("path", "must begin with /, for instance /invoices/{args.invoice_id}")
		return
	case strings.ContainsRune(path+query, '#'):
		at.add("path", "must not hold a fragment (#)")
		return
	}
	pieces := strings.Split(path[1:], "/")
	for i, piece := range pieces {
		t, ok := parseText(piece, false, at, "path")
		if !ok {
			continue
		}
		if piece == "" && i < len(pieces)-1 {
			at.add("path", "must not hold an empty segment (//)")
		}
		if literal, ok := decodeLiterals(t, ""); !ok {
			at.add("path", "may hold letters, digits, -._~!$&'()*+,;=:@ and percent-encoded bytes besides placeholders")
		} else if t.fixed() && changesStructure(literal) && piece != "" {
			at.add("path", "must not hold a segment that is . or ..")
		}
		r.segments = append(r.segments, t)
	}
	if !hasQuery {
		return
	}
	for pair := range strings.SplitSeq(query, "&") {
		name, value, equals := strings.Cut(pair, "=")
		if strings.ContainsAny(name, "{}") {
			at.add("path", "a placeholder cannot be the name of a query parameter")
			continue
		}
		t, ok := parseText(value, false, at, "path")
		if !ok {
			continue
		}
		_, good := decodeLiterals(t, "/?")
		if _, ok := decodeLiterals(text{{literal: name}}, "/?"); !ok || !good || name == "" {
			at.add("path", "has a query that is not name=value&name=value with percent-encoded text")
		}
		if equals {
			name += "="
		}
		r.query = append(r.query, param{name, t})
	}
}

func (r *request) parseBody(spec RequestSpec, at scope) {
	noBody := r.method == http.MethodGet || r.method == http.MethodHead
	switch {
	case spec.Template != nil && spec.Body != "":
		at.add("body", "is given twice, as a word and as a template")
	case spec.Template != nil:
		r.body = bodyTemplate
		v, err := intent.Parse(spec.Template)
		if err != nil {
			at.add("body", "%v", err)
		} else if v.Kind() != intent.Object {
			at.add("body", "must be args, none or a template object")
		} else {
			r.template = parseNode(v, at)
		}
	case spec.Body == "args":
		r.body = bodyArgs
	case spec.Body == "none":
	case spec.Body == "":
		if !noBody && r.method != http.MethodDelete {
			r.body = bodyArgs
		}
	default:
		at.add("body", "%q is not args, none or a template object", spec.Body)
	}
	if noBody && r.body != bodyNone {
		at.add("body", "a %s request has no body; put arguments into path or query", r.method)
	}
}

func parseNode(v intent.Value, at scope) node {
	n := node{}
	switch v.Kind() {
	case intent.String:
		t, _ := parseText(v.Text(), true, at, "body")
		if !t.fixed() {
			return node{kind: nodeText, text: t}
		}
		if len(t) == 1 {
			v = intent.StringValue(t[0].literal)
		}
		return node{literal: v.AppendJSON(nil)}
	case intent.Object:
		n.kind = nodeObject
		for _, m := range v.Members() {
			if strings.Contains(m.Name, "{") {
				at.add("body", "a placeholder cannot be part of a member's name")
			}
			n.members = append(n.members, member{append(intent.AppendString(nil, m.Name), ':'), parseNode(m.Value, at)})
		}
	case intent.Array:
		n.kind = nodeArray
		for _, item := range v.Items() {
			n.items = append(n.items, parseNode(item, at))
		}
	default:
		return node{literal: v.AppendJSON(nil)}
	}
	if !n.walk(func(part) bool { return false }) {
		return n
	}
	literal, _ := n.append(nil, nil) // nothing in it is to be filled in
	return node{literal: literal}
}

// parseText splits "a{args.b}c". In a body, "{{" stands for "{"; in a path a brace must be
// percent-encoded. What it cannot split it reports, and returns false.
func parseText(s string, body bool, at scope, field string) (text, bool) {
	var t text
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			t = append(t, part{literal: literal.String()})
			literal.Reset()
		}
	}
	for s != "" {
		before, rest, found := strings.Cut(s, "{")
		literal.WriteString(before)
		if !found {
			break
		}
		if body && strings.HasPrefix(rest, "{") {
			literal.WriteByte('{')
			s = rest[1:]
			continue
		}
		name, after, closed := strings.Cut(rest, "}")
		p, ok := parsePlace(name)
		if !closed || !ok {
			at.add(field, "has a placeholder that is not {args.NAME}, {key}, {run_id} or {step_id}")
			return nil, false
		}
		flush()
		t = append(t, p)
		s = after
	}
	flush()
	return t, true
}

func parsePlace(name string) (part, bool) {
	switch name {
	case "key":
		return part{place: placeKey}, true
	case "run_id":
		return part{place: placeRunID}, true
	case "step_id":
		return part{place: placeStepID}, true
	}
	path, ok := strings.CutPrefix(name, "args.")
	names := strings.Split(path, ".")
	if !ok || slices.Contains(names, "") || strings.ContainsAny(path, "{ \t\r\n") {
		return part{}, false
	}
	return part{place: placeArg, arg: names}, true
}

// parts yields every part of the template.
func (r *request) parts() func(yield func(part) bool) {
	return func(yield func(part) bool) {
		for _, t := range r.segments {
			for _, p := range t {
				if !yield(p) {
					return
				}
			}
		}
		for _, q := range r.query {
			for _, p := range q.value {
				if !yield(p) {
					return
				}
			}
		}
		r.template.walk(yield)
	}
}

func (n *node) walk(yield func(part) bool) bool {
	for _, p := range n.text {
		if !yield(p) {
			return false
		}
	}
	for i := range n.members {
		if !n.members[i].node.walk(yield) {
			return false
		}
	}
	for i := range n.items {
		if !n.items[i].walk(yield) {
			return false
		}
	}
	return true
}

// uses says whether the template has such a placeholder.
func (r *request) uses(what place) bool {
	for p := range r.parts() {
		if p.place == what {
			return true
		}
	}
	return false
}

// needs says whether the request cannot be made while such a placeholder is empty: it is
// part of the path.
func (r *request) needs(what place) bool {
	return slices.ContainsFunc(r.segments, func(t text) bool {
		return slices.ContainsFunc(t, func(p part) bool { return p.place == what })
	})
}
