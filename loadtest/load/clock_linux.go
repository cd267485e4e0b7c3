package load

import (
	"syscall"
	"time"
)

// sleepUntil blocks the thread until due. The runtime's timers wait in whole milliseconds
// when the process is otherwise idle, which is longer than the latencies measured here;
// nanosleep(2) is late by some tens of microseconds.
func sleepUntil(due time.Time) {
	for {
		left := time.Until(due)
		if left <= 0 {
			return
		}
		ts := syscall.NsecToTimespec(min(left, 50*time.Millisecond).Nanoseconds())
		_ = syscall.Nanosleep(&ts, nil) // EINTR: the loop looks at the clock again
	}
}
