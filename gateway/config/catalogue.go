package config

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/latchkey-gateway/latchkey/downstream"
)

// Catalogue returns the checked tools and downstreams. A config from Load or Parse has one
// already; the error is Problems, for a config that was put together by hand.
func (c *Config) Catalogue() (*downstream.Catalogue, error) {
	if c.catalogue != nil {
		return c.catalogue, nil
	}
	k := checker{cfg: c}
	k.checkCatalogue()
	if len(k.problems) > 0 {
		return nil, Problems(hideAll(sorted(k.problems), c.secrets))
	}
	return c.catalogue, nil
}

// Line returns where a field stands in the file: its own line, else that of the nearest
// field around it, 0 if there is none.
func (c *Config) Line(field string) int {
	for field != "" {
		if line, ok := c.lines[field]; ok {
			return line
		}
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
	return 0
}

// File returns the name of the file that the config was read from.
func (c *Config) File() string { return c.file }

// checkCatalogue lets package downstream judge what it is going to use.
func (c *checker) checkCatalogue() {
	catalogue, err := downstream.NewCatalogue(c.cfg.specs(), c.cfg.toolSpecs())
	for _, e := range flatten(err) {
		if field, ok := errors.AsType[*downstream.FieldError](e); ok {
			c.problem(field.Field, "%s", field.Msg)
		} else {
			c.problem("", "%s", e)
		}
	}
	c.cfg.catalogue = catalogue
}

// flatten takes joined errors apart.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range joined.Unwrap() {
			all = append(all, flatten(e)...)
		}
		return all
	}
	return []error{err}
}

func (c *Config) specs() []downstream.Spec {
	var specs []downstream.Spec
	for _, name := range slices.Sorted(maps.Keys(c.Downstreams)) {
		d := c.Downstreams[name]
		specs = append(specs, downstream.Spec{
			Name:        name,
			BaseURL:     d.BaseURL,
			Timeout:     d.Timeout,
			MaxInFlight: d.MaxInFlight,
			Headers:     d.Headers,
			Breaker:     downstream.BreakerSpec(d.Breaker),
		})
	}
	return specs
}

func (c *Config) toolSpecs() []downstream.ToolSpec {
	var specs []downstream.ToolSpec
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		spec := c.Tools[name].spec(name)
		if c.Redis.Mode == "embedded" && spec.Durability == "hot" {
			spec.Durability = "durable" // an embedded Redis forgets with its process, at any moment
		}
		specs = append(specs, spec)
	}
	return specs
}

func (t Tool) spec(name string) downstream.ToolSpec {
	spec := downstream.ToolSpec{
		Name:            name,
		Class:           t.Class,
		Description:     t.Description,
		InputSchema:     t.InputSchema,
		Downstream:      t.Downstream,
		Request:         t.Request.spec(),
		Timeout:         t.Timeout,
		Identity:        t.Identity,
		Volatile:        t.Volatile,
		Normalise:       t.Normalise,
		Redact:          t.Redact,
		Durability:      t.Durability,
		StepGuard:       string(t.StepGuard),
		ForwardKey:      (*downstream.ForwardKeySpec)(t.ForwardKey),
		Statuses:        t.Statuses,
		ResponseHeaders: t.ResponseHeaders,
		OnUnknown:       t.OnUnknown,
		Approval:        (*downstream.ApprovalSpec)(t.Approval),
	}
	if l := t.Lookup; l != nil {
		spec.Lookup = &downstream.LookupSpec{
			Request:        l.Request.spec(),
			SettleAfter:    l.SettleAfter,
			Every:          l.Every,
			GiveUpAfter:    l.GiveUpAfter,
			CompletedWhen:  l.CompletedWhen,
			Result:         l.Result,
			AbsentWhen:     l.AbsentWhen,
			AbsenceIsProof: l.AbsenceIsProof,

			ReexecuteWhenAbsent: l.ReexecuteWhenAbsent,
		}
	}
	return spec
}

func (r Request) spec() downstream.RequestSpec {
	return downstream.RequestSpec{Method: r.Method, Path: r.Path, Body: r.Body.Kind, Template: r.Body.Template}
}
