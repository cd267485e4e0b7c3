package intentstoretest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Benchmark measures a call's two writes, Begin and Settle, with so many callers at once.
// It reports rows per second and the processor time of this process for each call; server,
// if given, says how much the database has used so far, which is reported as well.
func Benchmark(b *testing.B, s Full, callers int, server func() time.Duration) {
	t := &bench{s: s, ctx: b.Context(), tenant: b.Name() + time.Now().String()}
	body := outcome(`{"id":"em_` + strings.Repeat("x", 200) + `"}`)
	var failed atomic.Value
	b.ReportAllocs()
	ours, theirs := ownTime(), time.Duration(0)
	if server != nil {
		theirs = server()
	}
	var next atomic.Int64
	b.ResetTimer()
	race(callers, func(int) {
		for next.Add(1) <= int64(b.N) {
			r := t.started()
			got, err := s.Begin(t.ctx, r)
			if err == nil && !got.Mine {
				err = fmt.Errorf("begin was not mine")
			}
			if err == nil {
				_, err = s.Settle(t.ctx, got.Row.CompleteMove("downstream", body, epoch))
			}
			if err != nil {
				failed.Store(err)
				return
			}
		}
	})
	b.StopTimer()
	if err := failed.Load(); err != nil {
		b.Fatal(err)
	}
	calls := float64(b.N)
	b.ReportMetric(2*calls/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64((ownTime()-ours).Microseconds())/calls, "own-cpu-µs/op")
	if server != nil {
		b.ReportMetric(float64((server()-theirs).Microseconds())/calls, "server-cpu-µs/op")
	}
}

func ownTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// ProcessorTime is what the server and all of its processes, ended ones too, have used.
func (s *PostgresServer) ProcessorTime() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return 0
	}
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux
	pid := s.server.Process.Pid
	total := 0
	for _, p := range append(children(pid), pid) {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p), "stat"))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		for _, i := range []int{11, 12, 13, 14} { // utime, stime, and those of ended children
			if i < len(fields) {
				n, _ := strconv.Atoi(fields[i])
				total += n
			}
		}
	}
	return time.Duration(total) * tick
}
