package rig

import (
	"bufio"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	const rest = " S 7 42 42 0 -1 4194304 99 1 0 0 100 20 3 4 20 0 5 0 109364 3133440 384"
	for name, tc := range map[string]struct {
		text string
		want stat
	}{
		"plain":       {"42 (redis-server)" + rest, stat{42, 7, 127}},
		"spaces":      {"42 (postgres: io worker)" + rest, stat{42, 7, 127}},
		"parentheses": {"42 (a) S 9 (b)" + rest, stat{42, 7, 127}},
		"newline":     {"42 (x)" + rest + "\n", stat{42, 7, 127}},
	} {
		if got, err := parseStat([]byte(tc.text)); err != nil || got != tc.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, tc.want)
		}
	}
	for _, text := range []string{"", "42", "42 (x", "x (y)" + rest, "42 (x) S 7 1 2", "42 (x) S seven" + rest, "42 (x) S 7 42 42 0 -1 4 99 1 0 0 many 20 3 4 20"} {
		if got, err := parseStat([]byte(text)); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}

func TestTicksOfATree(t *testing.T) {
	t.Parallel()
	table := processes{
		1:  {1, 0, 1},
		10: {10, 1, 5}, // the root
		11: {11, 10, 7},
		12: {12, 10, 11},
		13: {13, 12, 13}, // a grandchild
		20: {20, 1, 1000},
	}
	if got := table.ticks(10); got != 5+7+11+13 {
		t.Errorf("ticks of the tree: %d, want 36", got)
	}
	if got := table.ticks(13); got != 13 {
		t.Errorf("ticks of a leaf: %d, want 13", got)
	}
}

// The time of a child that has ended stays with its parent.
func TestCPUTimeCountsEndedChildren(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc: CPU time is measured on Linux only")
	}
	// The inner shell burns, and only once the outer one has waited for it comes the word.
	cmd := exec.Command("sh", "-c", `sh -c 'i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done'; echo burnt; read wait`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "burnt\n" {
		t.Fatalf("the shell said %q, %v", line, err)
	}
	measured, err := CPUTime(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	in.Close()
	cmd.Wait()
	u := cmd.ProcessState.SysUsage().(*syscall.Rusage) // with its waited-for children
	exact := time.Duration(u.Utime.Nano() + u.Stime.Nano())
	// Four counters (user and system, own and children's) are each cut to a tick of 10 ms.
	if measured > exact || measured < exact-40*time.Millisecond || measured == 0 {
		t.Errorf("measured %s, the kernel accounts %s", measured, exact)
	}
}

func TestCPUTimeOfNobody(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Skip(err)
	}
	if d, err := CPUTime(cmd.Process.Pid); err == nil {
		t.Errorf("a process that has ended used %s", d)
	}
}
