//go:build !linux

package latency

import "time"

// sleep sleeps for about d. See sleep_linux.go.
func sleep(d time.Duration) { time.Sleep(d) }
