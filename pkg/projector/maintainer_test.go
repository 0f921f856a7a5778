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

// TestSnapshotsThatHaveOutlivedTheirVersionArePruned has some of each version that a projection may
// have, and of a projection that is not registered.
func TestSnapshotsThatHaveOutlivedTheirVersionArePruned(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	p, err := New(Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO tidemark.projections (name, consumer_group, version, schema_name,
		table_names, state)
		VALUES ('counters', 'default', 5, 'public', '{}', 'active'),
			('counters~previous', 'default', 3, 'x', '{}', 'active'),
			('counters~next', 'default', 7, 'y', '{}', 'active')`); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO tidemark.snapshots (campaign_id, projection, version, seq, shape,
		left_out, table_names, rows, made_at)
		SELECT 'c' || i, v.projection, v.version, i, '', '{}', '{}', '[]', now() - v.age
		FROM (VALUES ('counters', 2, interval '0 days', 2500), ('counters', 3, '30 days', 3), ('counters', 4, '0 days', 3),
			('counters', 5, '30 days', 3), ('counters', 6, '0 days', 3), ('counters', 7, '30 days', 3),
			('counters', 8, '8 days', 3), ('gone', 1, '0 days', 3)) v (projection, version, age, n)
		CROSS JOIN LATERAL generate_series(1, v.n) i`); err != nil {
		t.Fatal(err)
	}
	if n, err := p.maintainer.PruneSnapshots(t.Context()); err != nil || n != 2509 {
		t.Errorf("pruned %d, %v, want 2509", n, err)
	}
	if n, err := p.maintainer.PruneSnapshots(t.Context()); err != nil || n != 0 {
		t.Errorf("pruned %d, %v, want nothing more", n, err)
	}
	var left string
	if err := pool.QueryRow(t.Context(), `SELECT string_agg(DISTINCT projection || ' ' || version, ', ')
		FROM tidemark.snapshots`).Scan(&left); err != nil || left != "counters 3, counters 5, counters 6, counters 7" {
		t.Errorf("left are those of %s (%v)", left, err)
	}
}
