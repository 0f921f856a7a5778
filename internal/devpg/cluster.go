package devpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// cluster is a data folder with what is needed to run it.
type cluster struct {
	data string
	bin  binaries
	as   *syscall.Credential // nil: the current user
}

const clusterName = "pg"

// openCluster answers the cluster under dir, made now if there is none. The caller holds the lock.
func openCluster(ctx context.Context, dir string, cfg Config, log *slog.Logger) (cluster, error) {
	bin, err := search{getenv: os.Getenv}.best()
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
		return cluster{}, fmt.Errorf("make a cluster with %s: %w", c.bin.initdb(), err)
	}
	return c, nil
}

// initdb makes the cluster under another name, so that what it leaves when this process is killed
// is never taken for a cluster. The name is new each time: the initdb of a killed process may still
// be at work.
func (c cluster) initdb(ctx context.Context, cfg Config) error {
	leftovers, err := filepath.Glob(c.data + ".making-*")
	if err != nil {
		return err
	}
	for _, leftover := range leftovers {
		_ = os.RemoveAll(leftover) // one that is still being written to goes the next time
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
	if err := c.runInitdb(ctx, making, cfg); err != nil {
		return errors.Join(err, os.RemoveAll(making))
	}
	return os.Rename(making, c.data)
}

// runInitdb runs initdb in an empty folder.
func (c cluster) runInitdb(ctx context.Context, making string, cfg Config) error {
	args := []string{"-D", making, "-U", superuser, "-A", "trust", "-E", "UTF8", "--locale=C"}
	if cfg.Settings["fsync"] == "off" {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, c.bin.initdb(), args...)
	cmd.Dir = making
	cmd.Env = environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as, Setpgid: true} // the terminal's Ctrl-C reaches it through ctx
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	conf, err := os.OpenFile(filepath.Join(making, "postgresql.conf"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(conf, "\ninclude '%s'\n", confName)
	return errors.Join(err, conf.Close())
}

// confName is the file that every start writes anew; the rest of postgresql.conf stays as initdb,
// or a person, wrote it.
const confName = "tidemark.conf"

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
