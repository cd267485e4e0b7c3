package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/latchkey-gateway/latchkey/loadtest/mutants"
	"github.com/latchkey-gateway/latchkey/loadtest/rig"
)

// Servers that tests use instead of starting their own.
const (
	testRedis    = "LATCHKEY_TEST_REDIS"
	testPostgres = "LATCHKEY_TEST_POSTGRES"
)

func mutantsCommand() *cobra.Command {
	var only []string
	var report string
	var timeout time.Duration
	jobs := 1
	cmd := &cobra.Command{
		Use:   "mutants",
		Short: "Break one guard of the promise at a time and see the tests turn red",
		Long: `mutants lays one broken guard after the other over the source (the tree itself is not touched)
and runs the tests that must notice. It fails if one of them does not. Redis and PostgreSQL are
started when a mutant's tests need them, unless ` + testRedis + ` and ` + testPostgres + `
name servers to use.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := selected(mutants.All(), only)
			if err != nil {
				return err
			}
			return checkMutants(cmd, list, max(jobs, 1), timeout, report)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&only, "only", nil, "the mutants of these names; default: all")
	flags.IntVar(&jobs, "jobs", jobs, "mutants at a time")
	flags.DurationVar(&timeout, "timeout", 3*time.Minute, "of one mutant's tests, without compiling them")
	flags.StringVar(&report, "report", "", "also write the table to this file, as Markdown")
	return cmd
}

func selected(all []mutants.Mutant, only []string) ([]mutants.Mutant, error) {
	if len(only) == 0 {
		return all, nil
	}
	var list []mutants.Mutant
	for _, name := range only {
		i := slices.IndexFunc(all, func(m mutants.Mutant) bool { return m.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no mutant %q", name)
		}
		list = append(list, all[i])
	}
	return list, nil
}

func checkMutants(cmd *cobra.Command, list []mutants.Mutant, jobs int, timeout time.Duration, path string) (err error) {
	ctx, out := cmd.Context(), cmd.ErrOrStderr()
	root, err := repository(ctx)
	if err != nil {
		return err
	}
	r, err := rig.New(false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	began := time.Now()
	runner := mutants.Runner{Root: root, Dir: r.Dir, Timeout: timeout}
	check := mutants.Report{Results: make([]mutants.Result, len(list)), Facts: facts(ctx, root)}
	if err := serveTests(ctx, r, list, &runner, &check); err != nil {
		return err
	}

	fmt.Fprintf(out, "the tests of %d mutants, without any\n", len(list))
	if err := runner.Sound(ctx, list); err != nil {
		return err
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan struct{}, jobs)
	for i, m := range list {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			result := runner.Run(ctx, m)
			mu.Lock()
			defer mu.Unlock()
			check.Results[i] = result
			result.Line(out)
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	check.Took = time.Since(began)
	if err := check.Table(cmd.OutOrStdout()); err != nil {
		return err
	}
	if path != "" {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		if err := errors.Join(check.Markdown(f), f.Close()); err != nil {
			return err
		}
	}
	if alive := len(list) - check.Killed(); alive > 0 {
		return fmt.Errorf("%d of %d mutants were not killed", alive, len(list))
	}
	return nil
}

// repository is the root of the checkout that this is run in.
func repository(ctx context.Context) (string, error) {
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(mod))), nil
}

// facts say what was checked: without them the table says little a year from now.
func facts(ctx context.Context, root string) [][2]string {
	git := func(args ...string) string {
		out, _ := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
		return strings.TrimSpace(string(out))
	}
	commit := git("log", "-1", "--format=%h of %cs")
	if git("status", "--porcelain", "--untracked-files=no") != "" {
		commit += ", with changes that were not committed"
	}
	return [][2]string{{"commit", commit}, {"Go", strings.TrimPrefix(runtime.Version(), "go") + " on " + runtime.GOOS + "/" + runtime.GOARCH},
		{"processors", fmt.Sprint(runtime.NumCPU())}}
}

// serveTests starts the servers that the mutants' tests need and nobody has named.
func serveTests(ctx context.Context, r *rig.Rig, list []mutants.Mutant, runner *mutants.Runner, check *mutants.Report) error {
	needs := func(n mutants.Need) bool {
		return slices.ContainsFunc(list, func(m mutants.Mutant) bool { return m.Needs == n })
	}
	if needs(mutants.RedisServer) && os.Getenv(testRedis) == "" {
		server, err := r.StartRedis(ctx, false)
		if err != nil {
			return err
		}
		runner.Env = append(runner.Env, testRedis+"="+server.Addr)
		check.Facts = append(check.Facts, [2]string{"Redis", server.Version})
	}
	if needs(mutants.PostgresServer) && os.Getenv(testPostgres) == "" {
		server, err := r.StartPostgres(ctx)
		if err != nil {
			return err
		}
		runner.Env = append(runner.Env, testPostgres+"="+server.DSN)
		check.Facts = append(check.Facts, [2]string{"PostgreSQL", server.Version})
	}
	return nil
}
