package catalogue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/test/sqltest"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestEveryStatementPreparesOnTheMigratedSchema(t *testing.T) {
	t.Parallel()
	sqltest.Prepare(t, pgtest.New(t), "")
}

// query returns the value of a query with one row and one column.
func query[T any](t *testing.T, db event.Querier, sql string, args ...any) T {
	t.Helper()
	rows, err := db.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func sameJSON(t *testing.T, a, b json.RawMessage) bool {
	t.Helper()
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	var left, right any
	if err := errors.Join(json.Unmarshal(a, &left), json.Unmarshal(b, &right)); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(left) == fmt.Sprint(right)
}

// exec runs a statement that must succeed.
func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// eventually polls until done returns true.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
