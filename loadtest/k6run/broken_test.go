package k6run_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/k6run"
)

// What is wrong with a script is an error that says so, never a run that passes.
func TestBrokenScripts(t *testing.T) {
	t.Parallel()
	const head = `import http from 'k6/http'; import { Counter } from 'k6/metrics'; const c = new Counter('c');
		export default function () { c.add(1); }
		`
	options := func(scenario, thresholds string) string {
		return head + `export const options = { scenarios: { a: ` + scenario + ` }, thresholds: ` + thresholds + ` };`
	}
	const fine = `{ executor: 'shared-iterations' }`
	for name, c := range map[string]struct{ source, says string }{
		"fine":                    {options(fine, `{ c: ['count==1'] }`), ""},
		"syntax":                  {`export default function ( {`, "SyntaxError"},
		"throws in init":          {`nothing();`, "nothing is not defined"},
		"unknown module":          {`import ws from 'k6/ws';`, "no stand-in for the module"},
		"remote module":           {`import x from 'https://example.com/x.js';`, "no stand-in for the module"},
		"missing file":            {`import x from './missing.js';`, "missing.js"},
		"unknown member":          {`import { nothing } from 'k6';`, "nothing"},
		"no options":              {head, "options"},
		"misspelt option":         {head + `export const options = { scenarios: { a: ` + fine + ` }, treshold: {} };`, "treshold"},
		"unknown executor":        {options(`{ executor: 'externally-controlled' }`, `{}`), "externally-controlled"},
		"rate missing":            {options(`{ executor: 'constant-arrival-rate', duration: '1s', preAllocatedVUs: 1 }`, `{}`), "needs rate"},
		"another executor's":      {options(`{ executor: 'shared-iterations', rate: 1 }`, `{}`), "has no rate"},
		"bad duration":            {options(`{ executor: 'shared-iterations', maxDuration: '1 minute' }`, `{}`), "1 minute"},
		"exec not exported":       {options(`{ executor: 'shared-iterations', exec: 'x' }`, `{}`), "exports no function x"},
		"threshold on nothing":    {options(fine, `{ d: ['count==0'] }`), "no such metric"},
		"threshold not parsed":    {options(fine, `{ c: ['count is 0'] }`), "no expression"},
		"threshold of another":    {options(fine, `{ c: ['p(95)<1'] }`), "not for a counter"},
		"threshold crossed":       {options(fine, `{ c: ['count==0'] }`), "thresholds crossed: c: count==0 (it is 1)"},
		"throws in setup":         {options(fine, `{}`) + `export function setup() { throw new Error('no gateway'); }`, "no gateway"},
		"throws in an iteration":  {strings.Replace(options(fine, `{}`), "c.add(1)", "c.nothing()", 1), "nothing"},
		"throws in teardown":      {options(fine, `{}`) + `export function teardown() { throw new Error('at the end'); }`, "at the end"},
		"throws in handleSummary": {options(fine, `{}`) + `export function handleSummary() { throw new Error('no summary'); }`, "no summary"},
		"summary of no texts":     {options(fine, `{}`) + `export function handleSummary() { return { stdout: 1 }; }`, "handleSummary"},
		"metric of two kinds":     {options(fine, `{}`) + `import { Trend } from 'k6/metrics'; new Trend('c');`, "cannot be a trend"},
		"metric after init":       {strings.Replace(options(fine, `{}`), "c.add(1)", "new Counter('d')", 1), "init context"},
		"unknown parameter":       {strings.Replace(options(fine, `{}`), "c.add(1)", "http.get('http://127.0.0.1:1', { jar: 1 })", 1), "no http parameter jar"},
		"asynchronous":            {strings.Replace(options(fine, `{}`), "default function", "default async function", 1), "asynchronous"},
		"never ends":              {strings.Replace(options(fine, `{}`), "c.add(1)", "for (;;) {}", 1), "the time is over"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := time.Minute
			if name == "never ends" {
				limit = 200 * time.Millisecond
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), limit, timeOver{})
			defer cancel()
			_, err := k6run.Run(ctx, k6run.Options{Script: write(t, c.source)})
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

type timeOver struct{}

func (timeOver) Error() string { return "the time is over" }

// A run that could mean nothing is refused with a sentence that names what to set.
func TestConfigThatCannotRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  map[string]string
		says string
	}{
		"nobody there":  {map[string]string{"LATCHKEY_URL": "http://127.0.0.1:1"}, "no gateway answers at http://127.0.0.1:1"},
		"no URL":        {map[string]string{"LATCHKEY_URL": "localhost:8080"}, "LATCHKEY_URL=localhost:8080"},
		"no count":      {map[string]string{"RATE": "many"}, "RATE=many"},
		"no duration":   {map[string]string{"DURATION": "2 minutes"}, "DURATION=2 minutes"},
		"relative path": {map[string]string{"TOOLS_FILE": "tools.json"}, "absolute path"},
		"unknown kind":  {map[string]string{"TOOLS_FILE": write(t, `{"effectfull":{}}`)}, "effectfull is not one of"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, _, err := runScript(t, "load", c.env); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}
