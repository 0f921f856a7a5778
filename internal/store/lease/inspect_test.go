package lease_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestHeldListsLeasesUntilTheyAreGivenBackOrTakenOver(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	keeper := lease.Keeper{Group: "default", Owner: "one", TTL: time.Hour}
	other := lease.Keeper{Group: "default", Owner: "other", TTL: time.Hour}

	leases := acquire(t, pool, keeper, "a", "b", "c")
	expectHeld(t, pool, keeper, "a", "b", "c")
	expectHeld(t, pool, other)

	if err := keeper.Release(t.Context(), pool, leases[:1]); err != nil {
		t.Fatal(err)
	}
	expectHeld(t, pool, keeper, "b", "c")

	if _, err := pool.Exec(t.Context(), `UPDATE tidemark.leases SET expires_at = now() - interval '1 s'
		WHERE campaign_id = 'b'`); err != nil {
		t.Fatal(err)
	}
	expectHeld(t, pool, keeper, "b", "c")

	acquire(t, pool, other, "b")
	expectHeld(t, pool, keeper, "c")
	expectHeld(t, pool, other, "b")
}

func TestAppliedSumsTheCheckpointsOfOneGroup(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for group, to := range map[string]int64{"default": 5, "reports": 100} {
		keeper := lease.Keeper{Group: group, Owner: "one", TTL: time.Hour}
		var batch pgx.Batch
		var steps []lease.Step
		for _, l := range acquire(t, pool, keeper, "a", "b") {
			steps = append(steps, lease.Step{
				CampaignID: l.CampaignID, Generation: l.Generation, From: l.Checkpoint, To: to,
				Release: true,
			})
		}
		keeper.Advance(&batch, steps)
		if err := pool.SendBatch(t.Context(), &batch).Close(); err != nil {
			t.Fatal(err)
		}
	}
	for group, want := range map[string]int64{"default": 10, "reports": 200, "unknown": 0} {
		got, err := lease.Applied(t.Context(), pool, group)
		if err != nil || got != want {
			t.Errorf("group %s has applied %d events (%v), wanted %d", group, got, err, want)
		}
	}
}

func acquire(t *testing.T, pool *pgxpool.Pool, keeper lease.Keeper, campaigns ...string) []lease.Lease {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT unnest(campaign_ids) AS campaign_id, unnest(generations),
		unnest(checkpoints) FROM tidemark.acquire_leases($1, $2, $3, $3, $4) ORDER BY campaign_id`,
		keeper.Group, keeper.Owner, campaigns, keeper.TTL)
	if err != nil {
		t.Fatal(err)
	}
	leases, err := pgx.CollectRows(rows, pgx.RowToStructByPos[lease.Lease])
	if err != nil {
		t.Fatal(err)
	}
	if len(leases) != len(campaigns) {
		t.Fatalf("%s got the leases %v of the campaigns %v", keeper.Owner, leases, campaigns)
	}
	return leases
}

func expectHeld(t *testing.T, pool *pgxpool.Pool, keeper lease.Keeper, want ...string) {
	t.Helper()
	found, err := pool.Query(t.Context(), `SELECT campaign_id FROM tidemark.leases WHERE consumer_group = $1
		AND owner = $2 AND expires_at > '-infinity' ORDER BY campaign_id`, keeper.Group, keeper.Owner)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s holds %v, wanted %v", keeper.Owner, got, want)
	}
}
