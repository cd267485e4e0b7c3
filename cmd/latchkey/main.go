// Command latchkey is the gateway and everything around it, one binary with subcommands.
//
// Exit codes: 0 done, 1 the thing asked about is bad (an unsafe tool, a store that cannot
// be reached), 2 wrong usage or config. Errors go to stderr, one a line; those about the
// config name file, line and field.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/latchkey-gateway/latchkey/gateway/config"
)

// commands are the subcommands in the order that help shows them. Each one's RunE may
// return any error: it exits with 1, a *usageError or config.Problems with 2.
func commands() []*cobra.Command {
	return []*cobra.Command{
		newDevCmd(),
		newServeCmd(),
		newCheckCmd(),
		newMigrateCmd(),
		newReceiptsCmd(),
		newVersionCmd(),
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly end; a second one then ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs one command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRootCmd()
	root.SetArgs(append([]string{}, args...)) // nil would mean the process' own
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			fmt.Fprintln(stderr, "latchkey: "+line)
		}
	}
	return exitCode(err)
}

func newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:           "latchkey",
		Short:         "An idempotency gateway for fleets of AI agents",
		Long:          "Latchkey is an idempotency gateway for fleets of AI agents:\none approved intention produces at most one consequential action.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SetOut(cmd.ErrOrStderr())
			_ = cmd.Help()
			return usagef("a command is needed, such as latchkey dev")
		},
	}
	root.AddCommand(commands()...)
	markRan(root)
	return root
}

// usageError is a command line that makes no sense.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

func usagef(format string, a ...any) error { return &usageError{fmt.Sprintf(format, a...)} }

// ranError is an error of a command that understood its command line.
type ranError struct{ error }

func (e ranError) Unwrap() error { return e.error }

// markRan tells the errors of a command's own work from those of cobra, which has no type
// for "unknown flag": what no command returned is wrong usage.
func markRan(cmd *cobra.Command) {
	if inner := cmd.RunE; inner != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if err := inner(cmd, args); err != nil {
				return ranError{err}
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		markRan(sub)
	}
}

func exitCode(err error) int {
	if _, ok := errors.AsType[ranError](err); !ok {
		return 2
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return 2
	}
	if _, ok := errors.AsType[config.Problems](err); ok {
		return 2
	}
	return 1
}

// configFlag adds --config to a command and returns where its value will be.
func configFlag(cmd *cobra.Command) *string {
	path := cmd.Flags().StringP("config", "c", "", "config `file`, YAML or JSON (required)")
	_ = cmd.MarkFlagRequired("config")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml", "json")
	return path
}

// loadConfig reads the config and writes its warnings to stderr.
func loadConfig(cmd *cobra.Command, path string, opts config.Options) (*config.Config, error) {
	cfg, warnings, err := config.Load(path, opts)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), "latchkey: warning: "+w.String())
	}
	return cfg, nil
}
