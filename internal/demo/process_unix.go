//go:build unix && !linux

package demo

import "syscall"

// processAttributes puts a worker into a process group of its own, so that Ctrl-C reaches it through us and in order.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
