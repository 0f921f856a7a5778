package demo

import "syscall"

// processAttributes puts a worker into a process group of its own, so that Ctrl-C reaches it
// through us and in order, and has the kernel kill it when we die.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
