package fencing_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// TestARenewalUnderWayDoesNotCostALease makes the end of a group wait for the renewal of one of its
// leases, as happens when a group takes long.
func TestARenewalUnderWayDoesNotCostALease(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if err := outbox.Register(t.Context(), pool, group); err != nil {
		t.Fatal(err)
	}
	for _, campaign := range campaigns {
		tally.Append(t, pool, string(campaign), 1)
	}
	keeper := lease.Keeper{Group: group, Owner: "me", TTL: time.Minute}
	claimed, err := keeper.Claim(t.Context(), pool, "", len(campaigns), 0)
	if err != nil {
		t.Fatal(err)
	}
	renewal, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keeper.Renew(t.Context(), renewal, claimed.Leases[1:2]); err != nil {
		t.Fatal(err)
	}

	steps := make([]lease.Step, len(claimed.Leases))
	for i, l := range claimed.Leases {
		steps[i] = lease.Step{CampaignID: l.CampaignID, Generation: l.Generation, From: 0, To: 1, Release: true}
	}
	advanced := make(chan error, 1)
	go func() {
		advanced <- pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			batch := &pgx.Batch{}
			keeper.Advance(batch, steps)
			return tx.SendBatch(t.Context(), batch).Close()
		})
	}()
	tally.Eventually(t, "the advance waits for the renewal", tally.Holds(pool, `SELECT EXISTS (
		SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`))
	if err := renewal.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-advanced; err != nil {
		t.Errorf("the advance of leases that are held: %v", err)
	}
	if n := tally.Value[int](t, pool, `SELECT count(*) FROM tidemark.leases WHERE checkpoint = 1
		AND expires_at = '-infinity'`); n != len(campaigns) {
		t.Errorf("%d of %d leases were advanced and given back", n, len(campaigns))
	}
}
