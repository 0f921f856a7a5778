package failed_test

import (
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestPruneLeavesItToWhoeverPrunesAlready(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `INSERT INTO tidemark.failure_log (act, consumer_group, at)
		SELECT 'failed', 'g', now() - interval '2 hours' FROM generate_series(1, 3)`); err != nil {
		t.Fatal(err)
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(tidemark.lock_key(32005, 0))`); err != nil {
		t.Fatal(err)
	}
	if n, err := failed.Prune(t.Context(), pool, time.Hour, 2); err != nil || n != 0 {
		t.Errorf("Prune = %d, %v while another prunes, want 0", n, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{2, 1, 0} {
		if n, err := failed.Prune(t.Context(), pool, time.Hour, 2); err != nil || n != want {
			t.Errorf("Prune = %d, %v, want %d", n, err, want)
		}
	}
	if _, err := failed.Prune(t.Context(), pool, 0, 2); err == nil {
		t.Error("an age of zero is accepted: all would go")
	}
}
