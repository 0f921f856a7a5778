package publications_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestOldRecordsOfOperatorsGoInBoundedBatches(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `INSERT INTO tidemark.operator_log (at, actor, act)
		SELECT now() - n * interval '1 hour', 'anna', 'act ' || n FROM generate_series(30, 1, -1) n;
		INSERT INTO tidemark.ghosts (topic, publisher, campaign_id, event_id, seq, position, seen_at)
		SELECT 't', 'p', 'c', gen_random_uuid(), n, n, now() - n * interval '1 day' FROM generate_series(29, 40) n`,
		pgx.QueryExecModeSimpleProtocol); err != nil {
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
	if n := query[int](t, pool, `SELECT count(*) FROM tidemark.ghosts`); n != 1 {
		t.Errorf("%d ghosts are left, want that of 29 days ago", n)
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
