package tidemarktest

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/session"
	"github.com/tidemark-go/tidemark/internal/testdb"
)

// maxConns limits a test's pool, because many tests share one server. It is enough for a projector.
const maxConns = 8

// New returns a pool on a migrated database of the test's own. The pool is closed and the database dropped at the
// end of the test: end before it what uses them. A test without a server fails. New takes some 0.1 s, and for the
// first test a few seconds.
func New(t testing.TB) *pgxpool.Pool {
	t.Helper()
	kind := testdb.Kind{}
	cfg, err := pgxpool.ParseConfig(kind.Database(t, kind.Migrated))
	if err != nil {
		t.Fatalf("open the test's pool: %v", err)
	}
	cfg.MaxConns = maxConns
	session.Encoding(cfg.ConnConfig)
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatalf("open the test's pool: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Main runs a package's tests and keeps the private server running between them, which saves a second for each
// test that runs alone. It ends the process:
//
//	func TestMain(m *testing.M) { tidemarktest.Main(m) }
func Main(m *testing.M) {
	ctx, cancel := context.WithTimeout(context.Background(), testdb.SetupTimeout)
	_, closeServer, err := testdb.Shared(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	ctx, cancel = context.WithTimeout(context.Background(), testdb.SetupTimeout)
	testdb.Close(ctx)
	cancel()
	if err := closeServer(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}
