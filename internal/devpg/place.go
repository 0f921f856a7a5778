package devpg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// place answers the folder in which to make the cluster: the state folder itself, or for root, whose
// folders others may not reach, a new one elsewhere, which a symbolic link in the state folder points
// at from then on.
func place(dir string, as *syscall.Credential) (home string, err error) {
	if as == nil {
		return filepath.EvalSymlinks(dir)
	}
	link := filepath.Join(dir, clusterName)
	if target, err := os.Readlink(link); err == nil {
		if _, err := os.Stat(filepath.Dir(target)); err == nil {
			return filepath.Dir(target), nil
		}
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("make room for %s: %w", link, err)
	}
	// /var/tmp comes first because it outlives a reboot.
	if home, err = os.MkdirTemp("/var/tmp", temporaryPattern); err != nil {
		if home, err = os.MkdirTemp("", temporaryPattern); err != nil {
			return "", fmt.Errorf("make a folder for the cluster: %w", err)
		}
	}
	if home, err = filepath.EvalSymlinks(home); err != nil {
		return "", err
	}
	if err := errors.Join(os.Chmod(home, 0o755), os.Symlink(filepath.Join(home, clusterName), link)); err != nil {
		return "", errors.Join(fmt.Errorf("note where the cluster is: %w", err), os.Remove(home))
	}
	return home, nil
}
