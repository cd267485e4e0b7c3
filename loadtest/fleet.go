package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	crand "crypto/rand"

	"github.com/spf13/cobra"

	"github.com/latchkey-gateway/latchkey/loadtest/chaos"
	"github.com/latchkey-gateway/latchkey/loadtest/check"
	"github.com/latchkey-gateway/latchkey/loadtest/fleet"
	"github.com/latchkey-gateway/latchkey/loadtest/history"
	"github.com/latchkey-gateway/latchkey/loadtest/rig"
	"github.com/latchkey-gateway/latchkey/loadtest/target"
)

// fleetFlags are those of a run of agents, with or without chaos.
type fleetFlags struct {
	seed     uint64
	rate     float64
	duration time.Duration
	settle   time.Duration
	replicas int
	redis    string
	latchkey string
	mix      string
	obeys    float64
	without  []string
	nginx    bool
	faults   bool
	direct   bool
	compare  bool
	keep     bool
	report   string
	history  string
}

func (f *fleetFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Uint64Var(&f.seed, "seed", 0, "seed of everything that is drawn (default: random, and printed)")
	flags.Float64Var(&f.rate, "rate", 60, "intents that begin each second, whatever became of earlier ones")
	flags.DurationVar(&f.duration, "duration", time.Minute, "how long intents begin")
	flags.DurationVar(&f.settle, "settle", 2*time.Minute, "how long unknown outcomes may take to be found out afterwards")
	flags.IntVar(&f.replicas, "replicas", 3, "gateways")
	flags.StringVar(&f.redis, "redis", "standalone", "standalone, sentinel or cluster")
	flags.StringVar(&f.latchkey, "latchkey", "", "the gateway's program (default: build ./cmd/latchkey)")
	flags.StringVar(&f.mix, "mix", "faulty", "how the downstream behaves: faulty or clean")
	flags.Float64Var(&f.obeys, "obeys", fleet.Usual.Obeys, "share of agents that do what an answer says, 0 to 1")
	flags.StringSliceVar(&f.without, "without", nil, "tools that are not called")
	flags.BoolVar(&f.nginx, "nginx", true, "nginx in front of the gateways; without it agents knock at them in turn")
	flags.BoolVar(&f.faults, "faults", false, "the gateways lose answers on purpose, too (their own faults section)")
	flags.BoolVar(&f.compare, "compare", false, "afterwards run the same fleet without the gateway and count its duplicates")
	flags.BoolVar(&f.keep, "keep", false, "keep the directory with logs, configs and data")
	flags.StringVar(&f.report, "report", "", "write the report to this file as Markdown, and beside it as JSON")
	flags.StringVar(&f.history, "history", "", "write all that was seen to this file as JSON")
}

// prepare fills in what was left open.
func (f *fleetFlags) prepare(random bool) error {
	if f.rate <= 0 || f.duration <= 0 || f.replicas < 1 {
		return errors.New("--rate, --duration and --replicas must be more than 0")
	}
	if _, ok := target.Mixes[f.mix]; !ok {
		return fmt.Errorf("--mix %q is not faulty or clean", f.mix)
	}
	if random {
		var b [4]byte
		crand.Read(b[:])
		f.seed = uint64(binary.BigEndian.Uint32(b[:]))
	}
	if f.latchkey != "" { // children run in another directory
		var err error
		if f.latchkey, err = filepath.Abs(f.latchkey); err != nil {
			return err
		}
	}
	return nil
}

func fleetCommand() *cobra.Command {
	var f fleetFlags
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Let a fleet of agents loose on several gateways, and check what came of it",
		Long: `fleet starts a downstream that fails in every way, Redis, PostgreSQL, gateways and nginx on
loopback ports, and a fleet of agents that retry, reword, die, hang up and do not listen.
Afterwards an independent checker judges by the downstream's ledger. The exit code is 1 when
a rule is broken.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.prepare(!cmd.Flags().Changed("seed")); err != nil {
				return err
			}
			_, err := runFleet(cmd.Context(), f, nil, cmd.OutOrStdout(), cmd.ErrOrStderr())
			return err
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&f.direct, "direct", false, "no gateway at all: agents call the downstream")
	return cmd
}

// providerRole is the downstream in a process of its own.
func providerRole() *cobra.Command {
	var s target.Script
	var mix string
	cmd := &cobra.Command{
		Use: roleProvider, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.Mix = target.Mixes[mix]
			return target.Serve(cmd.Context(), target.NewProvider(s), cmd.OutOrStdout())
		},
	}
	cmd.Flags().Uint64Var(&s.Seed, "seed", 1, "seed of its behaviour")
	cmd.Flags().StringVar(&mix, "mix", "faulty", "how it behaves")
	cmd.Flags().DurationVar(&s.Patience, "patience", time.Second, "how long callers wait")
	return cmd
}

// errBroken: a rule of the checker does not hold.
var errBroken = errors.New("a promise was broken; the report says which")

// runFleet runs agents on a stage, with chaos if there is a plan for it, and reports. A
// report with broken rules comes with errBroken.
func runFleet(ctx context.Context, f fleetFlags, plan *chaos.Plan, out, notes io.Writer) (report *check.Report, err error) {
	fmt.Fprintf(notes, "seed %d\n", f.seed)
	began := time.Now()
	r, err := rig.New(f.keep)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if f.keep {
		fmt.Fprintln(notes, "keeping", r.Dir)
	}
	report = &check.Report{Title: "Fleet", Seed: f.seed, Command: f.command(plan), Machine: machine(), Limits: limits(f, plan)}
	var run *history.Run
	if f.direct {
		report.Title = "Fleet without the gateway"
		run, err = f.runDirect(ctx, r)
	} else {
		if plan != nil {
			report.Title = "Chaos"
		}
		run, err = f.runGateways(ctx, r, plan, report, notes)
	}
	if err != nil {
		return nil, err
	}
	report.Numbers, report.Rules, report.Faults = check.Sum(run), check.Check(run), run.Faults
	if f.compare && !f.direct {
		fmt.Fprintln(notes, "and now the same fleet without the gateway")
		direct, err := f.runDirect(ctx, r)
		if err != nil {
			return nil, err
		}
		report.Direct = new(check.Sum(direct))
	}
	report.Took = time.Since(began)
	if err := writeReport(report, run, f, out); err != nil {
		return nil, err
	}
	if !report.Green() && !f.direct { // without a gateway duplicates are the finding, not a failure
		return report, errBroken
	}
	return report, nil
}

func (f fleetFlags) runDirect(ctx context.Context, r *rig.Rig) (*history.Run, error) {
	t, err := r.StartSelf(ctx, "target-direct", roleProvider, "--seed", strconv.FormatUint(f.seed, 10), "--mix", f.mix, "--patience", chaos.Patience.String())
	if err != nil {
		return nil, err
	}
	agents := fleet.New(f.config(nil, t.Addr))
	agents.Run(ctx)
	effects, err := settledLedger(ctx, t.Addr)
	if err != nil {
		return nil, err
	}
	return agents.Collect(ctx, effects)
}

func (f fleetFlags) runGateways(ctx context.Context, r *rig.Rig, plan *chaos.Plan, report *check.Report, notes io.Writer) (*history.Run, error) {
	if f.latchkey == "" {
		var err error
		if f.latchkey, err = r.Build(ctx); err != nil {
			return nil, err
		}
	}
	stage, err := chaos.Start(ctx, r, chaos.Setup{
		Latchkey: f.latchkey, Replicas: f.replicas, Redis: f.redis, Standby: plan != nil, Nginx: f.nginx, Mix: f.mix, Seed: f.seed,
		Faults: f.gatewayFaults(), ProviderArgs: []string{roleProvider},
	})
	if err != nil {
		return nil, err
	}
	defer stage.Close()
	maps.Copy(report.Machine, stage.Versions)
	agents := fleet.New(f.config(stage.Doors, ""))
	var faults []history.Fault
	if plan == nil {
		agents.Run(ctx)
	} else {
		faults, err = plan.Run(ctx, stage, agents.Run, func(format string, args ...any) { fmt.Fprintf(notes, format+"\n", args...) })
		if err != nil {
			return nil, err
		}
	}
	fmt.Fprintln(notes, "the agents are done; waiting for unknown outcomes to be found out")
	if err := agents.Settle(ctx, f.settle); err != nil {
		return nil, err
	}
	effects, err := settledLedger(ctx, stage.Target.Addr)
	if err != nil {
		return nil, err
	}
	if _, err := agents.Resolve(ctx, effects); err != nil {
		return nil, err
	}
	run, err := agents.Collect(ctx, effects)
	if err != nil {
		return nil, err
	}
	run.Faults = faults
	report.Sometimes = check.Count(run, stage.Logs())
	return run, nil
}

// settledLedger reads the ledger when nothing can be added any more.
func settledLedger(ctx context.Context, addr string) ([]history.Effect, error) {
	timer := time.NewTimer(target.LateAtMost * chaos.Patience)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return fleet.Ledger(ctx, addr)
}

func (f fleetFlags) config(doors []string, direct string) fleet.Config {
	habits := fleet.Usual
	habits.Obeys = f.obeys
	return fleet.Config{Seed: f.seed, Rate: f.rate, Duration: f.duration, Habits: habits, Patience: chaos.Patience,
		Tenants: chaos.Tenants, Doors: doors, Direct: direct, Without: f.without}
}

func (f fleetFlags) gatewayFaults() map[string]any {
	faults := map[string]any{}
	if !f.faults {
		return faults
	}
	for _, t := range history.Tools {
		if t.Class != "read_only" {
			faults[t.Name] = map[string]any{"after_effect_timeout": 0.02, "after_effect_reset": 0.03, "after_effect_truncate": 0.02, "before_effect_refuse": 0.03}
		}
	}
	return faults
}

func (f fleetFlags) command(plan *chaos.Plan) string {
	name := "fleet"
	if plan != nil {
		name = "chaos"
	}
	parts := []string{"go run ./loadtest", name, "--seed", strconv.FormatUint(f.seed, 10), "--rate", fmt.Sprint(f.rate), "--duration", f.duration.String(),
		"--replicas", strconv.Itoa(f.replicas), "--redis", f.redis, "--mix", f.mix, "--obeys", fmt.Sprint(f.obeys)}
	if len(f.without) > 0 {
		parts = append(parts, "--without", strings.Join(f.without, ","))
	}
	for flag, on := range map[string]bool{"--faults": f.faults, "--direct": f.direct, "--compare": f.compare, "--nginx=false": !f.nginx} {
		if on {
			parts = append(parts, flag)
		}
	}
	return strings.Join(parts, " ")
}

func machine() map[string]string {
	return map[string]string{"go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH, "cpus": strconv.Itoa(runtime.NumCPU()),
		"load before": rig.LoadAverage()}
}

func limits(f fleetFlags, plan *chaos.Plan) []string {
	list := []string{
		"One machine, one clock: no real networks, no clocks that disagree, no disks that lie about fsync.",
		"The seed fixes what agents want, how they are inclined, how the downstream behaves and when faults come; it does not fix how threads and processes interleave. A red run may need several tries to be seen again.",
		"Agents are a model of agents: they reword at random, they do not reason.",
	}
	if plan != nil {
		list = append(list,
			"Hot tools are left out: they live in Redis alone and promise nothing beyond what Redis remembers.",
			"Links to Redis are broken only with --redis standalone: clients of Sentinel and Cluster learn the servers' own addresses.")
	} else if f.redis != "standalone" {
		list = append(list, "Nothing fails over in this run.")
	}
	return list
}

func writeReport(report *check.Report, run *history.Run, f fleetFlags, out io.Writer) error {
	text := report.Markdown()
	if _, err := io.WriteString(out, text); err != nil {
		return err
	}
	if f.history != "" {
		if err := writeJSON(f.history, run); err != nil {
			return err
		}
	}
	if f.report == "" {
		return nil
	}
	if err := os.WriteFile(f.report, []byte(text), 0o644); err != nil {
		return err
	}
	return writeJSON(strings.TrimSuffix(f.report, filepath.Ext(f.report))+".json", report)
}

func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
