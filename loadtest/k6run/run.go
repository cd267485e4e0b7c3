package k6run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grafana/sobek"
)

// Limits bound a run.
type Limits struct {
	VUs        int // per scenario; 4 where it is 0
	Iterations int // per scenario, over all its VUs; 20 where it is 0
}

// Options of a run.
type Options struct {
	Script string            // path of the script
	Env    map[string]string // what k6 run -e gives
	Limits Limits
	Log    func(string) // what the script writes to the console; several goroutines call it. nil: nobody listens
}

// Result is what came of a run.
type Result struct {
	// Files are what handleSummary returned: standard output under "stdout", the others by
	// the path to write to. Nothing is written.
	Files map[string]string
	// Empty are thresholds on a rate or a trend without any sample: they tell nothing.
	Empty      []string
	Iterations int
}

// CrossedError is returned when all went to the end and thresholds were crossed. k6 would
// exit with 99.
type CrossedError struct{ Thresholds []string }

func (e *CrossedError) Error() string {
	return "k6run: thresholds crossed: " + strings.Join(e.Thresholds, "; ")
}

type run struct {
	ctx       context.Context
	script    string
	env       map[string]string
	limits    Limits
	log       func(string)
	options   *options
	metrics   *registry
	transport *http.Transport
	began     time.Time
	vus       atomic.Int64
}

// Run runs a script to its end: init, setup, scenarios, teardown, thresholds, summary. A
// *CrossedError comes with a Result; every other error says that the script is broken, or
// that ctx ended. All goroutines that it starts have ended when it returns.
func Run(ctx context.Context, o Options) (*Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{
		ctx: ctx, script: o.Script, env: o.Env, log: o.Log, metrics: newRegistry(), began: time.Now(),
		limits:    Limits{VUs: cmp.Or(o.Limits.VUs, 4), Iterations: cmp.Or(o.Limits.Iterations, 20)},
		transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
	}
	defer r.transport.CloseIdleConnections()
	if r.log == nil {
		r.log = func(string) {}
	}
	if r.env == nil {
		r.env = map[string]string{}
	}
	// The first VU is for what happens once: options, setup, teardown, summary.
	once, err := r.newVU(0)
	if err != nil {
		return nil, err
	}
	defer once.close()
	groups, thresholds, err := r.prepare(once)
	if err != nil {
		return nil, fmt.Errorf("k6run: %s: %w", r.script, err)
	}
	data, err := r.setup(once)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, group := range groups {
		if err := r.scenarios(group, data); err != nil {
			errs = append(errs, err)
		}
	}
	if _, ok := once.exported("teardown"); ok {
		if _, err := once.call("teardown", once.data); err != nil {
			errs = append(errs, err)
		}
	}
	result, crossed, err := r.summary(once, thresholds)
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(crossed) > 0 {
		return result, &CrossedError{crossed}
	}
	return result, nil
}

// prepare reads and checks the options, before anything is sent.
func (r *run) prepare(once *vu) ([][]*scenario, []threshold, error) {
	text, err := once.stringify(once.exports.Get("options"))
	if err != nil {
		return nil, nil, err
	}
	if r.options, err = parseOptions(text); err != nil {
		return nil, nil, err
	}
	groups, err := r.options.inOrder(func(name string) bool { _, ok := once.exported(name); return ok })
	if err != nil {
		return nil, nil, err
	}
	var thresholds []threshold
	for name, expressions := range r.options.Thresholds {
		for _, e := range expressions {
			t, err := r.metrics.parseThreshold(name, e)
			if err != nil {
				return nil, nil, err
			}
			thresholds = append(thresholds, t)
		}
	}
	return groups, thresholds, nil
}

// setup returns what setup() does, as JSON: each VU gets a copy of its own.
func (r *run) setup(once *vu) ([]byte, error) {
	once.data = sobek.Undefined()
	if _, ok := once.exported("setup"); !ok {
		return []byte("null"), nil
	}
	value, err := once.call("setup")
	if err != nil {
		return nil, err
	}
	once.data = value
	return once.stringify(value)
}

// scenarios runs those of one group side by side.
func (r *run) scenarios(group []*scenario, data []byte) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, s := range group {
		vus, iterations := s.reduced(r.limits)
		var next atomic.Int64
		perVU := -1 // as many as are left
		if s.Executor == "per-vu-iterations" {
			perVU = iterations / vus
		}
		for range vus {
			all.Go(func() {
				if err := r.virtualUser(s, data, &next, int64(iterations), perVU); err != nil {
					mu.Lock()
					defer mu.Unlock()
					errs = append(errs, fmt.Errorf("scenario %s: %w", s.name, err))
				}
			})
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

// virtualUser takes iterations until there are no more. Its first error ends it: in k6 the
// next iteration would follow, but a script that throws is broken.
func (r *run) virtualUser(s *scenario, data []byte, next *atomic.Int64, iterations int64, perVU int) error {
	v, err := r.newVU(int(r.vus.Add(1)))
	if err != nil {
		return err
	}
	defer v.close()
	v.scenario = s
	if v.data, err = v.parse(data); err != nil {
		return err
	}
	for n := 0; perVU < 0 || n < perVU; n++ {
		number := next.Add(1) - 1
		if number >= iterations {
			return nil
		}
		if err := v.iterate(int(number)); err != nil {
			return err
		}
	}
	return nil
}

// summary evaluates the thresholds and lets the script write about it.
func (r *run) summary(once *vu, thresholds []threshold) (*Result, []string, error) {
	took := time.Since(r.began)
	metrics := map[string]any{}
	entry := func(name, metric string, tags map[string]string) map[string]any {
		if known, ok := metrics[name].(map[string]any); ok {
			return known
		}
		m := r.metrics.metrics[metric]
		values, _, _ := m.values(tags, took.Seconds())
		e := map[string]any{"type": m.kind.String(), "contains": "default", "values": values}
		metrics[name] = e
		return e
	}
	for name, m := range r.metrics.metrics {
		if len(m.samples) > 0 { // k6 leaves the others out, too
			entry(name, name, nil)
		}
	}
	result := &Result{Files: map[string]string{}}
	var crossed []string
	for _, t := range thresholds {
		e := entry(t.name, t.metric, t.tags)
		if e["thresholds"] == nil {
			e["thresholds"] = map[string]any{}
		}
		ok, empty, value := r.metrics.holds(t, took.Seconds())
		e["thresholds"].(map[string]any)[t.expression] = map[string]any{"ok": ok}
		if kind := r.metrics.metrics[t.metric].kind; empty && kind != counter { // nothing counted is 0
			result.Empty = append(result.Empty, t.name+": "+t.expression)
		}
		if !ok {
			crossed = append(crossed, fmt.Sprintf("%s: %s (it is %g)", t.name, t.expression, value))
		}
	}
	iterations, _, _ := r.metrics.metrics["iterations"].values(nil, took.Seconds())
	result.Iterations = int(iterations["count"])
	if _, ok := once.exported("handleSummary"); !ok {
		return result, crossed, nil
	}
	text, err := json.Marshal(map[string]any{
		"metrics": metrics, "state": map[string]any{"testRunDurationMs": float64(took) / float64(time.Millisecond), "isStdOutTTY": false},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("k6run: summary: %w", err)
	}
	value, err := once.parse(text)
	if err != nil {
		return nil, nil, err
	}
	files, err := once.call("handleSummary", value)
	if err != nil {
		return nil, nil, err
	}
	if text, err = once.stringify(files); err != nil {
		return nil, nil, err
	}
	if err := json.Unmarshal(text, &result.Files); err != nil {
		return nil, nil, fmt.Errorf("k6run: handleSummary returned something else than texts by name: %w", err)
	}
	return result, crossed, nil
}
