package lease_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// lasting returns a keeper with long leases.
func lasting(owner string) lease.Keeper {
	return lease.Keeper{Group: "g", Owner: owner, TTL: 30 * time.Second}
}

// marked lets a process die with campaigns a and b. Its successor holds both, with a mark on a, and
// has its last heartbeat that long ago.
func marked(t *testing.T, seen string) *pgxpool.Pool {
	t.Helper()
	pool := withWork(t, "a", "b")
	dies(t, pool, "one")
	two := mortal("two") // a short lease, or the first death would predate the server's start
	if _, err := two.Beat(t.Context(), pool, "host", 1, 0, 0); err != nil {
		t.Fatal(err)
	}
	leases := claim(t, pool, two, 9).Leases
	expectCrashes(t, "after one death", leases, " a:1 b:1")
	if err := two.Mark(t.Context(), pool, leases[0], "", 0); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, "UPDATE tidemark.leases SET expires_at = clock_timestamp() + interval '30 s'")
	exec(t, pool,
		"UPDATE tidemark.workers SET seen_at = clock_timestamp() - $1::interval, lease_ttl = '30 s' WHERE owner = "+
			"'two'", seen)
	return pool
}

func TestLeasesOfAnOwnerThatFellSilentUnderAMarkAreTakenOver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ seen, sql, want string }{
		"after_a_sixth_of_their_life": {seen: "6 s", want: " a:2!1,/0,1 b:2"},
		"not_before":                  {seen: "4 s"},
		"after_three_seconds_at_least": {seen: "4 s", sql: `UPDATE tidemark.workers SET lease_ttl = '6 s'
			WHERE owner = 'two'`, want: " a:2!1,/0,1 b:2"},
		"not_in_less_than_three_seconds": {seen: "2 s", sql: `UPDATE tidemark.workers SET lease_ttl = '6 s'
			WHERE owner = 'two'`},
		"not_where_the_mark_was_removed":  {seen: "6 s", sql: `UPDATE tidemark.crashes SET marks = '{}'`},
		"not_where_it_stopped_in_order":   {seen: "6 s", sql: `DELETE FROM tidemark.workers WHERE owner = 'two'`},
		"not_where_another_group_marked":  {seen: "6 s", sql: `UPDATE tidemark.crashes SET consumer_group = 'other'`},
		"not_what_another_owner_holds":    {seen: "6 s", sql: `UPDATE tidemark.leases SET owner = 'four'`},
		"not_where_a_clock_has_gone_back": {seen: "-1 hour"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := marked(t, c.seen)
			if c.sql != "" {
				exec(t, pool, c.sql)
			}
			expectCrashes(t, "the next claim", claim(t, pool, lasting("three"), 9).Leases, c.want)
		})
	}
	t.Run("and_those_of_pairs_that_are_behind", func(t *testing.T) {
		t.Parallel()
		pool := marked(t, "6 s")
		exec(t, pool, `DELETE FROM tidemark.outbox`)
		exec(t, pool, `INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state)
			VALUES ('p', 'g', 1, 's', '{}', 'active')`)
		exec(t, pool, `INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status)
			VALUES ('a', 'p', 'g', 1, 'catching_up')`)
		claimed, err := lasting("three").ClaimBehind(t.Context(), pool, []string{"p"}, 9)
		if err != nil {
			t.Fatal(err)
		}
		expectCrashes(t, "the next claim", claimed.Leases, " a:2!1,/0,1")
	})
	t.Run("and_one_that_lives_after_all_meets_the_fence_and_is_not_counted", func(t *testing.T) {
		t.Parallel()
		pool := marked(t, "6 s")
		taken := claim(t, pool, lasting("three"), 9).Leases
		expectCrashes(t, "the next claim", taken, " a:2!1,/0,1 b:2")
		if len(taken) == 0 {
			t.FailNow()
		}
		two := lasting("two")
		old := []lease.Lease{taken[0]}
		old[0].Generation--
		if held, err := two.StillHeld(t.Context(), pool, old); err != nil || len(held) > 0 {
			t.Errorf("it still holds %v, error %v", held, err)
		}
		if _, err := two.Beat(t.Context(), pool, "host", 1, 0, 0); err != nil {
			t.Fatal(err)
		}
		three := lasting("three")
		if err := three.Release(t.Context(), pool, taken); err != nil {
			t.Fatal(err)
		}
		expectCrashes(t, "the claim after it", claim(t, pool, three, 9).Leases, " a:1 b:1")
	})
}
