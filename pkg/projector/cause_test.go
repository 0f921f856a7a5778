package projector_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestAHandlersContextNamesItsEventAsTheCause(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	handlers := &projection.Handlers{
		Name: "causes", Version: 1, Tables: "CREATE TABLE causes (campaign_id text, own text, cause text)",
		On: []projection.Handler{
			projection.Handle("noted", func(ctx context.Context, g *projection.Group, e event.Event, _ struct{}) error {
				g.Queue("INSERT INTO causes VALUES ($1, $2, $3)", e.CampaignID, e.Identity(),
					feed.CauseFields(ctx, new(event.Event))["causation_id"])
				return nil
			}),
		},
	}
	p, err := projector.New(projector.Config{Pool: pool, Projections: []projection.Projection{handlers}})
	if err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(t.Context(), tx, "a", journal.Any,
			event.Event{Type: "noted"}, event.Event{Type: "noted"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	var same int
	err = pool.QueryRow(t.Context(), "SELECT count(*) FROM tidemark_views.causes WHERE own = cause").Scan(&same)
	if err != nil || same != 2 {
		t.Errorf("%d of 2 handlers know their event as the cause, %v", same, err)
	}
}
