package lease_test

import (
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestPlacesSayWhereEachGroupStandsInACampaign(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `
		INSERT INTO tidemark.consumer_groups (name) VALUES ('back'), ('held'), ('late'), ('never'), ('paused');
		INSERT INTO tidemark.workers (owner, consumer_group, host, pid, started_at, seen_at, campaigns_held, events_applied)
		VALUES ('w', 'held', 'box', 7, now(), now(), 1, 0);
		INSERT INTO tidemark.leases (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
		VALUES ('held', 'oak', 'w', 3, now() + interval '1 hour', 4), ('back', 'oak', 'v', 2, '-infinity', 5),
			('late', 'oak', 'v', 1, now() - interval '1 hour', 6),
			('paused', 'oak', 'paused', 9, 'infinity', 7), ('held', 'elm', 'w', 1, now() + interval '1 hour', 1)`); err != nil {
		t.Fatal(err)
	}
	places, err := lease.Places(t.Context(), pool, "oak")
	if err != nil {
		t.Fatal(err)
	}
	if len(places) != 4 {
		t.Fatalf("got %+v, want four groups", places)
	}
	back, held, late, paused := places[0], places[1], places[2], places[3]
	if back.Group != "back" || back.Held || back.ExpiresAt != nil || back.Checkpoint != 5 {
		t.Errorf("got %+v of a lease that was given back", back)
	}
	if !held.Held || held.ExpiresAt == nil || held.Host != "box" || held.PID != 7 || held.Generation != 3 {
		t.Errorf("got %+v of a lease that is held", held)
	}
	if late.Held || late.ExpiresAt == nil || time.Since(*late.ExpiresAt) < time.Minute {
		t.Errorf("got %+v of a lease that has expired", late)
	}
	if !paused.Held || paused.ExpiresAt != nil {
		t.Errorf("got %+v of a lease without an end", paused)
	}
}
