package latency

import (
	"syscall"
	"time"
)

// sleep waits for less than a millisecond, which Go's timers do not: a process that has nothing
// else to do sleeps for whole ones (netpoll in its runtime). It may end early, for a signal.
func sleep(d time.Duration) {
	ts := syscall.NsecToTimespec(d.Nanoseconds())
	_ = syscall.Nanosleep(&ts, nil)
}
