package main

import (
	"bytes"
	"testing"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestRemoveLeavesNothingButTheEvents(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	r := newTestRepository(t)
	furnish(r)
	requireSame(t, pool, r, 1)
	events := countEvents(t, pool)
	if _, err := pool.Exec(t.Context(), `SELECT tidemark.append('other',
		'[{"type": "grew"}]')`); err != nil { // work for the group
		t.Fatal(err)
	}
	for range 2 { // the second time finds nothing to remove
		if err := remove(t.Context(), pool, &bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
		for _, table := range []string{"projections", "consumer_groups", "outbox", "leases", "failed"} {
			if n := query[int](t, pool, "SELECT count(*) FROM tidemark."+table); n > 0 {
				t.Errorf("%d rows of %s are left", n, table)
			}
		}
		if query[bool](t, pool, "SELECT to_regclass('git_tree') IS NOT NULL") {
			t.Error("the table is left")
		}
	}
	if n := countEvents(t, pool); n != events+1 {
		t.Errorf("there are %d events, want %d", n, events+1)
	}
	requireSame(t, pool, r, 1)
}
