package devpg

import (
	"bufio"
	"fmt"
	"os"
	"syscall"
)

const (
	memoryFolder = "/dev/shm"
	tmpfsMagic   = 0x01021994 // statfs(2)
)

// memory answers the folder that the kernel keeps in memory, and how many bytes are free: in the
// folder and in the machine.
func memory() (folder string, free uint64) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memoryFolder, &fs); err != nil || fs.Type != tmpfsMagic {
		return "", 0
	}
	info, err := os.Open("/proc/meminfo")
	if err != nil {
		return "", 0
	}
	defer func() { _ = info.Close() }()
	for lines := bufio.NewScanner(info); lines.Scan(); {
		var kB uint64
		if n, _ := fmt.Sscanf(lines.Text(), "MemAvailable: %d kB", &kB); n == 1 {
			return memoryFolder, min(fs.Bavail*uint64(fs.Bsize), kB<<10)
		}
	}
	return "", 0
}
