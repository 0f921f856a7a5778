package roles_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	scripts "github.com/tidemark-go/tidemark/migrations/roles"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// With `tidemark migrate roles --advisory-locks`, other logins cannot block appends and workers, and all of
// Tidemark still works.
func TestAdvisoryLocksAreForTidemarkAlone(t *testing.T) {
	t.Parallel()
	in := install(t, false)
	in.script(t, scripts.Options{AdvisoryLocks: true})
	appender := in.as(t, "appender")
	refuses(t, in.as(t, "reader"), "SELECT pg_advisory_lock(1)", "SELECT pg_try_advisory_xact_lock(1)",
		"SELECT pg_advisory_xact_lock_shared(1)")
	refuses(t, appender, "SELECT pg_advisory_lock(1)", "SELECT pg_advisory_xact_lock(1)")
	must(t, pgx.BeginFunc(t.Context(), appender, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(t.Context(), tx, "c", journal.Any, newEvent("ann"))
		return err
	}))
	n, err := worker(t, in.as(t, "worker"), 1).Drain(t.Context())
	must(t, err)
	if n == 0 {
		t.Error("nothing was applied")
	}
}
