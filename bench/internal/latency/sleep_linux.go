package latency

import (
	"syscall"
	"time"
)

// sleep sleeps for less than a millisecond. Go's timers cannot: an idle process sleeps for whole
// milliseconds (netpoll in its runtime). A signal may end the sleep early.
func sleep(d time.Duration) {
	ts := syscall.NsecToTimespec(d.Nanoseconds())
	_ = syscall.Nanosleep(&ts, nil)
}
