//go:build !linux

package load

import "time"

func sleepUntil(due time.Time) { time.Sleep(time.Until(due)) }
