package failover_test

import (
	"context"
	"fmt"
	"net/url"
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
	"github.com/tidemark-go/tidemark/test/support/standby"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// loss is a way in which a database loses commits.
type loss struct {
	url    string
	forget func(t *testing.T) // what commits from here on is lost
	lose   func(t *testing.T) // and now it is
	kept   bool               // nothing is lost
	same   bool               // no history begins
}

// losses are all ways.
var losses = map[string]func(t *testing.T) *loss{ //nolint:gochecknoglobals // never written
	"a promotion":                    promotion,
	"a crash without its last WAL":   crash,
	"a base backup that is put back": baseBackup,
	"a cold copy that is put back":   coldCopy,
	"a dump that is restored":        dump,
	"a template that is put back":    template,
	"a restart":                      restart,
}

func promotion(t *testing.T) *loss {
	t.Helper()
	p := standby.New(t)
	return &loss{url: p.BothURL(t), forget: p.Forsake, lose: func(t *testing.T) {
		t.Helper()
		if err := p.Primary.Stop(t.Context(), devpg.Immediate); err != nil {
			t.Fatal(err)
		}
		p.Promote(t)
	}}
}

// server is a server of the test's own.
type server struct {
	*devpg.Server
	data, bin string
	aside     string // a folder that belongs to the owner of data, on the same disk
	owner     *syscall.Credential
}

func newServer(t *testing.T, settings ...string) *server {
	t.Helper()
	s := &server{Server: pgtest.Server(t)}
	if err := migrations.Up(t.Context(), s.URL()); err != nil {
		t.Fatal(err)
	}
	pool := tally.Pool(t, s.URL(), "test", 1)
	for _, setting := range settings {
		tally.Exec(t, pool, "ALTER SYSTEM SET "+setting)
	}
	tally.Exec(t, pool, "SELECT pg_reload_conf()")
	s.data = tally.Value[string](t, pool, `SHOW data_directory`)
	s.bin = tally.Value[string](t, pool, `SELECT setting FROM pg_config() WHERE name = 'BINDIR'`)
	info, err := os.Stat(s.data)
	if err != nil {
		t.Fatal(err)
	}
	s.aside = s.data + ".aside"
	if err := os.Mkdir(s.aside, 0o700); err != nil {
		t.Fatal(err)
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Geteuid() {
		s.owner = &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
		if err := os.Chown(s.aside, int(owner.Uid), int(owner.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *server) stop(t *testing.T) {
	t.Helper()
	if err := s.Stop(t.Context(), devpg.Fast); err != nil {
		t.Fatal(err)
	}
}

func (s *server) start(t *testing.T) {
	t.Helper()
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// run runs a program, with the rights of the owner of the server's folder.
func (s *server) run(t *testing.T, program string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, args...)
	command.Dir, command.SysProcAttr = s.aside, &syscall.SysProcAttr{Credential: s.owner}
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", program, err, out)
	}
}

// swap puts another data folder in the place of the server's.
func (s *server) swap(t *testing.T, with string) {
	t.Helper()
	s.stop(t)
	if err := os.Rename(s.data, s.data+".lost"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(with, s.data); err != nil {
		t.Fatal(err)
	}
	s.start(t)
}

// crash keeps the WAL of asynchronous commits in memory, which a crash of a process forgets.
func crash(t *testing.T) *loss {
	t.Helper()
	s := newServer(t, "synchronous_commit = off", "bgwriter_lru_maxpages = 0", "autovacuum = off", "wal_buffers = '16MB'")
	s.stop(t)
	s.start(t)
	var writer int
	return &loss{url: s.URL(), forget: func(t *testing.T) {
		t.Helper()
		pool := tally.Pool(t, s.URL(), "test", 1)
		tally.Exec(t, pool, "CHECKPOINT")
		writer = tally.Value[int](t, pool, `SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'`)
		if err := syscall.Kill(writer, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}, lose: func(t *testing.T) {
		t.Helper()
		if err := syscall.Kill(writer, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		// Until the server has noticed, it still answers.
		tally.Eventually(t, "the server has recovered", tally.Holds(tally.Pool(t, s.URL(), "test", 1), fmt.Sprintf(
			`SELECT coalesce(bool_and(pid <> %d), false) FROM pg_stat_activity WHERE backend_type = 'walwriter'`, writer)))
	}}
}

func baseBackup(t *testing.T) *loss {
	t.Helper()
	s := newServer(t)
	address, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(s.aside, "backup")
	return &loss{url: s.URL(), forget: func(t *testing.T) {
		t.Helper()
		s.run(t, filepath.Join(s.bin, "pg_basebackup"), "-h", address.Hostname(), "-p", address.Port(), "-U", "postgres", "-D",
			copied, "-X", "stream", "-c", "fast", "--no-sync")
	}, lose: func(t *testing.T) {
		t.Helper()
		s.swap(t, copied)
	}}
}

func coldCopy(t *testing.T) *loss {
	t.Helper()
	s := newServer(t)
	copied := filepath.Join(s.aside, "copy")
	return &loss{url: s.URL(), same: true, forget: func(t *testing.T) {
		t.Helper()
		s.stop(t)
		s.run(t, "cp", "-a", s.data, copied)
		s.start(t)
	}, lose: func(t *testing.T) {
		t.Helper()
		s.swap(t, copied)
	}}
}

func restart(t *testing.T) *loss {
	t.Helper()
	s := newServer(t)
	return &loss{url: s.URL(), kept: true, same: true, forget: func(*testing.T) {}, lose: func(t *testing.T) {
		t.Helper()
		s.stop(t)
		s.start(t)
	}}
}

// databases are those of a server, which change places.
type databases struct {
	*server
	admin *pgxpool.Pool
}

func newDatabases(t *testing.T) *databases {
	t.Helper()
	s := newServer(t)
	return &databases{s, tally.Pool(t, strings.Replace(s.URL(), "/"+devpg.Database, "/template1", 1), "test", 1)}
}

// close keeps all sessions out of a database.
func (d *databases) close(t *testing.T, name string) {
	t.Helper()
	tally.Exec(t, d.admin, fmt.Sprintf(`ALTER DATABASE %s ALLOW_CONNECTIONS false`, name))
	tally.Eventually(t, "no session is in "+name, func(ctx context.Context) (alone bool, err error) {
		err = d.admin.QueryRow(ctx, `SELECT bool_and(pg_terminate_backend(pid)) IS NULL FROM pg_stat_activity
			WHERE datname = $1`, name).Scan(&alone)
		return alone, err
	})
}

// swap puts the database aside in the place of the one that programs use.
func (d *databases) swap(t *testing.T) {
	t.Helper()
	d.close(t, devpg.Database)
	tally.Exec(t, d.admin, fmt.Sprintf(`ALTER DATABASE %s RENAME TO lost`, devpg.Database))
	tally.Exec(t, d.admin, fmt.Sprintf(`ALTER DATABASE aside RENAME TO %s`, devpg.Database))
}

func template(t *testing.T) *loss {
	t.Helper()
	d := newDatabases(t)
	return &loss{url: d.URL(), forget: func(t *testing.T) {
		t.Helper()
		d.close(t, devpg.Database)
		tally.Exec(t, d.admin, fmt.Sprintf(`CREATE DATABASE aside TEMPLATE %s`, devpg.Database))
		tally.Exec(t, d.admin, fmt.Sprintf(`ALTER DATABASE %s ALLOW_CONNECTIONS true`, devpg.Database))
	}, lose: d.swap}
}

func dump(t *testing.T) *loss {
	t.Helper()
	d := newDatabases(t)
	return &loss{url: d.URL(), forget: func(t *testing.T) {
		t.Helper()
		file := filepath.Join(d.aside, "dump")
		d.run(t, filepath.Join(d.bin, "pg_dump"), "-Fc", "--encoding", "UTF8", "-f", file, d.URL())
		tally.Exec(t, d.admin, `CREATE DATABASE aside TEMPLATE template0`)
		d.run(t, filepath.Join(d.bin, "pg_restore"), "--exit-on-error", "-d",
			strings.Replace(d.URL(), "/"+devpg.Database, "/aside", 1), file)
	}, lose: d.swap}
}
