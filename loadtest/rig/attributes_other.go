//go:build !linux

package rig

import "syscall"

// attributes: elsewhere than on Linux nothing ends the processes should this one be killed.
func attributes(s Spec) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
