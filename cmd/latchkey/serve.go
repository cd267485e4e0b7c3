package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/latchkey-gateway/latchkey/gateway/config"
)

func newServeCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve --config FILE",
		Short: "Run the gateway",
		Long: "Run the gateway until SIGTERM or SIGINT. Then it reports not ready, takes no new calls, and ends when\n" +
			"the effects under way are settled. A second signal ends it at once; what that interrupts becomes unknown.",
		Args: cobra.NoArgs,
	}
	path := configFlag(cmd)
	allowFaults := cmd.Flags().Bool("allow-faults", false, "accept a faults section; for staging only")
	level := logLevelFlag(cmd, "info")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		log, err := newLog(cmd.ErrOrStderr(), *level)
		if err != nil {
			return err
		}
		cfg, err := loadConfig(cmd, *path, config.Options{AllowFaults: *allowFaults})
		if err != nil {
			return err
		}
		p, err := start(cmd.Context(), cfg, log)
		if err != nil {
			return err
		}
		log.Info("serving", "listen", p.agents.Addr().String(), "operator_listen", p.operators.Addr().String(),
			"region", cfg.Region, "replica", cfg.Replica, "version", versionText())
		return p.serve(cmd.Context())
	}
	return cmd
}

func logLevelFlag(cmd *cobra.Command, otherwise string) *string {
	return cmd.Flags().String("log-level", otherwise, "debug, info, warn or error")
}

func newLog(w io.Writer, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, usagef("--log-level %q is not one of debug, info, warn, error", level)
	}
	log := slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: l}))
	redis.SetLogger(redisLog{log}) // global in go-redis, which else writes lines of its own
	return log, nil
}

// redisLog takes what go-redis has to say; what matters of it comes back as errors.
type redisLog struct{ log *slog.Logger }

func (r redisLog) Printf(ctx context.Context, format string, v ...any) {
	r.log.DebugContext(ctx, "redis client", "text", fmt.Sprintf(format, v...))
}
