package rig

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// CPUTime returns the user and system time that process pid and all its descendants have
// used, those included that have ended and been waited for: a PostgreSQL backend that
// exits must not take its share with it. The resolution is a clock tick, usually 10 ms.
// It reads Linux's /proc.
func CPUTime(pid int) (time.Duration, error) {
	tick, err := clockTick()
	if err != nil {
		return 0, err
	}
	table, err := processTable()
	if err != nil {
		return 0, err
	}
	if _, ok := table[pid]; !ok {
		return 0, fmt.Errorf("rig: process %d is gone", pid)
	}
	return time.Duration(table.ticks(pid)) * tick, nil
}

// stat is what /proc/<pid>/stat says, as far as it matters here.
type stat struct {
	pid, parent int
	ticks       uint64 // utime + stime + cutime + cstime
}

type processes map[int]stat

// ticks sums over the tree below root. A process counts its dead children once they are
// waited for, and live ones count themselves, so nothing counts twice.
func (t processes) ticks(root int) uint64 {
	sum := t[root].ticks
	for pid, s := range t {
		if s.parent == root && pid != root {
			sum += t.ticks(pid)
		}
	}
	return sum
}

func processTable() (processes, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(paths) == 0 {
		return nil, errors.New("rig: no /proc with processes: CPU time is measured on Linux only")
	}
	table := make(processes, len(paths))
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it ended between listing and reading
		}
		if err != nil {
			return nil, fmt.Errorf("rig: %w", err)
		}
		s, err := parseStat(text)
		if err != nil {
			return nil, fmt.Errorf("rig: %s: %w", path, err)
		}
		table[s.pid] = s
	}
	return table, nil
}

// parseStat reads a line of proc(5)'s stat. The second field is the command's name in
// parentheses and may itself hold spaces and parentheses.
func parseStat(text []byte) (stat, error) {
	var s stat
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return s, fmt.Errorf("no command in %q", text)
	}
	var err error
	if s.pid, err = strconv.Atoi(string(bytes.TrimSpace(text[:open]))); err != nil {
		return s, err
	}
	rest := bytes.Fields(text[end+1:]) // rest[0] is field 3, the state
	if len(rest) < 15 {
		return s, fmt.Errorf("too few fields in %q", text)
	}
	if s.parent, err = strconv.Atoi(string(rest[1])); err != nil {
		return s, err
	}
	for _, f := range rest[11:15] {
		n, err := strconv.ParseUint(string(f), 10, 64)
		if err != nil {
			return s, err
		}
		s.ticks += n
	}
	return s, nil
}

// clockTick is the unit of /proc's times, from the auxiliary vector (AT_CLKTCK), which is
// where sysconf(_SC_CLK_TCK) has it from.
func clockTick() (time.Duration, error) {
	const atClockTick = 17
	vector, err := os.ReadFile("/proc/self/auxv")
	if err != nil {
		return 0, fmt.Errorf("rig: CPU time is measured on Linux only: %w", err)
	}
	const word = strconv.IntSize / 8
	number := func(b []byte) uint64 {
		if word == 4 {
			return uint64(binary.NativeEndian.Uint32(b))
		}
		return binary.NativeEndian.Uint64(b)
	}
	for ; len(vector) >= 2*word; vector = vector[2*word:] {
		if hz := number(vector[word:]); number(vector) == atClockTick && hz > 0 {
			return time.Second / time.Duration(hz), nil
		}
	}
	return 0, errors.New("rig: the kernel does not say how long a clock tick is")
}

// LoadAverage returns the machine's load over the last 1, 5 and 15 minutes as text; "" where
// it cannot be read. Figures taken on a busy machine compare badly with others.
func LoadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if f := bytes.Fields(text); err == nil && len(f) >= 3 {
		return string(bytes.Join(f[:3], []byte{' '}))
	}
	return ""
}
