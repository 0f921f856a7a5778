package roles_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// confirmed is a request of an operator who has typed a word.
func confirmed(word string) admin.Request {
	r := admin.By("anna", "a test")
	r.Confirm = word
	return r
}

// rollBack has an operator ask for a rollback, and a worker do it.
func rollBack(t *testing.T, operator, worker *pgxpool.Pool, projection string) {
	t.Helper()
	_, err := admin.On(operator).Rollback(t.Context(), confirmed(projection), projection, projector.RollbackOptions{})
	must(t, err)
	operations(t, operator, worker)
}

// operations has a worker do what operators have started.
func operations(t *testing.T, operator, worker *pgxpool.Pool) {
	t.Helper()
	runner, err := admin.NewRunner(admin.RunnerConfig{Pool: worker, Owner: "the test's worker"})
	must(t, err)
	for worked := true; worked; {
		worked, err = runner.Step(t.Context())
		must(t, err)
	}
	left, err := admin.On(operator).Operations(t.Context(), admin.OperationFilter{})
	must(t, err)
	for _, o := range left {
		if o.State != "done" {
			t.Errorf("operation %d, %s, is %s: %s", o.ID, o.Kind, o.State, o.Error)
		}
	}
}
