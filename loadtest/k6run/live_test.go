package k6run_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/k6run"
	"github.com/latchkey-gateway/latchkey/loadtest/rig"
)

// dev is a running `latchkey dev`.
type dev struct{ agents, ledger string }

// startDev builds the gateway and runs it once for all tests of this package, with
// everything embedded and on ports of its own choice. TestMain ends it.
var startDev = sync.OnceValues(func() (d dev, err error) {
	machine, err := rig.New(false)
	if err != nil {
		return d, err
	}
	machines = machine
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	program, err := machine.Build(ctx)
	if err != nil {
		return d, err
	}
	banner := &printed{complete: make(chan struct{})}
	p, err := machine.Start(rig.Spec{Name: "dev", Path: program, Out: banner.write,
		Args: []string{"dev", "--listen", "127.0.0.1:0", "--operator-listen", "127.0.0.1:0", "--demo-listen", "127.0.0.1:0"}})
	if err != nil {
		return d, err
	}
	select {
	case <-banner.complete:
	case <-p.Done():
		return d, fmt.Errorf("latchkey dev ended:\n%s", p.LogTail())
	case <-ctx.Done():
		return d, ctx.Err()
	}
	return dev{agents: banner.find(`agents +(http://\S+)`), ledger: banner.find(`(http://\S+/ledger)`)}, nil
})

var machines *rig.Rig

func TestMain(m *testing.M) {
	code := m.Run()
	if machines != nil {
		if err := machines.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// printed collects what dev writes until its last line came: then it serves.
type printed struct {
	mu       sync.Mutex
	text     bytes.Buffer
	complete chan struct{}
	done     bool
}

func (p *printed) write(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text.Write(b)
	if !p.done && strings.Contains(p.text.String(), "Ctrl-C ends it.") {
		p.done = true
		close(p.complete)
	}
}

func (p *printed) find(pattern string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if found := regexp.MustCompile(pattern).FindStringSubmatch(p.text.String()); found != nil {
		return found[1]
	}
	return ""
}

// console collects what a script writes to it.
type console struct {
	mu    sync.Mutex
	lines []string
}

func (c *console) log(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, line)
}

func (c *console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.lines, "\n")
}

const scripts = "../k6"

// patient: this machine's answer times are no test's business.
func patient(env map[string]string) map[string]string {
	for _, name := range []string{"FIRST_P95_MS", "FIRST_P99_MS", "REPLAY_P95_MS", "REPLAY_P99_MS", "READ_P95_MS", "AFTER_P95_MS", "CLIENT_TIMEOUT"} {
		env[name] = "60000"
	}
	env["CLIENT_TIMEOUT"] = "60s"
	return env
}

// runScript runs a script of loadtest/k6 within two minutes.
func runScript(t *testing.T, name string, env map[string]string) (*k6run.Result, *console, error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Minute, errors.New("the script took over two minutes"))
	defer cancel()
	var c console
	result, err := k6run.Run(ctx, k6run.Options{Script: filepath.Join(scripts, name+".js"), Env: patient(env), Log: c.log})
	return result, &c, err
}

// summary is the part of a script's JSON summary that is looked at.
type summary struct {
	Script     string
	Passed     bool
	LedgerRead bool `json:"ledger_read"`
	Counts     map[string]float64
	Promises   []struct {
		Metric, Said string
		Broken       float64
	}
}

func summaryOf(t *testing.T, script string, r *k6run.Result) summary {
	t.Helper()
	var s summary
	if err := json.Unmarshal([]byte(r.Files["latchkey-"+script+".json"]), &s); err != nil {
		t.Fatalf("%v in %q", err, r.Files)
	}
	if r.Files["stdout"] != r.Files["latchkey-"+script+".txt"] || !strings.Contains(r.Files["stdout"], "latchkey "+script+": ") {
		t.Errorf("the text: %q", r.Files["stdout"])
	}
	return s
}

// Every script of the folder runs against the gateway itself, to the end, with every
// promise kept and every threshold over something.
func TestScriptsAgainstTheGateway(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(scripts, "*.js"))
	if err != nil || len(files) < 8 {
		t.Fatalf("%v %v", files, err)
	}
	for _, file := range files {
		script := strings.TrimSuffix(filepath.Base(file), ".js")
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			d, err := startDev()
			if err != nil {
				t.Fatal(err)
			}
			result, console, err := runScript(t, script, map[string]string{"LATCHKEY_URL": d.agents, "LEDGER_URL": d.ledger})
			if err != nil {
				t.Fatalf("%v\n%s", err, console)
			}
			s := summaryOf(t, script, result)
			if !s.Passed || !s.LedgerRead || s.Script != script || s.Counts["duplicates_prevented"] == 0 || s.Counts["effects_seen"] == 0 ||
				s.Counts["receipts_checked"] == 0 || len(s.Promises) < 15 {
				t.Errorf("%+v\n%s", s, console)
			}
			if len(result.Empty) > 0 {
				t.Errorf("thresholds over nothing: %q", result.Empty)
			}
			// As many effects as first answers, but for those whose answer was lost.
			if script != "smoke" && script != "mixed-classes" && s.Counts["no_answer"] == 0 && s.Counts["unknown"] == 0 &&
				s.Counts["effects_seen"] > s.Counts["first_times"] {
				t.Errorf("%v effects for %v first answers", s.Counts["effects_seen"], s.Counts["first_times"])
			}
		})
	}
}

// A budget that cannot be met: the run must fail, for that alone.
func TestCrossedBudgetFailsTheRun(t *testing.T) {
	t.Parallel()
	d, err := startDev()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	script := write(t, `import { Trend } from 'k6/metrics'; import http from 'k6/http';
		const slow = new Trend('slow', true);
		export const options = { scenarios: { a: { executor: 'shared-iterations' } }, thresholds: { 'slow{of:this}': ['max<0.001'], checks: ['rate<=1'] } };
		export default function () { slow.add(http.get(__ENV.URL + '/readyz').timings.duration, { of: 'this' }); }`)
	_, err = k6run.Run(ctx, k6run.Options{Script: script, Env: map[string]string{"URL": d.agents}})
	crossed, ok := errors.AsType[*k6run.CrossedError](err)
	if !ok || len(crossed.Thresholds) != 1 || !strings.HasPrefix(crossed.Thresholds[0], "slow{of:this}: max<0.001") {
		t.Errorf("%v", err)
	}
}

func write(t *testing.T, source string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script.js")
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
