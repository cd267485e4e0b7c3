package rig

import "syscall"

// attributes puts the process in its own group, so that an interrupt at the terminal
// reaches this process alone and the rig ends the others in order, and has the kernel end
// it should this process be killed.
func attributes(s Spec) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: s.Die.(syscall.Signal)}
	if s.As != nil {
		a.Credential = &syscall.Credential{Uid: s.As.UID, Gid: s.As.GID}
	}
	return a
}
