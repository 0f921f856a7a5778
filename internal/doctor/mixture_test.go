package doctor_test

import (
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/doctor"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestWorkersOfAGroupWithDifferentProjectionsAreNamed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		started string
		want    doctor.Status
	}{{"1 minute", doctor.OK}, {"1 hour", doctor.Warn}} {
		pool := pgtest.New(t)
		if _, err := pool.Exec(t.Context(), `INSERT INTO tidemark.workers (owner, consumer_group, host, pid, started_at,
			seen_at, campaigns_held, events_applied, knows)
			VALUES ('1', 'shared', 'one', 1, now() - $1::interval, now(), 0, 0, '{"orders": [1]}'),
				('2', 'shared', 'two', 2, now() - interval '1 hour', now(), 0, 0, '{"orders": [1], "stock": [2]}'),
				('3', 'shared', 'gone', 3, now() - interval '9 hours', now() - interval '2 hours', 0, 0, '{"older": [1]}'),
				('4', 'other', 'four', 4, now() - interval '1 hour', now(), 0, 0, '{"users": [1]}')`, tt.started); err != nil {
			t.Fatal(err)
		}
		findings, err := doctor.Run(t.Context(), pool, doctor.Options{})
		if err != nil {
			t.Fatal(err)
		}
		f := byCheck(t, findings)["programs"]
		if f.Status != tt.want || !strings.Contains(f.Detail,
			"group shared: its workers do not have the same projections: stock is not in one (process 1)") ||
			strings.Contains(f.Detail, "older") || strings.Contains(f.Detail, "users") {
			t.Errorf("started %s ago: %+v", tt.started, f)
		}
	}
}
