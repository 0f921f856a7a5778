package pgtest

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/session"
	"github.com/tidemark-go/tidemark/internal/testdb"
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
	return database(t, kind().Migrated)
}

// Empty returns the address of the test's own empty database.
func Empty(t testing.TB) string {
	t.Helper()
	return database(t, testdb.Empty)
}

// database makes a database from a template and drops it at the end of the test.
func database(t testing.TB, template testdb.Template) string {
	t.Helper()
	return kind().Database(t, template)
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
