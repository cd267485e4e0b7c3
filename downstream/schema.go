package downstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/latchkey-gateway/latchkey/intent"
)

// Bounds of the numbers that a schema is asked about. Exact arithmetic on 1e999999999 would
// need a gigabyte, and the validator gives up on such exponents by panicking.
const (
	maxExponent = 400 // float64 ends at 308
	maxDigits   = 1000
)

// compileSchema compiles an input_schema once. Without $schema it is draft 2020-12. Remote
// references are refused, never fetched: a tool's meaning must not depend on a network.
func compileSchema(tool string, schema []byte) (*jsonschema.Schema, error) {
	if schema == nil {
		return nil, nil
	}
	doc, err := intent.Parse(schema)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	location := "latchkey:///tools/" + tool + "/input_schema"
	if err := c.AddResource(location, plain(doc)); err != nil {
		return nil, err
	}
	return c.Compile(location)
}

type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is not part of this schema; references to other documents are not loaded", url)
}

// Validate checks arguments against the tool's input_schema and its request template. The
// error names the place and says what to do; it never repeats an argument's value. Give it
// the normalised arguments: they are what is sent.
func (t *Tool) Validate(args intent.Value) *intent.Error {
	if args.Kind() != intent.Object {
		return invalid(nil, "args must be a JSON object")
	}
	if t.schema != nil {
		if where, ok := hugeNumber(args, nil); ok {
			return invalid(where, "is a number too large or too small to be checked")
		}
		if err := t.schema.Validate(plain(args)); err != nil {
			found, ok := errors.AsType[*jsonschema.ValidationError](err)
			if !ok {
				return intent.Errorf(intent.InvalidArguments, err, "The arguments do not match the tool's input_schema.")
			}
			return complain(found)
		}
	}
	return t.request.check(args)
}

// invalid makes the error for one place.
func invalid(where intent.Pointer, what string) *intent.Error {
	e := intent.Errorf(intent.InvalidArguments, nil, sentence(where, what))
	e.Pointer = where.String()
	return e
}

// sentence puts the place in front: "/to must be a string." Long pointers are cut: they hold
// names that the caller chose.
func sentence(where intent.Pointer, what string) string {
	place := where.String()
	if len(place) > 200 {
		place = strings.ToValidUTF8(place[:200], "") + "..."
	}
	return strings.TrimLeft(place+" "+what+".", " ")
}

// complain turns the library's tree of errors into the first few leaves, sorted by place, so
// that the same arguments always get the same answer.
func complain(err *jsonschema.ValidationError) *intent.Error {
	var leaves []leaf
	collect(err, &leaves)
	slices.SortStableFunc(leaves, func(x, y leaf) int {
		return strings.Compare(x.where.String()+" "+x.what, y.where.String()+" "+y.what)
	})
	leaves = slices.CompactFunc(leaves, func(x, y leaf) bool { return x.what == y.what && slices.Equal(x.where, y.where) })
	var text []string
	for _, l := range leaves[:min(3, len(leaves))] {
		text = append(text, sentence(l.where, l.what))
	}
	if more := len(leaves) - len(text); more > 0 {
		text = append(text, fmt.Sprintf("And %d more.", more))
	}
	e := intent.Errorf(intent.InvalidArguments, nil, strings.Join(text, " "))
	e.Pointer = leaves[0].where.String()
	return e
}

type leaf struct {
	where intent.Pointer
	what  string
}

func collect(err *jsonschema.ValidationError, leaves *[]leaf) {
	at := intent.Pointer(err.InstanceLocation)
	add := func(where intent.Pointer, format string, a ...any) {
		*leaves = append(*leaves, leaf{slices.Clone(where), fmt.Sprintf(format, a...)})
	}
	child := func(name string) intent.Pointer { return append(slices.Clone(at), name) }
	switch k := err.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			add(child(name), "is required")
		}
	case *kind.DependentRequired:
		for _, name := range k.Missing {
			add(child(name), "is required together with %s", k.Prop)
		}
	case *kind.Dependency:
		for _, name := range k.Missing {
			add(child(name), "is required together with %s", k.Prop)
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			add(child(name), "is not an argument of this tool; leave it out")
		}
	case *kind.FalseSchema:
		add(at, "is not allowed here; leave it out")
	case *kind.PropertyNames:
		add(at, "has a member whose name is not allowed")
	case *kind.Type:
		add(at, "must be of type %s", strings.Join(k.Want, " or "))
	case *kind.Enum:
		add(at, "must be one of %s", choices(k.Want))
	case *kind.Const:
		add(at, "must be %s", choices([]any{k.Want}))
	case *kind.Format:
		add(at, "must have the format %s", k.Want)
	case *kind.Pattern:
		add(at, "must match the pattern %s", k.Want)
	case *kind.MinLength:
		add(at, "must have at least %d characters", k.Want)
	case *kind.MaxLength:
		add(at, "must have at most %d characters", k.Want)
	case *kind.MinItems:
		add(at, "must have at least %d elements", k.Want)
	case *kind.MaxItems:
		add(at, "must have at most %d elements", k.Want)
	case *kind.UniqueItems:
		add(at, "must not have the same element twice (elements %d and %d)", k.Duplicates[0], k.Duplicates[1])
	case *kind.MinProperties:
		add(at, "must have at least %d members", k.Want)
	case *kind.MaxProperties:
		add(at, "must have at most %d members", k.Want)
	case *kind.Minimum:
		add(at, "must be at least %s", decimal(k.Want))
	case *kind.Maximum:
		add(at, "must be at most %s", decimal(k.Want))
	case *kind.ExclusiveMinimum:
		add(at, "must be more than %s", decimal(k.Want))
	case *kind.ExclusiveMaximum:
		add(at, "must be less than %s", decimal(k.Want))
	case *kind.MultipleOf:
		add(at, "must be a multiple of %s", decimal(k.Want))
	case *kind.AnyOf:
		add(at, "matches none of the forms that are allowed here")
	case *kind.OneOf:
		add(at, "must match exactly one of the forms that are allowed here")
	case *kind.Not:
		add(at, "has a form that is not allowed here")
	case *kind.Contains, *kind.MinContains, *kind.MaxContains, *kind.AdditionalItems:
		add(at, "does not have the elements that the input_schema asks for")
	default:
		for _, cause := range err.Causes {
			collect(cause, leaves)
		}
		if len(err.Causes) == 0 {
			add(at, "does not match the input_schema")
		}
	}
}

// choices writes values of the schema, never of the arguments.
func choices(values []any) string {
	var b bytes.Buffer
	for i, v := range values {
		if i > 0 {
			b.WriteString(", ")
		}
		if i == 20 {
			fmt.Fprintf(&b, "and %d more", len(values)-i)
			break
		}
		text, err := json.Marshal(v)
		if err != nil {
			text = []byte("?")
		}
		b.Write(text)
	}
	return b.String()
}

// decimal writes a limit of the schema as a person would.
func decimal(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	if digits, exact := r.FloatPrec(); exact {
		return r.FloatString(digits)
	}
	return r.RatString()
}

// plain turns a value into what the validator takes. Numbers stay exact as json.Number.
func plain(v intent.Value) any {
	switch v.Kind() {
	case intent.False, intent.True:
		return v.Kind() == intent.True
	case intent.Number:
		return json.Number(v.Text())
	case intent.String:
		return v.Text()
	case intent.Array:
		items := make([]any, len(v.Items()))
		for i, item := range v.Items() {
			items[i] = plain(item)
		}
		return items
	case intent.Object:
		members := make(map[string]any, len(v.Members()))
		for _, m := range v.Members() {
			members[m.Name] = plain(m.Value)
		}
		return members
	}
	return nil
}

// hugeNumber finds a number beyond maxExponent or maxDigits.
func hugeNumber(v intent.Value, at intent.Pointer) (intent.Pointer, bool) {
	switch v.Kind() {
	case intent.Number:
		if i := strings.IndexAny(v.Text(), "eE"); i >= 0 {
			n, err := strconv.Atoi(v.Text()[i+1:])
			return at, err != nil || n > maxExponent || n < -maxExponent || i > maxDigits
		}
		return at, len(v.Text()) > maxDigits
	case intent.Array:
		for i, item := range v.Items() {
			if where, ok := hugeNumber(item, append(at, strconv.Itoa(i))); ok {
				return where, true
			}
		}
	case intent.Object:
		for _, m := range v.Members() {
			if where, ok := hugeNumber(m.Value, append(at, m.Name)); ok {
				return where, true
			}
		}
	}
	return nil, false
}
