package pgtest_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// relations counts the tables of that name.
func relations(t *testing.T, pool *pgxpool.Pool, name string) int {
	t.Helper()
	rows, err := pool.Query(t.Context(), "SELECT count(*) FROM pg_class WHERE relname = $1 AND relkind = 'r'", name)
	if err != nil {
		t.Fatal(err)
	}
	count, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
	if err != nil {
		t.Fatal(err)
	}
	return count
}

func TestNewGivesAMigratedDatabaseOfItsOwn(t *testing.T) {
	t.Parallel()
	one, other := pgtest.New(t), pgtest.New(t)
	if _, err := one.Exec(t.Context(), "CREATE TABLE only_here ()"); err != nil {
		t.Fatal(err)
	}
	for _, pool := range []*pgxpool.Pool{one, other} {
		if got := relations(t, pool, "journal"); got != 1 {
			t.Errorf("the database has %d tables named journal, want 1", got)
		}
	}
	if got := relations(t, other, "only_here"); got != 0 {
		t.Error("a table made in one test database is seen in another")
	}
}
