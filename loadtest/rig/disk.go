package rig

import (
	"fmt"
	"os"
	"slices"
	"time"
)

// SyncTime returns the median time that the rig's disk takes to make a written page
// durable. Every durable call waits for two of these, so a latency says little without it.
func (r *Rig) SyncTime() (time.Duration, error) {
	f, err := os.CreateTemp(r.Dir, "sync-")
	if err != nil {
		return 0, fmt.Errorf("rig: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	page := make([]byte, 8192)
	took := make([]time.Duration, 51)
	for i := range took {
		start := time.Now()
		if _, err := f.WriteAt(page, 0); err != nil {
			return 0, fmt.Errorf("rig: %w", err)
		}
		if err := f.Sync(); err != nil {
			return 0, fmt.Errorf("rig: %w", err)
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
