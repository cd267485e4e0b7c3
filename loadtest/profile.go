package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/latchkey-gateway/latchkey/loadtest/bench"
	"github.com/latchkey-gateway/latchkey/loadtest/rig"
)

// profileSeconds is how long each profile is taken.
const profileSeconds = 10

// profile takes a CPU profile of the measured replica while it serves each scenario. It
// comes after the measurements, which it would disturb.
func profile(ctx context.Context, b *bench.Bench, s *stack, scenarios []bench.Scenario, f benchFlags, notes io.Writer) error {
	if err := os.MkdirAll(f.profile, 0o755); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", s.operator, profileSeconds)
	for _, sc := range scenarios {
		if sc.Name == bench.Yardstick {
			continue
		}
		type fetched struct {
			text []byte
			err  error
		}
		done := make(chan fetched, 1)
		go func() { // ends with the profile, or with cancel
			text, err := rig.Get(ctx, url, agentKey)
			done <- fetched{text, err}
		}()
		var got *fetched
		for got == nil {
			if _, err := b.Measure(ctx, sc, f.requests); err != nil {
				return err
			}
			select {
			case p := <-done:
				got = &p
			default:
			}
		}
		if got.err != nil {
			return fmt.Errorf("profile of %s: %w", sc.Name, got.err)
		}
		path := filepath.Join(f.profile, sc.Name+".pprof")
		if err := os.WriteFile(path, got.text, 0o644); err != nil {
			return err
		}
		fmt.Fprintln(notes, "wrote", path)
	}
	return nil
}
