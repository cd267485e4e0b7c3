package tracing

import "time"

// KeepsReplay asks for room for one more replay at a time.
func KeepsReplay(t *Telemetry, now time.Time) bool { return t.queue.replay(now) }

// Dropped are the spans that had no room, that the collector did not take, and that wait.
func Dropped(t *Telemetry) (full, failed, waiting int64) {
	return t.queue.full.Load(), t.queue.failed.Load(), t.queue.waiting.Load()
}
