// Command loadtest drives a whole Latchkey from outside, as its users do: through the
// binary, its config file and HTTP. It shares no code with the gateway.
//
//	go run ./loadtest bench        compare with a bare reverse proxy, on one downstream
//	go run ./loadtest fleet        let agents loose on it, and check what came of it
//	go run ./loadtest chaos        the same while processes are killed and links are cut
//	go run ./loadtest mutants      break one guard at a time and see the tests turn red
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	if err := execute(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "loadtest:", err)
		os.Exit(1)
	}
}

// execute runs one command until it is done or the process is told to end.
func execute(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use:           "loadtest",
		Short:         "Drive Latchkey from outside and measure it",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(benchCommand(), fleetCommand(), chaosCommand(), downstreamRole(), proxyRole(), providerRole())
	root.AddCommand(mutantsCommand())
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}
