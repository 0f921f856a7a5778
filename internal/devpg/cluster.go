package devpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type cluster struct {
	data string
	bin  binaries
	as   *syscall.Credential // nil: the current user
}

const clusterName = "pg"

// openCluster returns the cluster under dir and creates it if it is missing. The caller holds the lock.
func openCluster(ctx context.Context, dir string, cfg Config, log *slog.Logger) (cluster, error) {
	bin, err := search{getenv: os.Getenv, installed: installed()}.best()
	if err != nil {
		return cluster{}, err
	}
	c := cluster{bin: bin, as: unprivileged()}
	if c.data, err = filepath.EvalSymlinks(filepath.Join(dir, clusterName)); err == nil {
		return c, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return cluster{}, fmt.Errorf("look at the cluster: %w", err)
	}
	home, err := place(dir, c.as)
	if err != nil {
		return cluster{}, err
	}
	c.data = filepath.Join(home, clusterName)
	log.InfoContext(ctx, "make a Postgres cluster", "data", c.data, "binaries", string(c.bin))
	if err := c.initdb(ctx, cfg); err != nil {
		return cluster{}, fmt.Errorf("make a cluster with %s: %w", c.bin.program("initdb"), err)
	}
	return c, nil
}

// place returns the folder to create the cluster in. It is the state folder, except if root's state
// folder is not accessible to other users: then it is a new folder elsewhere, and a symbolic link in
// the state folder points to the cluster.
func place(dir string, as *syscall.Credential) (home string, err error) {
	if home, err = filepath.EvalSymlinks(dir); err != nil || as == nil || reachable(home) {
		return home, err
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
	// /var/tmp comes first because it survives a reboot.
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

// reachable reports whether all users may pass through a folder and its parents.
func reachable(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil || info.Mode()&0o001 == 0 {
		return false
	}
	above := filepath.Dir(dir)
	return above == dir || reachable(above)
}

// plainID is the user and group if the machine has no user postgres or nobody. Most systems use this
// number for their unprivileged user.
const plainID = 65534

// unprivileged returns the user to run the server as, or nil for the current user unless that is root.
func unprivileged() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
		if uidErr == nil && gidErr == nil && uid != 0 {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	return &syscall.Credential{Uid: plainID, Gid: plainID}
}

// initdb creates the cluster under a temporary name, so that a partial cluster of a killed process is
// never used. The name is new each time because the killed process's initdb may still be running.
func (c cluster) initdb(ctx context.Context, cfg Config) error {
	leftovers, err := filepath.Glob(c.data + ".making-*")
	if err != nil {
		return err
	}
	for _, leftover := range leftovers {
		_ = os.RemoveAll(leftover) // a folder that is still being written to is removed next time
	}
	making, err := os.MkdirTemp(filepath.Dir(c.data), clusterName+".making-*")
	if err != nil {
		return err
	}
	if c.as != nil {
		if err := os.Chown(making, int(c.as.Uid), int(c.as.Gid)); err != nil {
			return err
		}
	}
	args := []string{"-U", superuser, "-A", "trust", "-E", "UTF8", "--locale=C"}
	if cfg.Settings["fsync"] == "off" {
		args = append(args, "--no-sync")
	}
	err = c.run(ctx, nil, "initdb", making, args...)
	if err == nil {
		err = includeSettings(making)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(making))
	}
	return os.Rename(making, c.data)
}

// run runs a Postgres program on a data folder. The error contains its output unless that went to log.
func (c cluster) run(ctx context.Context, log *os.File, program, data string, args ...string) error {
	var said strings.Builder
	cmd := exec.CommandContext(ctx, c.bin.program(program), append(args, "-D", data)...)
	cmd.Dir = data
	cmd.Stdout, cmd.Stderr = &said, &said
	if log != nil { // the server keeps it open, so it must not be a pipe to this process
		cmd.Stdout, cmd.Stderr = log, log
	}
	for _, entry := range os.Environ() { // without variables that would affect the server or its messages
		if !strings.HasPrefix(entry, "PG") && !strings.HasPrefix(entry, "LC_") && !strings.HasPrefix(entry, "LANG") {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	cmd.Env = append(cmd.Env, "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as, Setpgid: true} // Ctrl-C reaches it only through ctx
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, cmp.Or(strings.TrimSpace(said.String()), "see the server's log"))
	}
	return nil
}

// control starts or stops the server with pg_ctl and waits.
func (c cluster) control(ctx context.Context, log *os.File, act string, within time.Duration, args ...string) error {
	args = append([]string{act, "-s", "-w", "-t", strconv.Itoa(int(within.Seconds()))}, args...)
	return c.run(ctx, log, "pg_ctl", c.data, args...)
}

// confName is the file that every start writes anew. The rest of postgresql.conf is left to initdb
// and to people.
const confName = "tidemark.conf"

func includeSettings(data string) error {
	conf, err := os.OpenFile(filepath.Join(data, "postgresql.conf"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(conf, "\ninclude '%s'\n", confName)
	return errors.Join(err, conf.Close())
}

func (c cluster) writeSettings(settings map[string]string) error {
	var text strings.Builder
	text.WriteString("# Written at every start; use postgresql.conf or ALTER SYSTEM for settings of your own.\n")
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s = '%s'\n", name, strings.ReplaceAll(settings[name], "'", "''"))
	}
	path := filepath.Join(c.data, confName)
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("write the server's settings: %w", err)
	}
	return nil
}
