package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// decoder walks nodes into the structs of config.go and collects problems. Struct tags
// steer it: yaml (the name), default, min and max (in the field's own notation), oneof, and
// secret for fields whose values problems do not show.
type decoder struct {
	file     string
	opts     Options
	problems []Problem
	lines    map[string]int
	secrets  []secret
	visits   int
}

// maxVisits bounds the walk: aliases of aliases can stand for more values than fit in memory.
const maxVisits = 200_000

// custom is a type that reads its own node.
type custom interface {
	decode(d *decoder, n *yaml.Node, path string)
}

func (d *decoder) fail(n *yaml.Node, path, format string, a ...any) {
	d.problems = append(d.problems, Problem{File: d.file, Line: n.Line, Field: path, Message: fmt.Sprintf(format, a...)})
}

// enter follows an alias and counts what is visited; false ends the walk.
func (d *decoder) enter(n *yaml.Node, path string) (*yaml.Node, bool) {
	if n.Kind == yaml.AliasNode {
		at := n.Line
		n = new(*n.Alias)
		n.Line = at // a problem is where the alias is used
	}
	d.visits++
	if d.visits == maxVisits {
		d.fail(n, path, "the file has too many values (are its aliases nested?)")
	}
	return n, d.visits < maxVisits
}

// value decodes n into out, which is settable. tag is the struct field's, {} for elements
// without one.
func (d *decoder) value(n *yaml.Node, out reflect.Value, path string, tag reflect.StructTag) {
	n, ok := d.enter(n, path)
	if !ok {
		return
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		d.fail(n, path, "has no value: give it one, or remove the line")
		return
	}
	if c, ok := out.Addr().Interface().(custom); ok {
		c.decode(d, n, path)
		if _, sized := c.(*Size); sized {
			d.bounds(n, out, path, tag)
		}
		return
	}
	switch out.Kind() {
	case reflect.Pointer:
		out.Set(reflect.New(out.Type().Elem()))
		setDefaults(out.Elem())
		d.value(n, out.Elem(), path, "")
	case reflect.Struct:
		d.fields(n, out, path)
	case reflect.Map:
		d.entries(n, out, path, tag)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			d.fail(n, path, "needs a list, not %s", describe(n))
			return
		}
		out.Set(reflect.MakeSlice(out.Type(), len(n.Content), len(n.Content)))
		for i, item := range n.Content {
			itemPath := fmt.Sprintf("%s[%d]", path, i)
			d.lines[itemPath] = item.Line
			setDefaults(out.Index(i))
			d.value(item, out.Index(i), itemPath, tag)
		}
	default:
		d.scalar(n, out, path, tag)
	}
}

// fields decodes a mapping into a struct.
func (d *decoder) fields(n *yaml.Node, out reflect.Value, path string) {
	known := map[string]int{}
	var names []string
	for i := range out.NumField() {
		if name := out.Type().Field(i).Tag.Get("yaml"); name != "" {
			known[name] = i
			names = append(names, name)
		}
	}
	d.members(n, path, func(name string, key, value *yaml.Node) {
		i, ok := known[name]
		if !ok {
			hint := "; the fields are " + strings.Join(names, ", ")
			if near := suggest(name, names); near != "" {
				hint = "; did you mean " + near + "?"
			}
			d.fail(key, join(path, name), "unknown field%s", hint)
			return
		}
		d.value(value, out.Field(i), join(path, name), out.Type().Field(i).Tag)
	})
}

// entries decodes a mapping whose names are free: map[string]T or map[int]T.
func (d *decoder) entries(n *yaml.Node, out reflect.Value, path string, tag reflect.StructTag) {
	out.Set(reflect.MakeMap(out.Type()))
	d.members(n, path, func(name string, key, value *yaml.Node) {
		k := reflect.New(out.Type().Key()).Elem()
		if k.Kind() == reflect.Int {
			number, err := strconv.Atoi(name)
			if err != nil {
				d.fail(key, join(path, name), "the name must be a whole number")
				return
			}
			k.SetInt(int64(number))
		} else {
			k.SetString(name)
		}
		v := reflect.New(out.Type().Elem()).Elem()
		setDefaults(v)
		d.value(value, v, join(path, name), tag)
		out.SetMapIndex(k, v)
	})
}

// members calls f for each name of a mapping, in the order written, and refuses duplicates.
func (d *decoder) members(n *yaml.Node, path string, f func(name string, key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, path, "needs a mapping of names to values, not %s", describe(n))
		return
	}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode:
			d.fail(key, path, "has a name that is %s: a name is a string", describe(key))
			continue
		case key.ShortTag() == "!!merge":
			d.fail(key, path, "merging with << is not supported: write the fields out")
			continue
		}
		name := key.Value
		if line, ok := first[name]; ok {
			d.fail(key, join(path, name), "duplicate name, first on line %d", line)
			continue
		}
		first[name] = key.Line
		d.lines[join(path, name)] = key.Line
		f(name, key, value)
	}
}

// scalar decodes one value. A string that held a reference may stand for any type: a port
// can come from the environment. Messages show it as written.
func (d *decoder) scalar(n *yaml.Node, out reflect.Value, path string, tag reflect.StructTag) {
	want, types := wants(out)
	if tag.Get("secret") != "" && n.Kind == yaml.ScalarNode && n.ShortTag() != "!!str" {
		d.fail(n, path, "needs %s; write it in quotes", want)
		return
	}
	text, referred, ok := d.text(n, path, want)
	if !ok {
		return
	}
	if !referred && !slices.Contains(types, n.ShortTag()) {
		d.fail(n, path, "needs %s, not %s%s", want, describe(n), quoteHint(out, n))
		return
	}
	if err := setText(out, text); err != nil {
		d.fail(n, path, "needs %s, not %q%s", want, n.Value, unitHint(out, text))
		return
	}
	if list := tag.Get("oneof"); list != "" && out.Kind() == reflect.String {
		if words := strings.Split(list, ","); !slices.Contains(words, text) {
			hint := ""
			if near := suggest(text, words); near != "" {
				hint = "; did you mean " + near + "?"
			}
			d.fail(n, path, "%q is not one of %s%s", n.Value, strings.Join(words, ", "), hint)
		}
	}
	d.bounds(n, out, path, tag)
}

// text returns a scalar's content with references replaced.
func (d *decoder) text(n *yaml.Node, path, want string) (text string, referred, ok bool) {
	if n.Kind != yaml.ScalarNode {
		d.fail(n, path, "needs %s, not %s", want, describe(n))
		return "", false, false
	}
	if n.ShortTag() != "!!str" {
		return n.Value, false, true
	}
	text, referred, err := d.expand(n.Value)
	if err != nil {
		d.fail(n, path, "%s", err)
		return "", true, false
	}
	return text, referred, true
}

// bounds checks min and max, written as the field itself is.
func (d *decoder) bounds(n *yaml.Node, out reflect.Value, path string, tag reflect.StructTag) {
	low, high := tag.Get("min"), tag.Get("max")
	if low == "" && high == "" {
		return
	}
	at := func(text string) float64 {
		v := reflect.New(out.Type()).Elem()
		if err := setText(v, text); err != nil {
			panic("config: bad min or max tag of " + path)
		}
		return number(v)
	}
	v := number(out)
	switch {
	case low != "" && high != "" && (v < at(low) || v > at(high)):
		d.fail(n, path, "must be between %s and %s", low, high)
	case low != "" && v < at(low):
		d.fail(n, path, "must be at least %s", low)
	case high != "" && v > at(high):
		d.fail(n, path, "must be at most %s", high)
	}
}

func number(v reflect.Value) float64 {
	if v.CanInt() {
		return float64(v.Int())
	}
	return v.Float()
}

var durationType = reflect.TypeFor[time.Duration]()

// wants says in words what a scalar field takes, and which YAML types can hold it.
func wants(v reflect.Value) (want string, types []string) {
	switch {
	case v.Type() == durationType:
		return "a duration such as 500ms, 30s or 24h", []string{"!!str", "!!int", "!!float"}
	case v.Kind() == reflect.Bool:
		return "true or false", []string{"!!bool"}
	case v.Kind() == reflect.Int:
		return "a whole number", []string{"!!int"}
	case v.Kind() == reflect.Float64:
		return "a number", []string{"!!int", "!!float"}
	default:
		return "a string", []string{"!!str"}
	}
}

// setText sets a scalar from its text.
func setText(out reflect.Value, text string) error {
	switch {
	case out.Type() == durationType:
		v, err := time.ParseDuration(text)
		out.SetInt(int64(v))
		return err
	case out.Type() == reflect.TypeFor[Size]():
		v, err := parseSize(text)
		out.SetInt(int64(v))
		return err
	case out.Kind() == reflect.Bool:
		v, err := strconv.ParseBool(strings.ToLower(text))
		out.SetBool(v)
		return err
	case out.Kind() == reflect.Int:
		v, err := strconv.Atoi(text)
		out.SetInt(int64(v))
		return err
	case out.Kind() == reflect.Float64:
		v, err := strconv.ParseFloat(text, 64)
		if err == nil && (v != v || v-v != 0) {
			err = strconv.ErrRange
		}
		out.SetFloat(v)
		return err
	default:
		out.SetString(text)
		return nil
	}
}

// setDefaults sets every default tag below v; pointers, lists and maps stay empty.
func setDefaults(v reflect.Value) {
	if v.Kind() != reflect.Struct {
		return
	}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if text, ok := field.Tag.Lookup("default"); ok {
			if err := setText(v.Field(i), text); err != nil {
				panic("config: bad default tag of " + field.Name)
			}
		} else if field.IsExported() {
			setDefaults(v.Field(i))
		}
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func describe(n *yaml.Node) string {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.ShortTag() == "!!null":
		return "nothing"
	case n.ShortTag() == "!!str":
		return fmt.Sprintf("the string %q", n.Value)
	default:
		return n.Value
	}
}

func quoteHint(out reflect.Value, n *yaml.Node) string {
	if out.Kind() == reflect.String {
		return "; write it in quotes"
	}
	if n.ShortTag() == "!!str" && n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		return "; write it without quotes"
	}
	return ""
}

func unitHint(out reflect.Value, text string) string {
	if _, err := strconv.ParseFloat(text, 64); err == nil && out.Type() == durationType {
		return "; it lacks a unit"
	}
	return ""
}
