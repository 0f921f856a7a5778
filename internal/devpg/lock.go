package devpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

const pollInterval = 20 * time.Millisecond

// openLock opens a file for flock(2). The lock belongs to the open file: two files in one process
// exclude each other as two processes do. Closing the file or the death of the process releases it.
func openLock(path string) (*os.File, error) {
	// flock works on read-only files, which lets other users of the machine take part.
	file, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	return file, nil
}

// tryLock takes a lock without waiting. It returns false if another holder is in the way. On a file
// that holds a lock, it changes the kind of lock.
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

func takeLock(ctx context.Context, file *os.File, how int) error {
	err := poll(ctx, func() (bool, error) { return tryLock(file, how) })
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("wait for another process that holds %s: %w", file.Name(), err)
	}
	return err
}

// poll calls done until it returns true or an error, or ctx ends.
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
