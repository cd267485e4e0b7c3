package tracing

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Backlog is how many of a tool's keys are unknown, and since when the oldest is.
type Backlog struct {
	Open   int
	Oldest time.Duration
}

// Sources are asked at each scrape. A nil one leaves out its metrics. They MUST answer at
// once, from what is in memory: a scrape waits for them.
type Sources struct {
	// Unknown is the backlog by tool; tools that are not in it have none. nil: another
	// replica tells, and this one is silent.
	Unknown func() map[string]Backlog
	// Approvals are the intents that wait for a person, by tool; nil as with Unknown.
	Approvals func() map[string]int

	Breaker  func(downstream string) string // closed, half_open or half-open, open
	InFlight func(downstream string) int

	NearCache      func() (hits, misses, bytes int64)
	JournalDropped func() int64
	RedisUp        func() bool
	StoreUp        func() bool
}

// Observe registers the metrics that are computed when somebody asks. Once, when all that
// the sources read from has been made.
func (m *Metrics) Observe(s Sources) error {
	if m == nil {
		return nil
	}
	o := observing{Metrics: m}
	if s.Unknown != nil {
		open := o.gauge(MetricUnknownOpen, "Keys whose outcome is unknown now.")
		oldest := o.seconds(MetricUnknownOldest, "How long the oldest unknown outcome of the tool has been unknown; 0 without one.")
		o.register(func(w metric.Observer) {
			backlog := s.Unknown()
			if backlog == nil {
				return
			}
			o.tools(func(tool string, labels metric.ObserveOption) {
				var b Backlog
				for name, of := range backlog {
					if m.known(name) == tool {
						b.Open, b.Oldest = b.Open+of.Open, max(b.Oldest, of.Oldest)
					}
				}
				w.ObserveInt64(open, int64(b.Open), labels)
				w.ObserveFloat64(oldest, b.Oldest.Seconds(), labels)
			})
		}, open, oldest)
	}
	if s.Approvals != nil {
		waiting := o.gauge(MetricApprovals, "Intents that wait for a person's approval.")
		o.register(func(w metric.Observer) {
			by := s.Approvals()
			if by == nil {
				return
			}
			o.tools(func(tool string, labels metric.ObserveOption) {
				n := 0
				for name, of := range by {
					if m.known(name) == tool {
						n += of
					}
				}
				w.ObserveInt64(waiting, int64(n), labels)
			})
		}, waiting)
	}
	if s.Breaker != nil {
		state := o.gauge(MetricBreakerState, "The downstream's circuit breaker: 0 closed, 1 half open, 2 open.")
		o.each(state, func(name string) int64 { return breakerNumber(s.Breaker(name)) })
	}
	if s.InFlight != nil {
		under := o.gauge(MetricInFlight, "Requests to the downstream that are under way.")
		o.each(under, func(name string) int64 { return int64(s.InFlight(name)) })
	}
	if s.NearCache != nil {
		hits := o.counter(MetricNearHits, "Replays answered from this replica's memory.")
		misses := o.counter(MetricNearMisses, "Calls that this replica's memory could not answer.")
		held := o.bytes(MetricNearBytes, "Completed receipts kept in this replica's memory.")
		o.register(func(w metric.Observer) {
			h, miss, size := s.NearCache()
			w.ObserveInt64(hits, h)
			w.ObserveInt64(misses, miss)
			w.ObserveInt64(held, size)
		}, hits, misses, held)
	}
	if s.JournalDropped != nil {
		dropped := o.counter(MetricJournalDropped, "Attempts that the journal does not list: no room, or no store.")
		o.register(func(w metric.Observer) { w.ObserveInt64(dropped, s.JournalDropped()) }, dropped)
	}
	if s.RedisUp != nil {
		up := o.gauge(MetricRedisUp, "1; 0 while this replica goes on without Redis.")
		o.register(func(w metric.Observer) { w.ObserveInt64(up, number(s.RedisUp())) }, up)
	}
	if s.StoreUp != nil {
		up := o.gauge(MetricStoreUp, "1; 0 while the durable store cannot be written.")
		o.register(func(w metric.Observer) { w.ObserveInt64(up, number(s.StoreUp())) }, up)
	}
	return errors.Join(o.failed...)
}

func breakerNumber(state string) int64 {
	switch state {
	case "open":
		return 2
	case "half_open", "half-open":
		return 1
	}
	return 0
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// observing makes instruments and gathers what fails.
type observing struct {
	*Metrics
	failed []error
}

func (o *observing) gauge(name, help string) metric.Int64ObservableGauge {
	g, err := o.meter.Int64ObservableGauge(name, metric.WithDescription(help))
	o.failed = append(o.failed, err)
	return g
}

func (o *observing) bytes(name, help string) metric.Int64ObservableGauge {
	g, err := o.meter.Int64ObservableGauge(name, metric.WithDescription(help), metric.WithUnit("By"))
	o.failed = append(o.failed, err)
	return g
}

func (o *observing) seconds(name, help string) metric.Float64ObservableGauge {
	g, err := o.meter.Float64ObservableGauge(name, metric.WithDescription(help), metric.WithUnit("s"))
	o.failed = append(o.failed, err)
	return g
}

func (o *observing) counter(name, help string) metric.Int64ObservableCounter {
	c, err := o.meter.Int64ObservableCounter(name, metric.WithDescription(help))
	o.failed = append(o.failed, err)
	return c
}

func (o *observing) register(f func(metric.Observer), of ...metric.Observable) {
	_, err := o.meter.RegisterCallback(func(_ context.Context, w metric.Observer) error { f(w); return nil }, of...)
	o.failed = append(o.failed, err)
}

// tools calls f for each tool, unknown ones together.
func (o *observing) tools(f func(tool string, labels metric.ObserveOption)) {
	for _, name := range append([]string{UnknownTool}, o.toolNames...) {
		f(name, metric.WithAttributeSet(attribute.NewSet(attribute.String(LabelTool, name))))
	}
}

// each observes one number of every downstream.
func (o *observing) each(g metric.Int64ObservableGauge, of func(string) int64) {
	o.register(func(w metric.Observer) {
		for _, name := range o.downstreams {
			w.ObserveInt64(g, of(name), metric.WithAttributeSet(attribute.NewSet(attribute.String(LabelDownstream, name))))
		}
	}, g)
}

func (m *Metrics) observeSpans() error {
	if m.queue == nil {
		return nil
	}
	o := observing{Metrics: m}
	dropped := o.counter(MetricSpansDropped, "Spans that the collector did not get.")
	o.register(func(w metric.Observer) {
		for reason, n := range map[string]*atomic.Int64{"queue_full": &m.queue.full, "export_failed": &m.queue.failed, "replay_limit": &m.queue.spared} {
			w.ObserveInt64(dropped, n.Load(), metric.WithAttributeSet(attribute.NewSet(attribute.String(LabelReason, reason))))
		}
	}, dropped)
	return errors.Join(o.failed...)
}
