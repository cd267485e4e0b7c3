package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/latchkey-gateway/latchkey/loadtest/bench"
	"github.com/latchkey-gateway/latchkey/loadtest/rig"
)

type benchFlags struct {
	stackOptions
	requests  int
	warmup    int
	rounds    int
	scenarios []string
	openFor   time.Duration
	timeout   time.Duration
	keep      bool
	out       string
	profile   string
}

func benchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Compare the gateway with a bare reverse proxy, on one downstream, in one run",
		Long: `bench starts a downstream, a bare httputil.ReverseProxy, Redis, PostgreSQL and two gateways
on loopback ports, sends the same calls through all of them in turns, and prints requests per
second, latency and CPU time per request of gateway + Redis + PostgreSQL, with the ratio to the
bare proxy. It needs redis-server and PostgreSQL's server programs, and Linux.

It fails when a request fails or when the downstream does not see exactly one effect for
each fresh call. A missed target is printed and is no failure.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runBench(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&f.connections, "connections", 64, "connections that send calls")
	flags.IntVar(&f.requests, "requests", 10000, "requests of each measurement")
	flags.IntVar(&f.warmup, "warmup", 1000, "requests before each measurement")
	flags.IntVar(&f.rounds, "rounds", 5, "rounds over all scenarios; medians are reported")
	flags.StringSliceVar(&f.scenarios, "scenarios", nil, "some of them, by name (default all)")
	flags.DurationVar(&f.openFor, "open-for", 5*time.Second, "length of each run at a fixed rate; 0 leaves them out")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Minute, "limit for one measurement")
	flags.StringVar(&f.latchkey, "latchkey", "", "the gateway's program (default: build ./cmd/latchkey)")
	flags.BoolVar(&f.appendOnly, "redis-appendonly", false, "Redis writes its append-only file, fsync every second")
	flags.BoolVar(&f.keep, "keep", false, "keep the directory with logs, configs and data")
	flags.StringVar(&f.out, "out", "", "write the report as JSON to this file")
	flags.StringVar(&f.profile, "profile", "", "after the measurements, write a CPU profile of the gateway for each scenario to this directory")
	return cmd
}

func (f benchFlags) check() error {
	if f.connections < 1 || f.requests < 1 || f.rounds < 1 || f.warmup < 0 {
		return errors.New("--connections, --requests and --rounds must be at least 1, --warmup at least 0")
	}
	return nil
}

func runBench(ctx context.Context, f benchFlags, out, notes io.Writer) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	scenarios, err := bench.Select(f.scenarios)
	if err != nil {
		return err
	}
	if f.latchkey != "" { // children run in another directory
		if f.latchkey, err = filepath.Abs(f.latchkey); err != nil {
			return err
		}
	}
	f.pprof = f.profile != ""
	r, err := rig.New(f.keep)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if f.keep {
		fmt.Fprintln(notes, "keeping", r.Dir)
	}
	s, err := startStack(ctx, r, f.stackOptions)
	if err != nil {
		return err
	}
	b := &bench.Bench{Stack: s.Stack, Connections: f.connections, Warmup: f.warmup, Timeout: f.timeout}
	report, err := b.Run(ctx, bench.Plan{
		Scenarios: scenarios, Requests: f.requests, Rounds: f.rounds, OpenFor: f.openFor,
		Note: func(format string, args ...any) { fmt.Fprintf(notes, format+"\n", args...) },
	})
	if err != nil {
		return err
	}
	report.Machine = s.machine
	if err := write(report, f.out, out); err != nil {
		return err
	}
	if f.profile != "" {
		return profile(ctx, b, s, report, f.profile, notes)
	}
	return nil
}

func write(report *bench.Report, path string, out io.Writer) error {
	if _, err := io.WriteString(out, report.Markdown()); err != nil || path == "" {
		return err
	}
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
