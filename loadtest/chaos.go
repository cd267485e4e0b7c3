package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/latchkey-gateway/latchkey/loadtest/chaos"
)

// hotTool lives in Redis alone: it promises nothing about a Redis that forgets.
const hotTool = "ping"

func chaosCommand() *cobra.Command {
	var f fleetFlags
	plan := chaos.Usual
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Let a fleet of agents loose while processes are killed, links are cut and stores fail over",
		Long: `chaos is fleet on a PostgreSQL with a synchronous standby, while a schedule from the seed kills
replicas, makes them sleep past their leases, breaks links, empties Redis, fails Redis and
PostgreSQL over, fills Redis' memory and restarts everything. It ends every process that it
started, by its process id.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.prepare(!cmd.Flags().Changed("seed")); err != nil {
				return err
			}
			plan.Seed, f.without = f.seed, append(f.without, hotTool)
			_, err := runFleet(cmd.Context(), f, &plan, cmd.OutOrStdout(), cmd.ErrOrStderr())
			return err
		},
	}
	f.register(cmd)
	flags := cmd.Flags()
	flags.DurationVar(&plan.Kills, "kills", plan.Kills, "mean time between two kills of replicas; 0: none")
	flags.DurationVar(&plan.Naps, "naps", plan.Naps, "mean time between two replicas being put to sleep; 0: none")
	flags.DurationVar(&plan.Links, "link-faults", plan.Links, "mean time between two faults of links; 0: none")
	flags.DurationVar(&plan.Stores, "store-faults", plan.Stores, "mean time between two faults of Redis or PostgreSQL; 0: none")
	flags.Lookup("duration").DefValue = "2m0s"
	f.duration = 2 * time.Minute
	return cmd
}
