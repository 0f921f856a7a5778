//go:build !linux

package infrastructure_test

import "testing"

// smallDisk returns nil: only the Linux version can mount a file system.
func (w *world) smallDisk(*testing.T, string) (room func()) { return nil }
