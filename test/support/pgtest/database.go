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
)

// maxConns bounds a test's pool: many tests share one server.
const maxConns = 8

// New answers a pool on a migrated database of the test's own. Pool and database go when the test ends.
func New(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return open(t, URL(t))
}

// Copy answers a pool on a copy of another test database, for tests that begin with the same data
// and each change it. The other one must have no connections. Pool and copy go when the test
// ends.
func Copy(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	return open(t, CopyURL(t, url))
}

// CopyURL answers the address of such a copy, for tests that open their own pool.
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

// URL answers the address of a migrated database of the test's own, which goes when the test ends.
func URL(t testing.TB) string {
	t.Helper()
	return database(t, migrated)
}

// Empty answers the address of a database of the test's own with nothing in it.
func Empty(t testing.TB) string {
	t.Helper()
	return database(t, func(context.Context, *pgx.Conn) (string, error) { return "template0", nil })
}

// database clones what template names and drops the clone when the test ends.
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
		if err := clone(ctx, admin, name, source); err != nil || source == "template0" {
			return err
		}
		// Tests read and write tables of projections by their names alone.
		_, err = admin.Exec(ctx, "ALTER DATABASE "+pgx.Identifier{name}.Sanitize()+" SET search_path = "+
			readModels+", public")
		return err
	})
}

// clone copies a database file by file: a third of the work of copying through the log, which is
// what Postgres does by itself since version 15.
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

// withDatabase answers the same server's URL with another database.
func withDatabase(server, name string) string {
	u, err := url.Parse(server)
	if err != nil || u.Scheme == "" { // a keyword/value string, where the last one of a keyword counts
		return server + " dbname=" + name
	}
	u.Path = "/" + name
	return u.String()
}

// With answers the address with one more parameter: a setting of its sessions, or one of pgx's.
func With(address, name, value string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" {
		return address + " " + name + "='" + value + "'"
	}
	query := u.Query()
	query.Set(name, value)
	u.RawQuery = query.Encode()
	return u.String()
}

// testName answers a unique name, with the time from which prune counts.
func testName(now time.Time) string {
	return fmt.Sprintf("%s%d_%s", testPrefix, now.Unix(), strings.ToLower(rand.Text()[:12]))
}

// closeTimeout is how long a pool may take to close once the test is over.
const closeTimeout = time.Minute

// closePool fails the test when a connection is still held, instead of hanging on it.
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
