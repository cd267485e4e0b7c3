//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package downstream

import "net"

// probe cannot look at an idle connection here, so none is used twice: slower, and safe.
type probe struct{}

func (*probe) init(net.Conn) {}
func (*probe) alive() bool   { return false }
