package projector_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestRowsThatMemoryShouldNotHoldAreRefused(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	h := &projection.Handlers{
		Name: "inflated", Version: 1,
		Tables: `CREATE TABLE inflated (id uuid, campaign_id text, text text, PRIMARY KEY (campaign_id, id))`,
		On: []projection.Handler{
			projection.Handle("x", func(_ context.Context, g *projection.Group, e event.Event, _ struct{}) error {
				g.Queue(`INSERT INTO inflated VALUES ($1, $2, repeat('x', 12 << 20))`, e.ID, e.CampaignID)
				return nil
			}),
		},
	}
	p, err := projector.New(projector.Config{Pool: pool, Projections: []projection.Projection{h}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `SELECT tidemark.append('a',
		'[{"type": "x"}, {"type": "x"}, {"type": "x"}]')`); err != nil {
		t.Fatal(err)
	}
	for seq, want := range map[int64]error{2: nil, 3: lookback.ErrStateTooLarge} {
		if _, err := p.AsOf(t.Context(), "inflated", "a", seq); !errors.Is(err, want) {
			t.Errorf("as of event %d: %v, want %v", seq, err, want)
		}
		if _, err := p.Diff(t.Context(), "inflated", "a", 0, seq); !errors.Is(err, want) {
			t.Errorf("what events 1 to %d changed: %v, want %v", seq, err, want)
		}
	}
}
