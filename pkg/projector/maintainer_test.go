package projector

import (
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestPruningDeletesAllThatIsOldInBatchesAndNothingElse(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	p, err := New(Config{Pool: pool, FailureLogRetention: 10 * 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO tidemark.failure_log (act, consumer_group, at)
		SELECT 'failed', 'g', now() - make_interval(days => CASE WHEN i <= 2500 THEN 11 ELSE 9 END)
			FROM generate_series(1, 2507) i`); err != nil {
		t.Fatal(err)
	}
	if n, err := p.maintainer.Prune(t.Context()); err != nil || n != 2500 {
		t.Fatalf("prune = %d, %v, want 2500", n, err)
	}
	if n, err := p.maintainer.Prune(t.Context()); err != nil || n != 0 {
		t.Fatalf("prune = %d, %v, want nothing more", n, err)
	}
	var left int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM tidemark.failure_log`).Scan(&left); err != nil ||
		left != 7 {
		t.Errorf("%d rows are left (%v), want the 7 that are not old", left, err)
	}
}
