package config

import (
	"errors"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/latchkey-gateway/latchkey/intent"
)

// Size is a number of bytes, written 512, 64KiB, 1MiB or 10MB (KB, MB and GB are powers of
// 1000, KiB, MiB and GiB of 1024).
type Size int64

var (
	sizeForm  = regexp.MustCompile(`^(\d+(?:\.\d+)?) ?([KMG]i?B|B)?$`)
	sizeUnits = map[string]float64{"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
	errSize   = errors.New("not a size")
)

func parseSize(text string) (Size, error) {
	m := sizeForm.FindStringSubmatch(text)
	if m == nil {
		return 0, errSize
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, err
	}
	n *= sizeUnits[m[2]]
	if n != math.Trunc(n) || n > 1<<53 {
		return 0, errSize
	}
	return Size(n), nil
}

func (s *Size) decode(d *decoder, n *yaml.Node, path string) {
	const want = "a size such as 512, 64KiB or 10MB"
	text, _, ok := d.text(n, path, want)
	if !ok {
		return
	}
	v, err := parseSize(text)
	if err != nil {
		d.fail(n, path, "needs %s, not %q", want, n.Value)
		return
	}
	*s = v
}

// Switch is "on", "off" or "" for the default. YAML 1.1 reads a bare on as true: both are
// taken.
type Switch string

func (s *Switch) decode(d *decoder, n *yaml.Node, path string) {
	text, _, ok := d.text(n, path, "on or off")
	if !ok {
		return
	}
	switch strings.ToLower(text) {
	case "on", "true":
		*s = "on"
	case "off", "false":
		*s = "off"
	default:
		d.fail(n, path, "needs on or off, not %q", n.Value)
	}
}

// TLS encrypts a connection. In the file it is true, false, or a mapping, which means true.
type TLS struct {
	Enabled bool
	// CA is PEM text of the authorities to trust. Default: the system's.
	CA string `yaml:"ca"`
	// Cert and Key are PEM text of the client's certificate. Default: none.
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
	// ServerName is the name that the server's certificate must carry. Default: the host
	// in the address.
	ServerName string `yaml:"server_name"`
}

func (t *TLS) decode(d *decoder, n *yaml.Node, path string) {
	if n.Kind != yaml.ScalarNode {
		t.Enabled = true
		d.fields(n, reflect.ValueOf(t).Elem(), path)
		return
	}
	d.scalar(n, reflect.ValueOf(&t.Enabled).Elem(), path, "")
}

// Body is what a request carries: Kind "args", "none" or "" for the default, or a Template.
type Body struct {
	Kind     string
	Template JSON
}

func (b *Body) decode(d *decoder, n *yaml.Node, path string) {
	if n.Kind == yaml.MappingNode {
		b.Template.decode(d, n, path)
		return
	}
	const want = "args, none or a mapping to be filled in"
	text, _, ok := d.text(n, path, want)
	if !ok {
		return
	}
	if text != "args" && text != "none" {
		d.fail(n, path, "needs %s, not %q", want, n.Value)
		return
	}
	b.Kind = text
}

// JSON is a free-form value as JSON text: numbers exactly as written, names unique.
type JSON []byte

func (j *JSON) decode(d *decoder, n *yaml.Node, path string) {
	before := len(d.problems)
	out := d.appendJSON(nil, n, path, 0)
	if len(d.problems) > before || d.visits >= maxVisits {
		return
	}
	if _, err := intent.Parse(out); err != nil {
		d.fail(n, path, "is not valid JSON: %s", err)
		return
	}
	*j = out
}

// appendJSON writes a node that was entered already.
func (d *decoder) appendJSON(b []byte, n *yaml.Node, path string, depth int) []byte {
	if depth > intent.MaxDepth {
		d.fail(n, path, "is nested deeper than %d levels", intent.MaxDepth)
		return b
	}
	inner := func(b []byte, n *yaml.Node, path string) []byte {
		n, ok := d.enter(n, path)
		if !ok {
			return b
		}
		return d.appendJSON(b, n, path, depth+1)
	}
	switch n.Kind {
	case yaml.MappingNode:
		open := len(b)
		d.members(n, path, func(name string, key, value *yaml.Node) {
			if key.ShortTag() != "!!str" {
				d.fail(key, join(path, name), "the name must be a string; write it in quotes")
				return
			}
			b = append(b, ',')
			b = intent.StringValue(name).AppendJSON(b)
			b = append(b, ':')
			b = inner(b, value, join(path, name))
		})
		return append(bracket(b, open, '{'), '}')
	case yaml.SequenceNode:
		open := len(b)
		for i, item := range n.Content {
			b = append(b, ',')
			b = inner(b, item, path+"["+strconv.Itoa(i)+"]")
		}
		return append(bracket(b, open, '['), ']')
	}
	switch n.ShortTag() {
	case "!!null":
		return append(b, "null"...)
	case "!!bool":
		return append(b, strings.ToLower(n.Value)...)
	case "!!int", "!!float":
		if !jsonNumber.MatchString(n.Value) {
			d.fail(n, path, "write the number %s as JSON does, or in quotes", n.Value)
		}
		return append(b, n.Value...)
	case "!!str", "!!timestamp":
		text, _, err := d.expand(n.Value)
		if err != nil {
			d.fail(n, path, "%s", err)
		}
		return intent.StringValue(text).AppendJSON(b)
	default:
		d.fail(n, path, "the YAML type %s has no form in JSON", n.ShortTag())
		return b
	}
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// bracket puts the opening bracket where the first comma stands, or at the end of nothing.
func bracket(b []byte, open int, c byte) []byte {
	if len(b) == open {
		return append(b, c)
	}
	b[open] = c
	return b
}
