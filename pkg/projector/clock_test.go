package projector_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	pauses "github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestTimesOfAClockThatHasGoneBack has pairs and pauses whose times an hour's jump back has put ahead.
func TestTimesOfAClockThatHasGoneBack(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for c := range 4 {
		appendMoves(t, pool, fmt.Sprint("c", c), 1, 2, 3)
	}
	fails := projector.Policy{Base: time.Second, Max: 2 * time.Minute, Attempts: 99}
	broken := func(is bool) projector.Projection {
		h := projector.NewHandlers(projector.Spec{
			Name: "log", Version: 1, OnFailure: fails, Tables: `CREATE TABLE log (campaign_id text, seq bigint,
				PRIMARY KEY (campaign_id, seq))`,
		})
		projector.On(h, "moved", func(_ context.Context, g *projector.Group, e journal.Event, _ moved) error {
			if is {
				return errors.New("not now")
			}
			g.Queue(`INSERT INTO log VALUES ($1, $2)`, e.CampaignID, e.Seq)
			return nil
		})
		return h
	}
	drain(t, workerOf(t, pool, nil, broken(true)))
	exec(t, pool, `UPDATE tidemark.deferred SET next_attempt_at = CASE campaign_id
			WHEN 'c2' THEN now() + interval '2 minutes' WHEN 'c3' THEN 'infinity' ELSE now() + interval '1 hour' END,
		status = CASE campaign_id WHEN 'c1' THEN 'rebuilding' WHEN 'c3' THEN 'dead' ELSE 'failed' END`)
	for _, target := range []pauses.Target{{Group: "default", CampaignID: "c0"}, {Group: "default", CampaignID: "c2"}} {
		must := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			return pauses.Set(t.Context(), tx, target, "ada", "a test", time.Second)
		})
		if must != nil {
			t.Fatal(must)
		}
	}
	exec(t, pool, `UPDATE tidemark.pauses SET paused_at = paused_at + interval '1 hour',
		expires_at = expires_at + interval '1 hour' WHERE name = 'c0'`)
	exec(t, pool, `UPDATE tidemark.leases SET expires_at = expires_at + interval '1 hour' WHERE campaign_id = 'c0'`)
	p := workerOf(t, pool, func(c *projector.Config) { c.PollInterval = 50 * time.Millisecond }, broken(false))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	within(t, "what waits for too long is applied", func() bool {
		return query[int](t, pool, `SELECT count(*) FROM log WHERE campaign_id IN ('c0', 'c1')`) == 6
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	expectText(t, pool, "pairs", "c2 failed, c3 dead", `SELECT string_agg(campaign_id || ' ' || status, ', '
		ORDER BY campaign_id) FROM tidemark.deferred`)
	expectText(t, pool, "what waits as it should", "true true",
		`SELECT string_agg((next_attempt_at > now() + interval '30 s')::text, ' ') FROM tidemark.deferred`)
}
