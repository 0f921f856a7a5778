package admin_test

import (
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/admin"
)

// A worker without publishers prunes the operator log like one with publishers.
func TestEveryWorkerPrunesTheRecordOfActs(t *testing.T) {
	t.Parallel()
	pool, _ := database(t, 0)
	if _, err := pool.Exec(t.Context(), `INSERT INTO tidemark.operator_log (actor, act, at)
		SELECT 'ada', 'pause', now() - n * interval '1 hour' FROM generate_series(3000, 1, -1) AS n`); err != nil {
		t.Fatal(err)
	}
	if _, err := runner(t, pool, func(c *admin.RunnerConfig) {
		c.LogRetention = 48 * time.Hour
	}).Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := scan[int](t, pool, `SELECT count(*) FROM tidemark.operator_log`); n != 47 {
		t.Errorf("%d records are left, want those of 47 hours", n)
	}
}
