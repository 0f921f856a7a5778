package doctor_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/doctor"
	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// The doctor names an open append and the statement that ends it, for idle sessions and prepared
// transactions.
func TestTheAppendThatHoldsTheFloorIsNamed(t *testing.T) {
	t.Parallel()
	url := pgtest.Server(t).URL()
	if err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), pgtest.UTF8(pgtest.With(url, "application_name", "shop")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	look := func() string {
		findings, err := doctor.Run(t.Context(), pool, doctor.Options{Mode: "worker"})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			if f.Check == "writer-floor" {
				return f.Detail
			}
		}
		return ""
	}
	for _, sql := range []string{"BEGIN", `SELECT FROM tidemark.append('c', '[{"type": "noted"}]')`} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if detail := look(); !strings.Contains(detail, "of shop, idle in transaction") {
		t.Errorf("an idle appender: %s", detail)
	}
	if _, err := conn.Exec(t.Context(), `PREPARE TRANSACTION 'forgotten'`); err != nil {
		t.Fatal(err)
	}
	if detail := look(); !strings.Contains(detail, "prepared transaction 'forgotten'") {
		t.Errorf("a prepared append: %s", detail)
	}
	if _, err := conn.Exec(t.Context(), `ROLLBACK PREPARED 'forgotten'`); err != nil {
		t.Fatal(err)
	}
	if detail := look(); detail != "no append is open" {
		t.Errorf("afterwards: %s", detail)
	}
}
