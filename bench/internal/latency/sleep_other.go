//go:build !linux

package latency

import "time"

// sleep waits for about so long; see sleep_linux.go.
func sleep(d time.Duration) { time.Sleep(d) }
