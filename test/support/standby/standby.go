// Package standby starts a primary with a standby that follows it.
package standby

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// socket is the standby's port number. The standby listens on a socket in its own folder, so
// no free port is needed.
const socket = 5432

// Pair is a primary with a standby that has everything the primary has acknowledged.
type Pair struct {
	Primary *devpg.Server
	dir     string // folder of the standby's socket
}

// New starts both servers, with the schema, until the test ends.
func New(t *testing.T) *Pair {
	t.Helper()
	p := &Pair{Primary: pgtest.Server(t)}
	if err := migrations.Up(t.Context(), p.Primary.URL()); err != nil {
		t.Fatal(err)
	}
	pool := tally.Pool(t, p.Primary.URL(), "test", 2)
	data := tally.Value[string](t, pool, `SHOW data_directory`)
	bin := tally.Value[string](t, pool, `SELECT setting FROM pg_config() WHERE name = 'BINDIR'`)
	port := tally.Value[string](t, pool, `SHOW port`)
	user := ownerOf(t, data)

	// Beside the primary's folder, which the server's user can reach even where it cannot reach the
	// test's folders.
	p.dir = filepath.Join(filepath.Dir(data), "standby")
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if user != nil {
		if err := os.Chown(p.dir, int(user.Uid), int(user.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	copied := filepath.Join(p.dir, "pg")
	backup := exec.CommandContext(t.Context(), filepath.Join(bin, "pg_basebackup"), "-h", "127.0.0.1", "-p", port, "-U",
		"postgres", "-D", copied, "-R", "-X", "stream", "-c", "fast", "--no-sync")
	backup.Dir, backup.SysProcAttr = p.dir, &syscall.SysProcAttr{Credential: user}
	if out, err := backup.CombinedOutput(); err != nil {
		t.Fatalf("copy the primary: %v: %s", err, out)
	}
	p.start(t, exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(bin, "postgres"), "-D", copied, "-p",
		fmt.Sprint(socket),
		"-c", "listen_addresses=", "-c", "unix_socket_directories="+p.dir), user)

	// From here on the primary acknowledges only commits that the standby has.
	set(t, pool, "synchronous_standby_names", "*")
	tally.Eventually(t, "the standby has what the primary acknowledges", tally.Holds(pool, `SELECT count(*) = 1 FROM
		pg_stat_replication WHERE state = 'streaming' AND sync_state = 'sync'`))
	return p
}

// start runs the standby's server until the test ends.
func (p *Pair) start(t *testing.T, server *exec.Cmd, user *syscall.Credential) {
	t.Helper()
	var log strings.Builder
	server.Dir, server.SysProcAttr = p.dir, &syscall.SysProcAttr{Credential: user}
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Process.Signal(syscall.SIGQUIT); err != nil {
			t.Errorf("stop the standby: %v", err)
		}
		_ = server.Wait() // the signal makes it exit with an error
		if t.Failed() {
			t.Logf("the standby's log:\n%s", log.String())
		}
	})
	pool := tally.Pool(t, p.StandbyURL(), "test", 1)
	tally.Eventually(t, "the standby answers", tally.Holds(pool, `SELECT pg_is_in_recovery()`))
}

// StandbyURL returns the connection string of the standby.
func (p *Pair) StandbyURL() string {
	return fmt.Sprintf("postgres://postgres@/%s?host=%s&port=%d&sslmode=disable", devpg.Database, p.dir, socket)
}

// BothURL returns a connection string for both servers that selects the writable one.
func (p *Pair) BothURL(t *testing.T) string {
	t.Helper()
	cfg := tally.Pool(t, p.Primary.URL(), "test", 1).Config().ConnConfig
	return fmt.Sprintf("host=%s,%s port=%d,%d user=postgres dbname=%s sslmode=disable target_session_attrs=read-write",
		cfg.Host, p.dir, cfg.Port, socket, devpg.Database)
}

// set changes a setting of a server.
func set(t *testing.T, pool *pgxpool.Pool, name, value string) {
	t.Helper()
	tally.Exec(t, pool, fmt.Sprintf(`ALTER SYSTEM SET %s = '%s'`, name, value))
	tally.Exec(t, pool, `SELECT pg_reload_conf()`)
}

// Forsake makes the primary acknowledge commits that the standby does not have and never gets.
func (p *Pair) Forsake(t *testing.T) {
	t.Helper()
	primary := tally.Pool(t, p.Primary.URL(), "test", 1)
	set(t, primary, "synchronous_standby_names", "")
	tally.Eventually(t, "the primary waits for no standby",
		tally.Holds(primary, `SELECT current_setting('synchronous_standby_names') = ''`))
	set(t, tally.Pool(t, p.StandbyURL(), "test", 1), "primary_conninfo", "")
	tally.Eventually(t, "the standby is alone", tally.Holds(primary, `SELECT count(*) = 0 FROM pg_stat_replication`))
}

// Promote makes the standby the primary.
func (p *Pair) Promote(t *testing.T) {
	t.Helper()
	pool := tally.Pool(t, p.StandbyURL(), "test", 1)
	tally.Exec(t, pool, `SELECT pg_promote(false)`)
	tally.Eventually(t, "the standby is the primary", tally.Holds(pool, `SELECT NOT pg_is_in_recovery()`))
}

// ownerOf returns the user that a server with that folder runs as; nil: the test's own user.
func ownerOf(t *testing.T, data string) *syscall.Credential {
	t.Helper()
	info, err := os.Stat(data)
	if err != nil {
		t.Fatal(err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatalf("the owner of %s is unknown", data)
	}
	if int(owner.Uid) == os.Geteuid() {
		return nil
	}
	return &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
}
