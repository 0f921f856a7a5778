package devpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// writingTime is how long a pid file without a number may be one that is just being written; after a crash it stays so.
const writingTime = time.Second

// findPostmaster answers the process that runs the cluster, or nil. The pid file alone proves
// nothing: after a crash its number may belong to another program. Such a file is removed, because
// Postgres would take that program for itself and refuse to start; so is one without a number,
// which it refuses too.
func findPostmaster(ctx context.Context, data string) (*postmaster, error) {
	path := filepath.Join(data, "postmaster.pid")
	p, written, err := readPidFile(path)
	if err != nil || p == nil {
		return nil, err
	}
	p.data = data
	reap(p.pid)
	switch {
	case p.pid == 0 && time.Since(written) < writingTime:
		return nil, fmt.Errorf("%w: it is writing %s", errDied, path)
	case p.pid != 0 && !exists(p.pid):
		// Left for Postgres to judge: through it, it also sees backends that outlived their postmaster.
		return nil, nil
	case p.pid != 0 && (p.alive(ctx) || p.answers(ctx) == nil):
		return p, nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove a stale pid file, whose process %d is not the server: %w", p.pid, err)
	}
	return nil, nil
}

// readPidFile answers what the file says and when that was written, or nil when there is none. What
// is not there yet is zero.
func readPidFile(path string) (*postmaster, time.Time, error) {
	info, err := os.Stat(path)
	var content []byte
	if err == nil {
		content, err = os.ReadFile(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, time.Time{}, nil
	}
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read the server's pid file: %w", err)
	}
	p := &postmaster{}
	lines := strings.Split(string(content), "\n") // pid, data folder, start time, port, …
	p.pid, _ = strconv.Atoi(strings.TrimSpace(lines[0]))
	if p.pid < 0 { // a single-user backend writes its pid negated
		p.pid = -p.pid
	}
	if len(lines) > 3 {
		p.port, _ = strconv.Atoi(strings.TrimSpace(lines[3]))
	}
	return p, info.ModTime(), nil
}

func exists(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// reap takes leave of a dead server that this process started and does not wait for. It does nothing
// to any other process.
func reap(pid int) {
	if pid > 0 {
		_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
	}
}
