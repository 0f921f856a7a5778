//go:build !linux

package devpg

// memory answers nothing: clusters stay on the disk.
func memory() (folder string, free uint64) { return "", 0 }
