package devpg

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

const (
	lockName  = "lock"
	usersName = "users"
	portName  = "port"
	logName   = "postgres.log"
	// temporaryPattern names the folders of private servers, and those of clusters that cannot live in their state folder.
	temporaryPattern = "tidemark-pg-*"
)

// prepareState answers the state folder, made when it is not there.
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
		return dir, os.Chmod(dir, 0o755) // the server's user passes through it
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

// temporary tells whether the state folder lives no longer than the server.
func (s *Server) temporary() bool { return s.cfg.Private && s.cfg.Dir == "" }

// removeAbandoned ends the private servers of processes that were killed: their
// folders are used once.
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
// without both is a stranger's, or one whose owner is about to take them.
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

// removeState removes a state folder whose server has stopped, with what place put elsewhere.
func removeState(dir string) error {
	var elsewhere error
	if target, err := os.Readlink(filepath.Join(dir, clusterName)); err == nil {
		elsewhere = os.RemoveAll(filepath.Dir(target))
	}
	return errors.Join(elsewhere, os.RemoveAll(dir))
}
