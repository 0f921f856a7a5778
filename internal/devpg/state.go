package devpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	lockName  = "lock"
	usersName = "users"
	portName  = "port"
	logName   = "postgres.log"
	// temporaryPattern names the folders of private servers, and of clusters outside their state folder.
	temporaryPattern = "tidemark-pg-*"
)

func (s *Server) prepareState(ctx context.Context) (dir string, err error) {
	dir = s.cfg.Dir
	switch {
	case s.temporary():
		if err := s.removeAbandoned(ctx); err != nil {
			return "", err
		}
		if dir, err = os.MkdirTemp("", temporaryPattern); err != nil {
			return "", err
		}
		return dir, os.Chmod(dir, 0o755) // the server's user must pass through it
	case dir == "":
		if dir, err = DefaultDir(); err != nil {
			return "", err
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// temporary reports whether the state folder is removed with the server.
func (s *Server) temporary() bool { return s.cfg.Private && s.cfg.Dir == "" }

// removeAbandoned removes the private servers of killed processes, whose folders are never reused.
func (s *Server) removeAbandoned(ctx context.Context) error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), temporaryPattern))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		abandoned := &Server{cfg: s.cfg, log: s.log, dir: dir}
		if err := abandoned.removeUnused(ctx); err != nil {
			s.log.WarnContext(ctx, "an abandoned server stays", "dir", dir, "error", err)
		}
	}
	return nil
}

// removeUnused stops the server and removes the folder if neither of its locks is held. A folder
// without both lock files belongs to another program, or its owner is about to take them.
func (s *Server) removeUnused(ctx context.Context) (err error) {
	for _, name := range []string{lockName, usersName} {
		path := filepath.Join(s.dir, name)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		lock, err := openLock(path)
		if err != nil {
			return err
		}
		defer func() { _ = lock.Close() }()
		if free, err := tryLock(lock, syscall.LOCK_EX); err != nil || !free {
			return err
		}
	}
	if err := s.stop(ctx, Immediate); err != nil {
		return err
	}
	s.log.InfoContext(ctx, "remove an abandoned server", "dir", s.dir)
	return removeState(s.dir)
}

// removeState removes the state folder of a stopped server, and the cluster's folder elsewhere.
func removeState(dir string) error {
	var elsewhere error
	if target, err := os.Readlink(filepath.Join(dir, clusterName)); err == nil {
		elsewhere = os.RemoveAll(filepath.Dir(target))
	}
	return errors.Join(elsewhere, os.RemoveAll(dir))
}

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
