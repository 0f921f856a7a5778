package lease_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// stored returns all leases as rows of text.
func stored(t *testing.T, pool *pgxpool.Pool) (rows []string) {
	t.Helper()
	result, err := pool.Query(t.Context(), "SELECT (l.*)::text FROM tidemark.leases l ORDER BY campaign_id")
	if err != nil {
		t.Fatal(err)
	}
	if rows, err = pgx.CollectRows(result, pgx.RowTo[string]); err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestAdvanceMovesACheckpointAndKeepsOrGivesBackTheLease(t *testing.T) {
	t.Parallel()
	pool := withWork(t, "a", "b")
	one := keeper("one")
	claim(t, pool, one, 9)
	exec(t, pool, "UPDATE tidemark.leases SET expires_at = now() + interval '1 minute'")
	if err := advance(t.Context(), pool, one, lease.Step{CampaignID: "b", Generation: 1, To: 2, Release: true},
		lease.Step{CampaignID: "a", Generation: 1, To: 5}); err != nil {
		t.Fatal(err)
	}
	expectHeld(t, pool, one, "a")
	kept := claim(t, pool, keeper("two"), 9)
	expect(t, "what was given back", kept.Leases, "b:2:2")
	if in := time.Until(kept.Retry); in < 50*time.Minute {
		t.Errorf("the lease that was kept expires in %s: it was not prolonged", in)
	}
}

func TestAdvanceChangesNothingUnlessAllLeasesAreHeld(t *testing.T) {
	t.Parallel()
	pool := withWork(t, "a", "b", "c", "d")
	one, two := keeper("one"), keeper("two")
	claim(t, pool, one, 9)
	good := lease.Step{CampaignID: "a", Generation: 1, From: 0, To: 5}
	if err := advance(t.Context(), pool, one, lease.Step{CampaignID: "b", Generation: 1, From: 0, To: 3}); err != nil {
		t.Fatal(err)
	}
	expire(t, pool, "c")
	if err := two.Release(t.Context(), pool, claim(t, pool, two, 9).Leases); err != nil {
		t.Fatal(err)
	}
	expect(t, "c, from its second owner", claim(t, pool, one, 9).Leases, "c:3:0")
	before := stored(t, pool)
	for name, test := range map[string]struct {
		owner lease.Keeper
		bad   lease.Step
	}{
		"another owner's lease":        {two, lease.Step{CampaignID: "d", Generation: 1, From: 0, To: 1}},
		"an earlier generation":        {one, lease.Step{CampaignID: "c", Generation: 1, From: 0, To: 1}},
		"a generation not yet reached": {one, lease.Step{CampaignID: "d", Generation: 2, From: 0, To: 1}},
		"a checkpoint that has moved":  {one, lease.Step{CampaignID: "b", Generation: 1, From: 0, To: 3}},
		"a checkpoint in the future":   {one, lease.Step{CampaignID: "b", Generation: 1, From: 4, To: 5}},
		"a campaign without a lease":   {one, lease.Step{CampaignID: "nobody's", Generation: 1, From: 0, To: 1}},
		"another group": {
			lease.Keeper{Group: "h", Owner: "one", TTL: time.Hour},
			lease.Step{CampaignID: "d", Generation: 1, From: 0, To: 1},
		},
	} {
		for _, steps := range [][]lease.Step{{test.bad}, {good, test.bad}, {test.bad, good}} {
			if err := advance(t.Context(), pool, test.owner, steps...); !errors.Is(err, lease.ErrLost) {
				t.Errorf("%s: got %v", name, err)
			}
		}
	}
	for i, row := range stored(t, pool) {
		if row != before[i] {
			t.Errorf("a refused advance changed %s to %s", before[i], row)
		}
	}
	if err := advance(t.Context(), pool, one, good); err != nil {
		t.Errorf("a lease that is held: %v", err)
	}
	if err := advance(t.Context(), pool, one, good); !errors.Is(err, lease.ErrLost) {
		t.Errorf("the same once more: got %v", err)
	}
}

// A worker that was stopped for longer than its lease can advance if no other worker took over.
func TestAdvanceAllowsAnExpiredLeaseThatNobodyTook(t *testing.T) {
	t.Parallel()
	pool := withWork(t, "a")
	one := keeper("one")
	claim(t, pool, one, 9)
	expire(t, pool, "a")
	if err := advance(t.Context(), pool, one, lease.Step{
		CampaignID: "a", Generation: 1, To: 1,
		Release: true,
	}); err != nil {
		t.Error(err)
	}
}

// An advance waits for a takeover in flight and then fails.
func TestAdvanceLosesToATakeoverInFlight(t *testing.T) {
	t.Parallel()
	pool := withWork(t, "a")
	one, two := keeper("one"), keeper("two")
	claim(t, pool, one, 9)
	expire(t, pool, "a")
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "the takeover", claim(t, tx, two, 9).Leases, "a:2:0")
	lost := make(chan error, 1)
	go func() {
		lost <- advance(t.Context(), pool, one, lease.Step{CampaignID: "a", Generation: 1, To: 1, Release: true})
	}()
	waitFor(t, pool, "the advance waits",
		"SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')")
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-lost; !errors.Is(err, lease.ErrLost) {
		t.Errorf("got %v", err)
	}
	expectHeld(t, pool, two, "a")
}

func fence(t *testing.T, pool *pgxpool.Pool, campaigns ...string) {
	t.Helper()
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return lease.Fence(t.Context(), tx, "g", campaigns)
	}); err != nil {
		t.Fatal(err)
	}
}

func TestFenceTakesCampaignsFromTheirHolder(t *testing.T) {
	t.Parallel()
	pool := withWork(t, "a", "b", "c")
	one, two := keeper("one"), keeper("two")
	leases := claim(t, pool, one, 9).Leases
	fence(t, pool, "b", "a", "b")
	for _, id := range []string{"a", "b"} {
		if err := advance(t.Context(), pool, one, lease.Step{CampaignID: id, Generation: 1, To: 1}); !errors.Is(err,
			lease.ErrLost) {
			t.Errorf("%s was applied under a lease that was taken away: %v", id, err)
		}
	}
	kept, err := one.Renew(t.Context(), pool, leases)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "what can be renewed", kept, "c:1:0")
	expect(t, "what can be claimed", claim(t, pool, two, 9).Leases, "a:3:0 b:3:0")
}

func TestFenceStopsAClaimThatMakesTheLease(t *testing.T) {
	t.Parallel()
	pool := withWork(t, "a")
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Fence(t.Context(), tx, "g", []string{"a"}); err != nil {
		t.Fatal(err)
	}
	claimed := make(chan lease.Claimed, 1)
	go func() {
		c, err := keeper("one").Claim(t.Context(), pool, "", 9, 0)
		if err != nil {
			t.Error(err)
		}
		claimed <- c
	}()
	waitFor(t, pool, "the claim waits",
		"SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')")
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, "a claim that began before", (<-claimed).Leases, "")
	expect(t, "a claim that began after", claim(t, pool, keeper("two"), 9).Leases, "a:2:0")
}

func TestFenceLeavesAPausedCampaignPaused(t *testing.T) {
	t.Parallel()
	pool := withWork(t, "a")
	exec(t, pool, "INSERT INTO tidemark.leases VALUES ('g', 'a', 'paused', 1, 'infinity', 0)")
	fence(t, pool, "a")
	expect(t, "a paused campaign", claim(t, pool, keeper("one"), 9).Leases, "")
}

// waitFor polls a query until it returns true.
func waitFor(t *testing.T, pool *pgxpool.Pool, what, query string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for holds := false; !holds; {
		if err := pool.QueryRow(ctx, query).Scan(&holds); err != nil {
			t.Fatalf("waited in vain: %s: %v", what, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestRenewProlongsOnlyWhatIsHeldAndWaitsForNobody(t *testing.T) {
	t.Parallel()
	pool := withWork(t, "a", "b", "c", "d")
	one, two := keeper("one"), keeper("two")
	leases := claim(t, pool, one, 9).Leases
	exec(t, pool, "UPDATE tidemark.leases SET expires_at = now() + interval '1 minute'")
	if err := one.Release(t.Context(), pool, leases[3:]); err != nil {
		t.Fatal(err)
	}
	expire(t, pool, "c")
	claim(t, pool, two, 1)

	tx, err := pool.Begin(t.Context()) // the owner's own transaction, about to advance
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "UPDATE tidemark.leases SET checkpoint = 1 WHERE campaign_id = 'b'"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	held, err := one.Renew(ctx, pool, leases)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "not what was given back or taken over", held, "a:1:0 b:1:0")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	var prolonged []string
	if err := pool.QueryRow(t.Context(),
		"SELECT array_agg(campaign_id) FROM tidemark.leases WHERE owner = 'one' AND expires_at > now() + interval '50 "+
			"minutes'").Scan(&prolonged); err != nil {
		t.Fatal(err)
	}
	if len(prolonged) != 1 || prolonged[0] != "a" {
		t.Errorf("prolonged are %v, want only a: b was being written", prolonged)
	}
	if kept, err := one.Renew(t.Context(), pool, nil); err != nil || len(kept) > 0 {
		t.Errorf("renewing nothing: got %v, %v", kept, err)
	}
}

func TestWorkersAreListedUntilTheyForgetThemselves(t *testing.T) {
	t.Parallel()
	pool := withWork(t)
	one, two := keeper("one"), keeper("two")
	for _, k := range []lease.Keeper{one, two, one} {
		if _, err := k.Beat(t.Context(), pool, "host", os.Getpid(), 3, 4); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, pool, `INSERT INTO tidemark.workers SELECT 'long gone', 'g', 'host', 1, now() - interval '9 days',
		now() - interval '2 days', 0, 0`)
	workers, err := lease.Workers(t.Context(), pool)
	if err != nil || len(workers) != 3 || workers[1].Owner != "one" || workers[1].CampaignsHeld != 3 ||
		workers[1].EventsApplied != 4 || workers[1].PID != os.Getpid() {
		t.Fatalf("got %+v, %v", workers, err)
	}
	if err := one.Forget(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if workers, err = lease.Workers(t.Context(), pool); err != nil || len(workers) != 1 || workers[0].Owner != "two" {
		t.Errorf("got %+v, %v", workers, err)
	}
}
