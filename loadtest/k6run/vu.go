package k6run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/grafana/sobek"
)

// vu is one virtual user: a runtime of its own, in which the whole script was evaluated.
// It is used by one goroutine at a time.
type vu struct {
	run      *run
	rt       *sobek.Runtime
	id       int
	exports  *sobek.Object
	expected statuses
	ready    bool // the init context is over
	data     sobek.Value

	scenario  *scenario
	inTest    int // the iteration's number in the scenario
	inVU      int // the iteration's number in this VU
	stopWatch func() bool
}

// newVU evaluates the script. What is wrong with it is an error.
func (r *run) newVU(id int) (*vu, error) {
	v := &vu{run: r, rt: sobek.New(), id: id, expected: statuses{{200, 399}}, scenario: &scenario{}}
	v.rt.SetFieldNameMapper(sobek.TagFieldNameMapper("json", true))
	v.stopWatch = context.AfterFunc(r.ctx, func() { v.rt.Interrupt(context.Cause(r.ctx)) })
	v.globals()
	loader := newLoader(map[string]*hostModule{
		"k6": v.k6Module(), "k6/http": v.httpModule(), "k6/metrics": v.metricsModule(), "k6/execution": v.executionModule(),
	})
	main, err := loader.file(r.script)
	if err != nil {
		return nil, err
	}
	if err := main.Link(); err != nil {
		return nil, fmt.Errorf("k6run: %s: %w", r.script, err)
	}
	promise := main.Evaluate(v.rt)
	if promise.State() != sobek.PromiseStateFulfilled {
		return nil, fmt.Errorf("k6run: %s: %v", r.script, promise.Result())
	}
	v.exports = v.rt.NamespaceObjectFor(main)
	v.ready = true
	return v, nil
}

func (v *vu) close() { v.stopWatch() }

// throw ends the script's function with an error. Only for the VU's own goroutine.
func (v *vu) throw(why string) { panic(v.rt.NewTypeError(why)) }

func (v *vu) tags() map[string]string {
	t := map[string]string{"scenario": v.scenario.name}
	for _, more := range []map[string]string{v.run.options.tags(), v.scenario.Tags} {
		maps.Copy(t, more)
	}
	return t
}

func (o *options) tags() map[string]string {
	if o == nil {
		return nil // still in the first VU's init context
	}
	return o.Tags
}

func (v *vu) globals() {
	say := func(level string) func(sobek.FunctionCall) sobek.Value {
		return func(call sobek.FunctionCall) sobek.Value {
			words := make([]string, len(call.Arguments))
			for i, a := range call.Arguments {
				words[i] = a.String()
			}
			v.run.log(level + ": " + strings.Join(words, " "))
			return sobek.Undefined()
		}
	}
	for name, value := range map[string]any{
		"__ENV": v.run.env, "__VU": v.id, "__ITER": 0,
		"console": map[string]any{"log": say("log"), "warn": say("warn"), "error": say("error")},
		"open": func(path string) (string, error) {
			if v.ready {
				return "", errors.New("open is for the init context alone")
			}
			b, err := os.ReadFile(strings.TrimPrefix(path, "file://"))
			return string(b), err
		},
	} {
		_ = v.rt.Set(name, value) // a fresh global object refuses nothing
	}
}

func (v *vu) k6Module() *hostModule {
	return newHostModule(v.rt, map[string]any{
		"check": func(call sobek.FunctionCall) sobek.Value {
			sets, all := call.Argument(1).ToObject(v.rt), true
			for _, name := range sets.Keys() {
				fn, ok := sobek.AssertFunction(sets.Get(name))
				if !ok {
					v.throw("check: " + name + " is no function")
				}
				kept, err := fn(sobek.Undefined(), call.Argument(0))
				if err != nil {
					panic(err)
				}
				v.run.metrics.add("checks", number(kept.ToBoolean()), v.tags(), map[string]string{"check": name})
				if !kept.ToBoolean() {
					v.run.log("check failed: " + name)
					all = false
				}
			}
			return v.rt.ToValue(all)
		},
	})
}

func (v *vu) metricsModule() *hostModule {
	constructor := func(k kind) func(sobek.ConstructorCall) *sobek.Object {
		return func(call sobek.ConstructorCall) *sobek.Object {
			name := call.Argument(0).String()
			if v.ready {
				v.throw("metrics are made in the init context alone")
			}
			if err := v.run.metrics.define(name, k); err != nil {
				v.throw(err.Error())
			}
			_ = call.This.Set("name", name)
			_ = call.This.Set("add", func(add sobek.FunctionCall) sobek.Value {
				if !v.ready {
					v.throw("samples are added outside of the init context alone")
				}
				value := add.Argument(0).ToFloat()
				if b, ok := add.Argument(0).Export().(bool); ok {
					value = number(b)
				}
				tags := map[string]string{}
				if t := add.Argument(1); !sobek.IsUndefined(t) {
					tags = v.readStrings(t)
				}
				v.run.metrics.add(name, value, v.tags(), tags)
				return sobek.Undefined()
			})
			return nil
		}
	}
	return newHostModule(v.rt, map[string]any{"Counter": constructor(counter), "Rate": constructor(rate), "Trend": constructor(trend)})
}

func (v *vu) executionModule() *hostModule {
	getter := func(read func() int) sobek.Value {
		return v.rt.ToValue(func(sobek.FunctionCall) sobek.Value { return v.rt.ToValue(read()) })
	}
	object := func(members map[string]func() int) *sobek.Object {
		o := v.rt.NewObject()
		for name, read := range members {
			_ = o.DefineAccessorProperty(name, getter(read), nil, sobek.FLAG_FALSE, sobek.FLAG_TRUE)
		}
		return o
	}
	return newHostModule(v.rt, map[string]any{
		"scenario": object(map[string]func() int{"iterationInTest": func() int { return v.inTest }}),
		"vu": object(map[string]func() int{
			"iterationInScenario": func() int { return v.inVU }, "idInTest": func() int { return v.id },
		}),
	})
}

// exported finds a function that the script exports.
func (v *vu) exported(name string) (sobek.Callable, bool) {
	return sobek.AssertFunction(v.exports.Get(name))
}

// call runs an exported function to its end.
func (v *vu) call(name string, args ...sobek.Value) (sobek.Value, error) {
	fn, ok := v.exported(name)
	if !ok {
		return nil, fmt.Errorf("k6run: %s exports no function %s", v.run.script, name)
	}
	result, err := fn(sobek.Undefined(), args...)
	if err != nil {
		return nil, fmt.Errorf("k6run: %s: %w", name, err)
	}
	if _, async := result.Export().(*sobek.Promise); async {
		return nil, fmt.Errorf("k6run: %s is asynchronous; the stand-in runs no such functions", name)
	}
	return result, nil
}

// iterate runs one iteration of the scenario.
func (v *vu) iterate(number int) error {
	v.inTest = number
	_ = v.rt.Set("__ITER", v.inVU)
	began := time.Now()
	_, err := v.call(v.scenario.Exec, v.data)
	v.run.metrics.add("iteration_duration", float64(time.Since(began))/float64(time.Millisecond), v.tags())
	v.run.metrics.add("iterations", 1, v.tags())
	v.inVU++
	return err
}

// stringify is JSON.stringify; undefined becomes null.
func (v *vu) stringify(value sobek.Value) ([]byte, error) {
	if value == nil || sobek.IsUndefined(value) {
		return []byte("null"), nil
	}
	fn, _ := sobek.AssertFunction(v.rt.Get("JSON").ToObject(v.rt).Get("stringify"))
	text, err := fn(sobek.Undefined(), value)
	if err != nil {
		return nil, err
	}
	return []byte(text.String()), nil
}

// parse is JSON.parse.
func (v *vu) parse(text []byte) (sobek.Value, error) {
	if !json.Valid(text) {
		return nil, fmt.Errorf("k6run: %.80q is not JSON", text)
	}
	fn, _ := sobek.AssertFunction(v.rt.Get("JSON").ToObject(v.rt).Get("parse"))
	return fn(sobek.Undefined(), v.rt.ToValue(string(text)))
}
