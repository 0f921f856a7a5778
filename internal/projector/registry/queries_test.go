package registry

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/test/sqltest"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestEveryStatementPrepares(t *testing.T) {
	t.Parallel()
	sqltest.Prepare(t, pgtest.New(t), "", "withUsers")
}

// TestStatementsAboutOwnersAreNotCompiled lowers the cost from which the server compiles, since this one has
// few roles. With a dozen, a statement that took a millisecond was compiled for a hundred.
func TestStatementsAboutOwnersAreNotCompiled(t *testing.T) {
	t.Parallel()
	conn, err := pgtest.New(t).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), "SELECT set_config('jit', 'on', false), set_config('jit_above_cost', '5000', false)"); err != nil {
		t.Fatal(err)
	}
	for name, statement := range map[string]struct {
		sql  string
		args []any
	}{
		"of tables":   {queryForeign, []any{"tidemark", []string{"journal", "missing"}, false}},
		"of a schema": {queryForeignSchema, []any{"tidemark"}},
		"of public":   {queryForeignSchema, []any{"public"}},
	} {
		var plan string
		args := append([]any{pgx.QueryExecModeExec}, statement.args...)
		if err := conn.QueryRow(t.Context(), "EXPLAIN (FORMAT JSON) "+statement.sql, args...).Scan(&plan); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(plan, `"JIT"`) {
			t.Errorf("the statement %s is compiled:\n%s", name, plan)
		}
	}
}
