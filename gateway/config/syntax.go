package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parseSyntax reads one YAML or JSON document into nodes. JSON has its own reader because
// YAML 1.1 is not quite a superset of it: "\ud83d\ude00" is an error there.
func parseSyntax(file string, data []byte) (*yaml.Node, *Problem) {
	if json.Valid(data) {
		d := jsonReader{dec: json.NewDecoder(bytes.NewReader(data)), data: data, line: 1}
		d.dec.UseNumber()
		return d.value(), nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, &Problem{File: file, Message: "is empty: it needs at least store, auth, downstreams and tools"}
	case err != nil:
		return nil, syntaxProblem(file, err)
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		return nil, &Problem{File: file, Line: second.Line, Message: "holds a second document (after ---): a config is one"}
	case !errors.Is(err, io.EOF):
		return nil, syntaxProblem(file, err)
	}
	return doc.Content[0], nil
}

var yamlError = regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)$`)

func syntaxProblem(file string, err error) *Problem {
	p := Problem{File: file, Message: "is not valid YAML: " + err.Error()}
	if m := yamlError.FindStringSubmatch(err.Error()); m != nil {
		p.Line, _ = strconv.Atoi(m[1])
		p.Message = "is not valid YAML: " + strings.TrimSpace(m[2])
	}
	return &p
}

// jsonReader makes nodes of JSON that is known to be valid.
type jsonReader struct {
	dec  *json.Decoder
	data []byte
	seen int // bytes whose lines are counted
	line int
}

// token returns the next token and the line it ends on.
func (r *jsonReader) token() (json.Token, int) {
	t, err := r.dec.Token()
	if err != nil {
		return nil, r.line
	}
	end := int(r.dec.InputOffset())
	r.line += bytes.Count(r.data[r.seen:end], []byte("\n"))
	r.seen = end
	return t, r.line
}

func (r *jsonReader) value() *yaml.Node {
	t, line := r.token()
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: line}
	switch t := t.(type) {
	case string:
		n.Tag, n.Value, n.Style = "!!str", t, yaml.DoubleQuotedStyle
	case json.Number:
		n.Tag, n.Value = "!!float", t.String()
		if !strings.ContainsAny(n.Value, ".eE") {
			n.Tag = "!!int"
		}
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(t)
	case json.Delim:
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
		if t == '[' {
			n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		}
		for r.dec.More() {
			n.Content = append(n.Content, r.value())
		}
		r.token() // the closing one
	default:
		n.Tag, n.Value = "!!null", "null"
	}
	return n
}
