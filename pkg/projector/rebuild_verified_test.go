package projector_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestASampleIsVerifiedBeforeTheExchange writes rows with columns that differ at each write. The
// database knows this of two columns by their defaults, and not of the third: its default is a
// constant.
func TestASampleIsVerifiedBeforeTheExchange(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	var written atomic.Int64
	version := func(version int) projection.Projection {
		return projection.Handlers{
			Name: "counters", Version: version, Tables: `CREATE TABLE counters
			(campaign_id text, seq bigint, nth bigint DEFAULT extract(year FROM timestamp '2020-01-01'),
			at timestamptz DEFAULT clock_timestamp(), id uuid DEFAULT gen_random_uuid())`,
			On: []projection.Handler{
				projection.Handle("moved", func(_ context.Context, g *projection.Group, e event.Event, _ moved) error {
					g.Queue(`INSERT INTO counters VALUES ($1, $2, $3)`, e.CampaignID, e.Seq, written.Add(1))
					return nil
				}),
			},
		}
	}
	appendMoves(t, pool, "a", 1, 2)
	appendMoves(t, pool, "b", 1)
	drain(t, newProjector(t, pool, version(1)))
	two := newProjector(t, pool, version(2))
	drain(t, two)
	const differs = "6 differences between the new tables and what the journal says, in 2 of 2 campaigns or keys that were " +
		"verified: ignore columns that hold the time of the write, or do not verify"
	expectText(t, pool, "refusal", differs, `SELECT coalesce((SELECT refusal FROM tidemark.rebuilds), '')`)
	expectText(t, pool, "version", "1", `SELECT version::text FROM tidemark.projections WHERE name = 'counters'`)
	start(t, pool, rebuild.Options{Ignore: []string{"counters.nth"}})
	drain(t, two)
	expectText(t, pool, "version", "2", `SELECT version::text FROM tidemark.projections WHERE name = 'counters'`)
}
