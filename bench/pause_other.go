//go:build !linux

package main

import "time"

// pause waits for about so long; see pause_linux.go.
func pause(d time.Duration) { time.Sleep(d) }
