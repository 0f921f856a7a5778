package devpg

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// fill makes an empty folder the data folder of a cluster: a copy of the seed, if there is one for
// this version of Postgres, or what initdb makes, which becomes the seed.
func (c cluster) fill(ctx context.Context, making string, cfg Config) error {
	if cfg.Seed == "" {
		return c.runInitdb(ctx, making, cfg)
	}
	major, err := c.bin.major(ctx)
	if err != nil {
		return err
	}
	seed := filepath.Join(cfg.Seed, major)
	err = c.copyTo(making, seed)
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) { // another user's is none
		return err
	}
	if err := c.runInitdb(ctx, making, cfg); err != nil {
		return err
	}
	_ = keepSeed(making, seed) // without a seed the next one runs initdb as well
	return nil
}

// copyTo copies a seed to an empty folder, for the server's user. The error is [fs.ErrNotExist] where there is no seed.
func (c cluster) copyTo(making, seed string) error {
	if err := os.CopyFS(making, os.DirFS(seed)); err != nil || c.as == nil {
		return err
	}
	return filepath.WalkDir(making, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(c.as.Uid), int(c.as.Gid))
	})
}

// keepSeed makes what initdb has made the seed, unless another process does so at the same time. A
// seed has its name once it is complete, and on the disk.
func keepSeed(made, seed string) error {
	dir := filepath.Dir(seed)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	lock, err := openLock(filepath.Join(dir, seedLockName))
	if err != nil {
		return err
	}
	defer func() { _ = lock.release() }()
	if alone, err := lock.try(syscall.LOCK_EX); err != nil || !alone {
		return err
	}
	copying := filepath.Join(dir, copyingName)
	err = os.RemoveAll(copying) // of a process that was killed
	if err == nil {
		err = os.CopyFS(copying, os.DirFS(made))
	}
	if err == nil {
		syscall.Sync() // once a version; a seed outlives the machine's crashes, and is whole then
		err = os.Rename(copying, seed)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(copying))
	}
	return nil
}

const (
	seedLockName = "lock"
	copyingName  = "copying"
)
