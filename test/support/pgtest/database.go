package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/session"
)

// maxConns limits a test's pool, because many tests share one server.
const maxConns = 8

// New returns a pool on the test's own migrated database, which is all that a user's own pool needs to
// be: its text is UTF8. Both are closed and dropped at the end of the test.
func New(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return open(t, URL(t))
}

// Copy returns a pool on a copy of another test database, for tests that each change the same
// initial data. The other database must have no connections. Pool and copy are closed and dropped
// at the end of the test.
func Copy(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	return open(t, CopyURL(t, url))
}

// CopyURL returns the address of a copy, for tests that open their own pool.
func CopyURL(t testing.TB, url string) string {
	t.Helper()
	return database(t, func(context.Context, *pgx.Conn) (string, error) {
		cfg, err := pgx.ParseConfig(url)
		if err != nil {
			return "", err
		}
		return cfg.Database, nil
	})
}

func open(t testing.TB, url string, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatalf("open the test's pool: %v", err)
	}
	cfg.MaxConns = maxConns
	session.Encoding(cfg.ConnConfig)
	for _, c := range change {
		c(cfg)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatalf("open the test's pool: %v", err)
	}
	t.Cleanup(func() { closePool(t, pool) })
	return pool
}

// URL returns the address of the test's own migrated database, which is dropped at the end of the
// test.
func URL(t testing.TB) string {
	t.Helper()
	return database(t, migrated)
}

// Empty returns the address of the test's own empty database.
func Empty(t testing.TB) string {
	t.Helper()
	return database(t, func(context.Context, *pgx.Conn) (string, error) { return "template0", nil })
}

// database clones the template and drops the clone at the end of the test.
func database(t testing.TB, template func(context.Context, *pgx.Conn) (string, error)) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), setupTimeout)
	defer cancel()
	server, closeServer, err := shared(ctx)
	if err != nil {
		t.Fatalf("no database for this test: %v", err)
	}
	name := testName(time.Now())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), setupTimeout)
		defer cancel()
		if err := errors.Join(drop(ctx, server, name), closeServer()); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	if err := create(ctx, server, name, template); err != nil {
		t.Fatalf("make the test's database: %v", err)
	}
	return withDatabase(server, name)
}

func create(
	ctx context.Context, server, name string, template func(context.Context, *pgx.Conn) (string, error),
) (err error) {
	return admins.use(ctx, server, func(admin *pgx.Conn) error {
		source, err := template(ctx, admin)
		if err != nil {
			return fmt.Errorf("make the template: %w", err)
		}
		if err := clone(ctx, admin, name, source); err != nil {
			return err
		}
		if source == "template0" {
			return set(ctx, admin, name)
		}
		// Tests read and write the tables of projections without naming their schema.
		return set(ctx, admin, name, [2]string{"search_path", readModels + ", public"})
	})
}

// clone copies a database file by file. That is a third of the work of copying through the log, the
// default since Postgres 15.
func clone(ctx context.Context, admin *pgx.Conn, name, source string) error {
	var strategy string
	digits, _, _ := strings.Cut(admin.PgConn().ParameterStatus("server_version"), ".")
	if major, err := strconv.Atoi(digits); err == nil && major >= 15 {
		strategy = " STRATEGY file_copy"
	}
	_, err := admin.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+
		" TEMPLATE "+pgx.Identifier{source}.Sanitize()+" ENCODING 'UTF8'"+strategy)
	return err
}

func drop(ctx context.Context, server, name string) error {
	return admins.use(ctx, server, func(admin *pgx.Conn) error { return dropWith(ctx, admin, name) })
}

func dropWith(ctx context.Context, admin *pgx.Conn, name string) error {
	_, err := admin.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
	return err
}

// withDatabase returns the server's URL with another database.
func withDatabase(server, name string) string {
	u, err := url.Parse(server)
	if err != nil || u.Scheme == "" { // keywords and values, where the last one wins
		return server + " dbname=" + name
	}
	u.Path = "/" + name
	return u.String()
}

// With returns the address with one more parameter: a setting of its sessions, or one of pgx.
func With(address, name, value string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" {
		return address + " " + name + "='" + value + "'"
	}
	query := u.Query()
	query.Set(name, value)
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20") // Postgres knows no plus for a space
	return u.String()
}

// UTF8 returns the address with the encoding that a user's own pool must have.
func UTF8(address string) string { return With(address, "client_encoding", "UTF8") }

// testName returns a unique name that includes the time, for prune.
func testName(now time.Time) string {
	return fmt.Sprintf("%s%d_%s", testPrefix, now.Unix(), strings.ToLower(rand.Text()[:12]))
}

// closeTimeout is how long a pool may take to close after the test.
const closeTimeout = time.Minute

// closePool fails the test if a connection is still in use, instead of waiting for it.
func closePool(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(closeTimeout):
		t.Errorf("the test ended and %d connections of its pool were not given back", pool.Stat().AcquiredConns())
	}
}
