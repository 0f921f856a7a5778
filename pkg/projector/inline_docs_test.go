package projector_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func openInline(
	ctx context.Context, pool *pgxpool.Pool, projections ...projection.Projection,
) (*projector.Projector, error) {
	p, err := projector.New(projector.Config{Pool: pool, Projections: projections, Mode: projection.ModeInlineApplyOnly})
	if err != nil {
		return nil, err
	}
	return p, p.Register(ctx) // once, before the first append
}

func appendAndApply(
	ctx context.Context, tx pgx.Tx, p *projector.Projector, campaign string, events ...event.Event,
) error {
	appended, err := journal.Journal{}.Append(ctx, tx, campaign, journal.Any, events...)
	if err != nil {
		return err
	}
	return p.ApplyInline(ctx, tx, appended...)
}

// TestInlineAsInTheDocs runs the code of docs/guides/modes.md.
func TestInlineAsInTheDocs(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	p, err := openInline(t.Context(), pool, ledger())
	if err != nil {
		t.Fatal(err)
	}
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return appendAndApply(t.Context(), tx, p, "c", moveEvents(1, 2)...)
	}); err != nil {
		t.Fatal(err)
	}
	expectCounts(t, pool, map[string]int{`SELECT count(*) FROM ledger`: 2, `SELECT count(*) FROM tidemark.outbox`: 0})
}
