package rig

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Spec says how to start and how to end a process.
type Spec struct {
	Name string // names the log file; unique in a rig
	Path string
	Args []string
	Env  []string     // added to the environment of this process
	As   *User        // nil: the same user
	Stop os.Signal    // the signal that asks it to end; nil: SIGTERM
	Die  os.Signal    // what the kernel sends it when this process dies; nil: SIGKILL
	Out  func([]byte) // sees what it writes to standard output; nil: goes to the log too

	grace time.Duration // 0: grace
}

// User is whom a process runs as.
type User struct{ UID, GID uint32 }

// Process is a started process.
type Process struct {
	Name string
	PID  int
	stop os.Signal
	proc *os.Process
	log  string
	done chan struct{}

	grace time.Duration
}

// grace is how long a process may take to end before it is killed.
const grace = 10 * time.Second

// Start starts a process; the rig ends it.
func (r *Rig) Start(s Spec) (*Process, error) {
	logPath := r.path(s.Name + ".log")
	logFile, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("rig: %w", err)
	}
	defer logFile.Close() // the child has its own copy
	cmd := exec.Command(s.Path, s.Args...)
	cmd.Dir = r.Dir
	cmd.Env = append(os.Environ(), s.Env...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	if s.Out != nil {
		cmd.Stdout = writerFunc(s.Out)
	}
	if s.Stop == nil {
		s.Stop = syscall.SIGTERM
	}
	if s.Die == nil {
		s.Die = syscall.SIGKILL
	}
	cmd.SysProcAttr = attributes(s)

	p := &Process{Name: s.Name, stop: s.Stop, log: logPath, done: make(chan struct{}), grace: cmp.Or(s.grace, grace)}
	started := make(chan error)
	go func() { // ends with the process, which Close ends
		// The kernel sends the death signal when the starting thread ends, not the starting
		// process: the thread is kept until the child is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("rig: start %s: %w", s.Name, err)
	}
	p.proc, p.PID = cmd.Process, cmd.Process.Pid
	r.mu.Lock()
	r.all = append(r.all, p)
	r.mu.Unlock()
	return p, nil
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop asks the process to end, waits, and kills it when it takes too long. It may be
// called again and is nil for a process that ended by itself.
func (p *Process) Stop() error {
	select {
	case <-p.done:
		return nil
	default:
	}
	_ = p.proc.Signal(p.stop) // fails only when it has just ended
	timer := time.NewTimer(p.grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	}
	_ = p.proc.Kill()
	<-p.done
	return fmt.Errorf("rig: %s had to be killed: it did not end within %s", p.Name, p.grace)
}

// Signal sends the process a signal. It is nil for a process that has ended.
func (p *Process) Signal(s syscall.Signal) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	return p.proc.Signal(s)
}

// Kill ends the process with SIGKILL and waits until it is gone. It may be called again.
func (p *Process) Kill() {
	_ = p.Signal(syscall.SIGKILL) // fails only when it has just ended
	<-p.done
}

// Log returns all that the process wrote.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// LogTail returns the end of what the process wrote.
func (p *Process) LogTail() []byte {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	const tail = 2000
	return bytes.TrimSpace(text[max(0, len(text)-tail):])
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) {
	f(b)
	return len(b), nil
}
