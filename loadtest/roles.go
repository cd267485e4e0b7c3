package main

import (
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/latchkey-gateway/latchkey/loadtest/target"
)

// The program starts copies of itself in these roles: a downstream and a proxy in processes
// of their own have CPU times of their own.
const (
	roleDownstream = "downstream"
	roleProxy      = "proxy"
	roleProvider   = "provider"
)

func downstreamRole() *cobra.Command {
	return &cobra.Command{
		Use: roleDownstream, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return target.Serve(cmd.Context(), target.NewDownstream(), cmd.OutOrStdout())
		},
	}
}

func proxyRole() *cobra.Command {
	var connections int
	cmd := &cobra.Command{
		Use: roleProxy + " ADDR", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			upstream, err := url.Parse("http://" + args[0])
			if err != nil {
				return fmt.Errorf("upstream: %w", err)
			}
			return target.Serve(cmd.Context(), target.NewProxy(upstream, connections), cmd.OutOrStdout())
		},
	}
	cmd.Flags().IntVar(&connections, "connections", 64, "idle connections kept to the upstream")
	return cmd
}
