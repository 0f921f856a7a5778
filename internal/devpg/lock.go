package devpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// pollInterval is how often a condition of the file system or of another process is looked at again.
const pollInterval = 20 * time.Millisecond

// openLock opens a file for flock(2). The lock belongs to the open file, so two of them in one process
// exclude each other as two processes do, and it goes when the file is closed or the process dies.
func openLock(path string) (*os.File, error) {
	// Read-only is enough for flock, and lets a second user of the machine take part.
	file, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	return file, nil
}

// tryLock answers false when another holder is in the way. Taken again, it changes the kind of lock held.
func tryLock(file *os.File, how int) (bool, error) {
	for {
		err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, fmt.Errorf("lock %s: %w", file.Name(), err)
		}
	}
}

// takeLock waits for the lock until ctx ends.
func takeLock(ctx context.Context, file *os.File, how int) error {
	err := poll(ctx, func() (bool, error) { return tryLock(file, how) })
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("wait for another process that holds %s: %w", file.Name(), err)
	}
	return err
}

// poll calls done until it answers true or an error, or ctx ends.
func poll(ctx context.Context, done func() (bool, error)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
