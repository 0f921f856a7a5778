package publications_test

import (
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestOldRecordsOfOperatorsGoInBoundedBatches(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `INSERT INTO tidemark.operator_log (at, actor, act)
		SELECT now() - n * interval '1 hour', 'anna', 'act ' || n FROM generate_series(30, 1, -1) n`); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{4, 2, 0} { // of those older than a day
		if n, err := publications.PruneLog(t.Context(), pool, 24*time.Hour+30*time.Minute, 4); n != want || err != nil {
			t.Errorf("%d records are gone, %v; want %d", n, err, want)
		}
		if want == 4 {
			if oldest := query[string](t, pool, `SELECT act FROM tidemark.operator_log ORDER BY at
				LIMIT 1`); oldest != "act 26" {
				t.Errorf("the oldest that is left is %s", oldest)
			}
		}
	}
	if n := query[int](t, pool, `SELECT count(*) FROM tidemark.operator_log`); n != 24 {
		t.Errorf("%d records are left", n)
	}
	for _, bad := range []struct {
		age   time.Duration
		limit int
	}{{0, 1}, {time.Hour, 0}} {
		if _, err := publications.PruneLog(t.Context(), pool, bad.age, bad.limit); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}
