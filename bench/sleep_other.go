//go:build !linux

package main

import "time"

// sleep waits for about so long; see sleep_linux.go.
func sleep(d time.Duration) { time.Sleep(d) }
