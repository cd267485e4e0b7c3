package k6run

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// options are those of k6's options that the scripts use. A member that is not here is
// refused: k6 would only warn about a misspelt one.
type options struct {
	Batch        int                 `json:"batch"`
	BatchPerHost int                 `json:"batchPerHost"`
	Scenarios    map[string]scenario `json:"scenarios"`
	Thresholds   map[string][]string `json:"thresholds"`
	Tags         map[string]string   `json:"tags"`
}

type stage struct {
	Target   *int   `json:"target"`
	Duration string `json:"duration"`
}

// scenario has the members of all executors; check knows which belong to which.
type scenario struct {
	Executor        string            `json:"executor"`
	Exec            string            `json:"exec"`
	StartTime       string            `json:"startTime"`
	Tags            map[string]string `json:"tags"`
	VUs             *int              `json:"vus"`
	Iterations      *int              `json:"iterations"`
	MaxDuration     string            `json:"maxDuration"`
	Rate            *int              `json:"rate"`
	StartRate       *int              `json:"startRate"`
	TimeUnit        string            `json:"timeUnit"`
	Duration        string            `json:"duration"`
	PreAllocatedVUs *int              `json:"preAllocatedVUs"`
	MaxVUs          *int              `json:"maxVUs"`
	Stages          []stage           `json:"stages"`

	name  string
	start time.Duration
}

func parseOptions(text []byte) (*options, error) {
	o := options{Batch: 20, BatchPerHost: 6} // k6's defaults
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	if len(o.Scenarios) == 0 {
		return nil, errors.New("options: there are no scenarios")
	}
	return &o, nil
}

// inOrder checks the scenarios and returns groups of them: those of one group start
// together, after those of the group before.
func (o *options) inOrder(exported func(string) bool) ([][]*scenario, error) {
	var all []*scenario
	for _, name := range slices.Sorted(maps.Keys(o.Scenarios)) {
		s := o.Scenarios[name]
		s.name, s.Exec = name, cmp.Or(s.Exec, "default")
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("options: scenario %s: %w", name, err)
		}
		if !exported(s.Exec) {
			return nil, fmt.Errorf("options: scenario %s: the script exports no function %s", name, s.Exec)
		}
		all = append(all, &s)
	}
	slices.SortStableFunc(all, func(a, b *scenario) int { return cmp.Compare(a.start, b.start) })
	var groups [][]*scenario
	for i, s := range all {
		if i == 0 || s.start != all[i-1].start {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], s)
	}
	return groups, nil
}

// check refuses what k6 would: members that the executor needs and lacks, or that belong
// to another, counts below one, and durations that are none.
func (s *scenario) check() error {
	for _, d := range []string{s.StartTime, s.MaxDuration, s.TimeUnit, s.Duration} {
		if _, err := time.ParseDuration(cmp.Or(d, "0s")); err != nil {
			return err
		}
	}
	s.start, _ = time.ParseDuration(cmp.Or(s.StartTime, "0s")) // checked above
	for i, st := range s.Stages {
		if d, err := time.ParseDuration(st.Duration); err != nil || d <= 0 || st.Target == nil || *st.Target < 0 {
			return fmt.Errorf("stage %d needs a target and a duration", i)
		}
	}
	given := map[string]bool{
		"vus": s.VUs != nil, "iterations": s.Iterations != nil, "maxDuration": s.MaxDuration != "",
		"rate": s.Rate != nil, "startRate": s.StartRate != nil, "timeUnit": s.TimeUnit != "", "duration": s.Duration != "",
		"preAllocatedVUs": s.PreAllocatedVUs != nil, "maxVUs": s.MaxVUs != nil, "stages": s.Stages != nil,
	}
	form, ok := executors[s.Executor]
	if !ok {
		return fmt.Errorf("there is no stand-in for the executor %q", s.Executor)
	}
	for _, member := range slices.Sorted(maps.Keys(given)) {
		switch needed := slices.Contains(form.needs, member); {
		case needed && !given[member]:
			return fmt.Errorf("%s needs %s", s.Executor, member)
		case !needed && given[member] && !slices.Contains(form.may, member):
			return fmt.Errorf("%s has no %s", s.Executor, member)
		}
	}
	for _, n := range []*int{s.VUs, s.Iterations, s.Rate, s.StartRate, s.PreAllocatedVUs, s.MaxVUs} {
		if n != nil && *n < 1 {
			return errors.New("a count is below one")
		}
	}
	if s.MaxVUs != nil && *s.MaxVUs < *s.PreAllocatedVUs {
		return errors.New("maxVUs is below preAllocatedVUs")
	}
	return nil
}

var executors = map[string]struct{ needs, may []string }{
	"shared-iterations":     {nil, []string{"vus", "iterations", "maxDuration"}},
	"per-vu-iterations":     {nil, []string{"vus", "iterations", "maxDuration"}},
	"constant-arrival-rate": {[]string{"rate", "duration", "preAllocatedVUs"}, []string{"timeUnit", "maxVUs"}},
	"ramping-arrival-rate":  {[]string{"stages", "preAllocatedVUs"}, []string{"startRate", "timeUnit", "maxVUs"}},
}

// reduced is how many VUs and iterations, over all VUs, the scenario gets.
func (s *scenario) reduced(l Limits) (vus, iterations int) {
	vus = min(l.VUs, *cmp.Or(s.VUs, s.PreAllocatedVUs, new(1)))
	switch s.Executor {
	case "shared-iterations":
		iterations = min(l.Iterations, *cmp.Or(s.Iterations, new(1)))
	case "per-vu-iterations":
		iterations = vus * max(1, min(*cmp.Or(s.Iterations, new(1)), l.Iterations/vus))
	default:
		iterations = l.Iterations
	}
	return min(vus, iterations), iterations
}
