package tracing

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel/attribute"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
)

// The words that labels take. A word that is not listed counts as OtherWord, so that the
// number of series depends on the catalogue alone.
var (
	decisions = []string{"executed", "collapsed", "replayed", "mismatch", "step_conflict", "refused", "pending"}
	hows      = []string{"collapsed", "replayed", "pending", "mismatch", "step_conflict"}
	outcomes  = []string{"completed", "rejected", "unknown", "not_sent"}
	settlers  = []string{"downstream", "gateway", "lookup", "operator"}
	actions   = []string{"approve", "decline", "resolve", "reconcile", "reexecute", "wait", "acknowledge"}
)

// Metrics are the instruments of CONTRACT.md. Methods are named after what happened; they
// are safe for concurrent use, never block, and do nothing on nil.
type Metrics struct {
	tools       map[string]*toolLabels
	unknownTool *toolLabels
	toolNames   []string // sorted
	downstreams []string // sorted
	stepLabels  [steps][]metric.RecordOption
	queue       *queue

	attempts, executions, duplicates, mismatches, conflicts metric.Int64Counter
	reconciled, manual, withoutKey, notifications           metric.Int64Counter
	unknownDuration, callDuration, stepDuration             metric.Float64Histogram
	batchSize                                               metric.Int64Histogram

	registry *prometheus.Registry
	meter    metric.Meter
}

// toolLabels are one tool's label sets, made once: a call then needs no allocation.
type toolLabels struct {
	name      string
	alone     []metric.AddOption
	decided   map[string][]metric.AddOption
	took      map[string][]metric.RecordOption
	how       map[string][]metric.AddOption
	executed  map[string][]metric.AddOption
	recovered map[string][]metric.AddOption
}

func newMetrics(o Options, res *resource.Resource, q *queue) (*Metrics, error) {
	m := &Metrics{
		toolNames: sorted(o.Tools), downstreams: sorted(o.Downstreams), queue: q,
		tools: make(map[string]*toolLabels, len(o.Tools)), unknownTool: labelsOf(UnknownTool),
		registry: prometheus.NewRegistry(),
	}
	for _, name := range m.toolNames {
		m.tools[name] = labelsOf(name)
	}
	for i := claim; i < steps; i++ {
		m.stepLabels[i] = recordLabels(attribute.String(LabelStep, stepNames[i]))
	}
	to, err := otelprom.New(otelprom.WithRegisterer(m.registry), otelprom.WithoutScopeInfo(),
		otelprom.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
	if err != nil {
		return nil, err
	}
	// Labels are bounded above already; the limit is a second fence, which must not be in
	// the way of a large catalogue.
	limit := (len(m.tools)+1)*(len(settlers)+1)*(len(outcomes)+1) + len(m.downstreams) + 100
	m.meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(to), sdkmetric.WithResource(res), sdkmetric.WithCardinalityLimit(limit)).Meter(scopeName)
	if err := m.instruments(); err != nil {
		return nil, err
	}
	return m, errors.Join(
		m.registry.Register(collectors.NewGoCollector()),
		m.registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
		m.observeSpans(),
	)
}

func sorted(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

func labelsOf(tool string) *toolLabels {
	l := &toolLabels{
		name: tool, alone: addLabels(attribute.String(LabelTool, tool)),
		decided: each(tool, LabelDecision, decisions), how: each(tool, LabelHow, hows),
		executed: each(tool, LabelOutcome, outcomes), recovered: each(tool, LabelAction, actions),
		took: make(map[string][]metric.RecordOption),
	}
	for _, d := range append([]string{OtherWord}, decisions...) {
		l.took[d] = recordLabels(attribute.String(LabelTool, tool), attribute.String(LabelDecision, d))
	}
	return l
}

func each(tool, label string, words []string) map[string][]metric.AddOption {
	made := make(map[string][]metric.AddOption)
	for _, w := range append([]string{OtherWord}, words...) {
		made[w] = addLabels(attribute.String(LabelTool, tool), attribute.String(label, w))
	}
	return made
}

func addLabels(kvs ...attribute.KeyValue) []metric.AddOption {
	return []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(kvs...))}
}

func recordLabels(kvs ...attribute.KeyValue) []metric.RecordOption {
	return []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(kvs...))}
}

// word is the label set for w, or the one for other words.
func word[T any](made map[string]T, w string) T {
	if l, ok := made[w]; ok {
		return l
	}
	return made[OtherWord]
}

func oneOf(words []string, w string) string {
	if slices.Contains(words, w) {
		return w
	}
	return OtherWord
}

func (m *Metrics) of(tool string) *toolLabels {
	if l, ok := m.tools[tool]; ok {
		return l
	}
	return m.unknownTool
}

// known is the name as a label or log field may have it.
func (m *Metrics) known(tool string) string { return m.of(tool).name }

// instruments makes them all; each has a unit and a sentence, which is its HELP.
func (m *Metrics) instruments() error {
	var failed []error
	counter := func(name, help string) metric.Int64Counter {
		c, err := m.meter.Int64Counter(name, metric.WithDescription(help))
		failed = append(failed, err)
		return c
	}
	seconds := func(name, help string, bounds ...float64) metric.Float64Histogram {
		h, err := m.meter.Float64Histogram(name, metric.WithDescription(help), metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(bounds...))
		failed = append(failed, err)
		return h
	}
	quick := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	m.attempts = counter(MetricAttempts, "Arrivals of calls, by what became of them.")
	m.executions = counter(MetricExecutions, "Requests made to downstreams for a key, by outcome.")
	m.duplicates = counter(MetricDuplicates, "Arrivals that would have acted again, by how that was prevented.")
	m.mismatches = counter(MetricMismatches, "Calls with a key already used with other arguments. Nothing ran.")
	m.conflicts = counter(MetricStepConflicts, "Calls whose step had already used the tool with other identifying arguments. Nothing ran.")
	m.reconciled = counter(MetricReconciled, "Unknown outcomes that evidence settled, by whose evidence.")
	m.manual = counter(MetricManual, "Decisions that people had to take.")
	m.withoutKey = counter(MetricWithoutKey, "Calls refused because they had neither run and step nor a key.")
	m.notifications = counter(MetricNotifications, "Messages to people.")
	m.unknownDuration = seconds(MetricUnknownDuration, "How long outcomes were unknown before they were settled.",
		1, 5, 15, 60, 300, 900, 3600, 14400, 43200, 86400, 259200, 604800)
	m.callDuration = seconds(MetricCallDuration, "Arrival to answer.", quick...)
	m.stepDuration = seconds(MetricStepDuration, "Duration of one step of the order of things.", quick...)
	var err error
	m.batchSize, err = m.meter.Int64Histogram(MetricBatchSize, metric.WithDescription("Rows in one statement of the durable store."),
		metric.WithExplicitBucketBoundaries(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096))
	return errors.Join(append(failed, err)...)
}

// attempt counts an arrival that was answered, and what that prevented.
func (m *Metrics) attempt(ctx context.Context, tool, decision string, took time.Duration) {
	l := m.of(tool)
	m.attempts.Add(ctx, 1, word(l.decided, decision)...)
	m.callDuration.Record(ctx, took.Seconds(), word(l.took, decision)...)
	switch decision {
	case "mismatch":
		m.mismatches.Add(ctx, 1, l.alone...)
	case "step_conflict":
		m.conflicts.Add(ctx, 1, l.alone...)
	case "collapsed", "replayed":
	default:
		return
	}
	m.duplicate(ctx, tool, decision)
}

func (m *Metrics) duplicate(ctx context.Context, tool, how string) {
	m.duplicates.Add(ctx, 1, word(m.of(tool).how, how)...)
}

func (m *Metrics) step(ctx context.Context, s step, took time.Duration) {
	m.stepDuration.Record(ctx, took.Seconds(), m.stepLabels[s]...)
}

// Attempt counts an arrival where there is no span to Answer.
func (m *Metrics) Attempt(tool, decision string, took time.Duration) {
	if m != nil {
		m.attempt(context.Background(), tool, decision, took)
	}
}

// Executed counts a request made to a downstream for a key: completed, rejected, unknown,
// or not_sent when provably no byte of it was written.
func (m *Metrics) Executed(tool, outcome string) {
	if m != nil {
		m.executions.Add(context.Background(), 1, word(m.of(tool).executed, outcome)...)
	}
}

// UnknownSettled counts an unknown that evidence settled as completed or rejected, and how
// long it had been unknown.
func (m *Metrics) UnknownSettled(tool, settledBy, outcome string, unknown time.Duration) {
	if m == nil {
		return
	}
	l, by := m.known(tool), oneOf(settlers, settledBy)
	m.reconciled.Add(context.Background(), 1, addLabels(attribute.String(LabelTool, l),
		attribute.String(LabelSettledBy, by), attribute.String(LabelOutcome, oneOf(outcomes, outcome)))...)
	m.unknownDuration.Record(context.Background(), unknown.Seconds(),
		recordLabels(attribute.String(LabelTool, l), attribute.String(LabelSettledBy, by))...)
}

// ManualRecovery counts a person's decision, in the word of its route: approve, resolve ...
func (m *Metrics) ManualRecovery(tool, action string) {
	if m != nil {
		m.manual.Add(context.Background(), 1, word(m.of(tool).recovered, action)...)
	}
}

// WithoutStableKey counts a call refused for want of run and step or a key.
func (m *Metrics) WithoutStableKey(tool string) {
	if m != nil {
		m.withoutKey.Add(context.Background(), 1, m.of(tool).alone...)
	}
}

// Batch notes how many rows one statement of the durable store had.
func (m *Metrics) Batch(rows int) {
	if m != nil {
		m.batchSize.Record(context.Background(), int64(rows))
	}
}

// Notified counts a message to a person.
func (m *Metrics) Notified(err error) {
	if m == nil {
		return
	}
	outcome := "sent"
	if err != nil {
		outcome = "failed"
	}
	m.notifications.Add(context.Background(), 1, addLabels(attribute.String(LabelOutcome, outcome))...)
}

// Handler answers scrapes: Prometheus text, or OpenMetrics with exemplars to those who ask.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true, Registry: m.registry, MaxRequestsInFlight: 8, Timeout: 10 * time.Second,
		ErrorHandling: promhttp.ContinueOnError,
	})
}
