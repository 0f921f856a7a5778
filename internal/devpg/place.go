package devpg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// place answers the folder in which to make the thing of that name, where the user can reach it:
// the state folder itself, or a new one elsewhere, which a symbolic link in the state folder points
// at from then on.
func place(dir, name string, as *syscall.Credential) (home string, err error) {
	link := filepath.Join(dir, name)
	if target, err := os.Readlink(link); err == nil && reachable(filepath.Dir(target), as) == nil {
		return filepath.Dir(target), nil
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("make room for %s: %w", link, err)
	}
	if reachable(dir, as) == nil {
		return dir, nil
	}
	if home, err = elsewhere(as); err != nil {
		return "", err
	}
	if err := os.Symlink(filepath.Join(home, name), link); err != nil {
		return "", errors.Join(fmt.Errorf("note where %s is: %w", name, err), os.Remove(home))
	}
	return home, nil
}

// elsewhere makes a folder that the user can reach. /var/tmp comes first because it outlives a reboot.
func elsewhere(as *syscall.Credential) (string, error) {
	if err := reachable("/", as); err != nil {
		return "", fmt.Errorf("run as an unprivileged user, since Postgres refuses to be root: user id %d: %w", as.Uid, err)
	}
	tried := []string{"/var/tmp", os.TempDir(), "/tmp"}
	for _, parent := range tried {
		home, err := os.MkdirTemp(parent, temporaryPattern)
		if err != nil {
			continue
		}
		if os.Chmod(home, 0o755) == nil && reachable(home, as) == nil {
			return home, nil
		}
		_ = os.Remove(home)
	}
	return "", fmt.Errorf("find a folder for the cluster: Postgres refuses to be root, and user id %d reaches neither "+
		"the state folder nor %s: run as another user, or set %s",
		as.Uid, strings.Join(tried, ", "), urlEnv)
}

// reachable tells whether that user's processes can work in dir. Trying it is the one way that also sees access lists.
func reachable(dir string, as *syscall.Credential) error {
	if as == nil {
		_, err := os.Stat(dir)
		return err
	}
	attempt := &exec.Cmd{
		Path: shell, Args: []string{shell, "-c", ":"}, Dir: dir,
		SysProcAttr: &syscall.SysProcAttr{Credential: as},
	}
	return attempt.Run()
}

const shell = "/bin/sh"
