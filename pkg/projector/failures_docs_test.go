package projector_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// The projection of docs/guides/failures.md.

type Invitation struct {
	Player string `json:"player"`
}

func invitations() projection.Projection {
	return projection.Handlers{
		Name: "invitations", Version: 1,
		Tables: `CREATE TABLE invitations (campaign_id text, player text, seen bool NOT NULL DEFAULT false,
			PRIMARY KEY (campaign_id, player))`,
		OnFailure: projection.Policy{Attempts: 20, Max: time.Hour},
		OnFailureOf: map[string]projection.Policy{
			"invitation_seen": {Action: projection.ActionSkip}, // rows are complete without it
		},
		On: []projection.Handler{
			projection.Handle("player_invited", func(_ context.Context, g *projection.Group, e event.Event, i Invitation) error {
				g.Queue(`INSERT INTO invitations (campaign_id, player) VALUES ($1, $2)`, e.CampaignID, i.Player)
				return nil
			}),
			projection.Handle("invitation_seen", func(_ context.Context, _ *projection.Group, _ event.Event, _ Invitation) error {
				return errors.New("not written yet")
			}),
		},
	}
}

func TestThePolicyOnThePageSkipsOneTypeAndKeepsTheOther(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	appendEvents(t, pool, "c",
		event.Event{Type: "player_invited", Payload: []byte(`{"player": "ann"}`)},
		event.Event{Type: "invitation_seen", Payload: []byte(`{"player": "ann"}`)},
		event.Event{Type: "player_invited", Payload: []byte(`{"player": "ann"}`)},
	)
	drain(t, newProjector(t, pool, invitations()))
	expectLog(t, pool, "skipped 2 1, dead 3 1")
}
