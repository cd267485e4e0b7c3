package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/latchkey-gateway/latchkey/gateway/config"
	"github.com/latchkey-gateway/latchkey/intentstore/postgres"
	"github.com/latchkey-gateway/latchkey/intentstore/sqlite"
)

func newMigrateCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate --config FILE",
		Short: "Apply database migrations",
		Long: "Migrate brings the store's tables to what this version needs. It is safe to run again, by several\n" +
			"replicas at once and while older ones serve. It needs a role that may create tables; with it done\n" +
			"ahead and store.migrate: false, serve needs no such role.",
		Args: cobra.NoArgs,
	}
	path := configFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		// A faults section has no bearing on the tables: what serve may refuse, migrate need not.
		cfg, err := loadConfig(cmd, *path, config.Options{AllowFaults: true})
		if err != nil {
			return err
		}
		if err := migrate(cmd.Context(), cfg); err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "The tables of the %s store are up to date.\n", cfg.Store.Driver)
		return err
	}
	return cmd
}

// migrate applies the migrations of the configured store.
func migrate(ctx context.Context, cfg *config.Config) error {
	if cfg.Store.Driver == "sqlite" {
		return sqlite.Migrate(ctx, cfg.Store.Path)
	}
	return postgres.Migrate(ctx, cfg.Store.DSN)
}
