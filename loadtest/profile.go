package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/latchkey-gateway/latchkey/loadtest/bench"
	"github.com/latchkey-gateway/latchkey/loadtest/rig"
)

// profileSeconds is how long each profile is taken.
const profileSeconds = 10

// profile takes a CPU profile of the measured replica while it serves each scenario's
// requests. It comes after the measurements, which it would disturb.
func profile(ctx context.Context, b *bench.Bench, s *stack, report *bench.Report, dir string, notes io.Writer) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", s.operator, profileSeconds)
	for _, sc := range bench.Scenarios() {
		res, ok := report.Find(sc.Name)
		if !ok || sc.Name == bench.Yardstick {
			continue
		}
		var text []byte
		var failed error
		var fetch sync.WaitGroup
		b.Sending = func() {
			fetch.Go(func() { text, failed = rig.Get(ctx, url, agentKey) })
		}
		_, err := b.Measure(ctx, sc, 1+int(res.Rate*profileSeconds))
		b.Sending = nil
		fetch.Wait()
		if err != nil {
			return err
		}
		if failed != nil {
			return fmt.Errorf("profile of %s: %w", sc.Name, failed)
		}
		path := filepath.Join(dir, sc.Name+".pprof")
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
		fmt.Fprintln(notes, "wrote", path)
	}
	return nil
}
