package locktest

import (
	"os/exec"
	"runtime"
	"syscall"
)

// dieWithParent ends the server when a test binary is killed and cannot clean up. The
// kernel means the thread that started it: keepThread.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

func keepThread() { runtime.LockOSThread() }
