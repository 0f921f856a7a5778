//go:build !linux

package infrastructure_test

import "testing"

// smallDisk answers nil: only on Linux is there a file system to mount for it.
func (w *world) smallDisk(*testing.T, string) (room func()) { return nil }
