package command

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/session"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestCountsAreReadWithoutJIT(t *testing.T) {
	t.Parallel()
	cfg := pgtest.New(t).Config()
	cfg.ConnConfig.RuntimeParams["jit"] = "on"
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	setting := func(row pgx.Row) (jit string) {
		t.Helper()
		if err := row.Scan(&jit); err != nil {
			t.Fatal(err)
		}
		return jit
	}
	err = session.WithoutJIT(t.Context(), pool, func(tx pgx.Tx) error {
		if jit := setting(tx.QueryRow(t.Context(), "SHOW jit")); jit != "off" {
			t.Errorf("jit is %s", jit)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if jit := setting(pool.QueryRow(t.Context(), "SHOW jit")); jit != "on" {
		t.Errorf("jit is %s afterwards", jit)
	}
}
