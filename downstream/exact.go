package downstream

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/latchkey-gateway/latchkey/intent"
)

// exact shows JSON values to the rules of one lookup, part by part as they look at them, and
// writes what a rule picked as JSON again, with every number as it was written. In a rule a
// number is an int or uint where it is a whole number that fits, an exactNumber where it is a
// larger one, and else a double.
type exact struct {
	tokens  map[float64]string               // how the doubles that were looked at were written
	objects map[*intent.Member]traits.Mapper // by their first member, so that each is indexed once
}

func newExact() *exact {
	return &exact{tokens: make(map[float64]string), objects: make(map[*intent.Member]traits.Mapper)}
}

// object and array keep the value that they show.
type object struct {
	traits.Mapper
	value intent.Value
}

type array struct {
	traits.Lister
	value intent.Value
}

// NativeToValue makes exact a types.Adapter.
func (e *exact) NativeToValue(v any) ref.Val {
	if v, ok := v.(intent.Value); ok {
		return e.show(v)
	}
	return types.DefaultTypeAdapter.NativeToValue(v)
}

func (e *exact) show(v intent.Value) ref.Val {
	switch v.Kind() {
	case intent.False, intent.True:
		return types.Bool(v.Kind() == intent.True)
	case intent.String:
		return types.String(v.Text())
	case intent.Number:
		return e.number(v.Text())
	case intent.Array:
		return array{types.NewDynamicList(e, v.Items()), v}
	case intent.Object:
		return object{e.index(v.Members()), v}
	}
	return types.NullValue
}

func (e *exact) index(members []intent.Member) traits.Mapper {
	if len(members) > 0 && e.objects[&members[0]] != nil {
		return e.objects[&members[0]]
	}
	byName := make(map[string]any, len(members))
	for _, m := range members {
		byName[m.Name] = m.Value
	}
	mapper := types.NewStringInterfaceMap(e, byName)
	if len(members) > 0 {
		e.objects[&members[0]] = mapper
	}
	return mapper
}

func (e *exact) number(token string) ref.Val {
	whole := !strings.ContainsAny(token, ".eE")
	if whole && token != "-0" {
		if i, err := strconv.ParseInt(token, 10, 64); err == nil {
			return types.Int(i)
		}
		if u, err := strconv.ParseUint(token, 10, 64); err == nil {
			return types.Uint(u)
		}
		return exactNumber(token)
	}
	f, err := strconv.ParseFloat(token, 64)
	if err != nil {
		return exactNumber(token)
	}
	if _, seen := e.tokens[f]; !seen {
		e.tokens[f] = token
	}
	return types.Double(f)
}

// exactNumber is a JSON number that none of CEL's types can hold. It equals only itself and
// has no order: a rule that compares it is in error, instead of being a little wrong.
type exactNumber string

var exactNumberType = types.NewOpaqueType("latchkey.number")

func (n exactNumber) ConvertToNative(reflect.Type) (any, error) {
	return nil, errors.New("the number is too large")
}

func (n exactNumber) ConvertToType(to ref.Type) ref.Val {
	if to == types.TypeType {
		return exactNumberType
	}
	return types.NewErr("the number is too large to be converted to %s", to)
}

func (n exactNumber) Equal(other ref.Val) ref.Val {
	o, ok := other.(exactNumber)
	return types.Bool(ok && o == n)
}

func (n exactNumber) Type() ref.Type { return exactNumberType }
func (n exactNumber) Value() any     { return string(n) }

// maxPicked bounds what a result rule may pick, in bytes of JSON: a rule can name the same
// part of an answer again and again at no cost.
const maxPicked = 2 * lookupCap

var errPicked = errors.New("it picks too much")

// append writes what a rule gave as JSON.
func (e *exact) append(b []byte, v ref.Val) ([]byte, error) {
	if len(b) > maxPicked {
		return nil, errPicked
	}
	switch v := v.(type) {
	case object:
		return v.value.AppendJSON(b), nil
	case array:
		return v.value.AppendJSON(b), nil
	case exactNumber:
		return append(b, v...), nil
	case types.Null:
		return append(b, "null"...), nil
	case types.Bool:
		return strconv.AppendBool(b, bool(v)), nil
	case types.String:
		return intent.AppendString(b, string(v)), nil
	case types.Bytes:
		return intent.AppendString(b, base64.StdEncoding.EncodeToString(v)), nil
	case types.Int:
		return strconv.AppendInt(b, int64(v), 10), nil
	case types.Uint:
		return strconv.AppendUint(b, uint64(v), 10), nil
	case types.Double:
		return e.appendDouble(b, float64(v))
	case types.Timestamp, types.Duration:
		s, ok := v.ConvertToType(types.StringType).(types.String)
		if !ok {
			return nil, errors.New("the time cannot be written")
		}
		return intent.AppendString(b, string(s)), nil
	case traits.Mapper:
		return e.appendMap(b, v)
	case traits.Lister:
		b = append(b, '[')
		var err error
		for i, it := 0, v.Iterator(); it.HasNext() == types.True; i++ {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = e.append(b, it.Next()); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	}
	return nil, fmt.Errorf("a %s is no JSON value", v.Type().TypeName())
}

// appendDouble writes a number as the answer had it, or the shortest way where it was computed.
func (e *exact) appendDouble(b []byte, f float64) ([]byte, error) {
	if token, ok := e.tokens[f]; ok {
		return append(b, token...), nil
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, errors.New("the number is not finite")
	}
	return strconv.AppendFloat(b, f, 'g', -1, 64), nil
}

// appendMap writes a map that a rule put together, its members sorted: CEL gives no order.
func (e *exact) appendMap(b []byte, m traits.Mapper) ([]byte, error) {
	byName := make(map[string]ref.Val)
	var names []string
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, errors.New("the names of an object are strings")
		}
		names = append(names, string(name))
		byName[string(name)] = m.Get(key)
	}
	slices.Sort(names)
	b = append(b, '{')
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(intent.AppendString(b, name), ':')
		var err error
		if b, err = e.append(b, byName[name]); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}
