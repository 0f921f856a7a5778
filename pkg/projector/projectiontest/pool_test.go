package projectiontest_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projector/projectiontest"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// Callers close their pool with defer, which runs before the cleanups of the test.
func TestTheCallerMayCloseThePoolAsSoonAsRunReturns(t *testing.T) {
	t.Parallel()
	admin := pgtest.New(t)
	role := "projectiontest_" + strings.ToLower(rand.Text()[:12])
	if _, err := admin.Exec(t.Context(), "CREATE ROLE "+role+" CREATEDB"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(context.WithoutCancel(t.Context()), "DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	address := pgtest.With(admin.Config().ConnString(), "role", role) // the role owns the databases that Run creates
	for name, run := range map[string]func(*testing.T, *pgxpool.Pool, []event.Event){
		"one after another": func(t *testing.T, pool *pgxpool.Pool, events []event.Event) {
			projectiontest.Run(t, pool, seatDocuments(), events)
			projectiontest.Run(t, pool, seatHandlers(), events)
		},
		"in subtests": func(t *testing.T, pool *pgxpool.Pool, events []event.Event) {
			t.Run("documents", func(t *testing.T) { projectiontest.Run(t, pool, seatDocuments(), events) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			pool, err := pgxpool.New(t.Context(), pgtest.UTF8(address))
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			run(t, pool, seatEvents())
		})
	}
	const count = `SELECT count(*) FROM pg_database WHERE pg_get_userbyid(datdba) = $1`
	var left int
	if err := admin.QueryRow(t.Context(), count, role).Scan(&left); err != nil || left > 0 {
		t.Errorf("%d databases are left (%v)", left, err)
	}
}
