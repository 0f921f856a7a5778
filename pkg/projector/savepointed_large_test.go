package projector_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestCulpritsAreFoundInFewCalls counts the calls of handlers: one failed call, and one more for
// everything that can be sent.
func TestCulpritsAreFoundInFewCalls(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	calls := 0
	p := workerOf(t, pool, func(c *projector.Config) { c.Concurrency = 1 },
		listing("", func(_ context.Context, g *projection.Group, e event.Event, m moved) error {
			calls++
			return list(g, e, m)
		}))
	for i := range 30 {
		appendMoves(t, pool, fmt.Sprintf("c%02d", i), 1, 1, []int{1, byError, byServer}[i%3], 1)
	}
	drain(t, p)
	if n := query[int](t, pool, `SELECT count(*) FROM tidemark.failed`); n != 20 {
		t.Errorf("%d pairs are behind, want 20", n)
	}
	if calls > 2*120 {
		t.Errorf("handlers were called %d times for 120 events", calls)
	}
	calls = 0
	retry(t, pool, p) // the 10 that are not dead
	if calls > 10 {
		t.Errorf("handlers were called %d times to try 10 pairs again", calls)
	}
}

// TestALargeGroupIsReadAndHandledOnceThoughItIsTheFirstThatFails makes several campaigns of the
// very first group fail at the server. A sequence does not reuse the numbers of rows that were
// rolled back, so it tells how often a row was tried.
func TestALargeGroupIsReadAndHandledOnceThoughItIsTheFirstThatFails(t *testing.T) {
	t.Parallel()
	for _, action := range []projection.Action{projection.ActionRetry, projection.ActionSkip} {
		t.Run(string(action), func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			const campaigns, length, poisonedAt = 16, 50, 10
			handled, read := map[string]int{}, 0
			count := func(table string) func(context.Context, *projection.Group, event.Event, moved) error {
				return func(_ context.Context, g *projection.Group, e event.Event, m moved) error {
					handled[table]++
					g.Queue(`INSERT INTO `+table+` (campaign_id, seq, by) VALUES ($1, $2, $3)`, e.CampaignID, e.Seq, m.By)
					return nil
				}
			}
			healthy := &projection.Handlers{
				Name: "healthy", Version: 1,
				Tables: `CREATE TABLE healthy (campaign_id text, seq bigint, n bigint GENERATED ALWAYS AS IDENTITY, by int,
					PRIMARY KEY (campaign_id, seq))`,
				On: []projection.Handler{
					projection.Handle("moved", count("healthy")),
				},
			}
			p := workerOf(t, pool, func(c *projector.Config) {
				c.Concurrency, c.ClaimCampaigns = 1, 4*campaigns
				c.OnStep = func(s kind.Step) {
					if s == kind.StepRead {
						read++
					}
				}
			}, healthy, listing(action, count("listed")))
			for i := range campaigns {
				amounts := slices.Repeat([]int{1}, length)
				if i%3 == 1 {
					amounts[poisonedAt-1] = byServer
				}
				appendMoves(t, pool, fmt.Sprintf("c%02d", i), amounts...)
			}
			drain(t, p)
			const total, poisoned = campaigns * length, 5
			applied, behind := total-poisoned*(length-poisonedAt+1), poisoned
			if action == projection.ActionSkip {
				applied, behind = total-poisoned, 0
			}
			if read != 1 || handled["healthy"] != total || handled["listed"] != total {
				t.Errorf("read %d times, handled %v times, want once and %d times", read, handled, total)
			}
			expectText(t, pool, "the other projection, and how often it was tried", fmt.Sprint(total, " ", total),
				`SELECT count(*) || ' ' ||
				pg_sequence_last_value('healthy_n_seq') FROM healthy`)
			expectText(t, pool, "applied", fmt.Sprint(applied), `SELECT count(*)::text FROM listed`)
			expectText(t, pool, "out of order", "0", `SELECT count(*)::text
				FROM (SELECT n < lag(n) OVER (PARTITION BY campaign_id ORDER BY seq) AS late FROM listed) l WHERE late`)
			expectText(t, pool, "behind", fmt.Sprint(behind), `SELECT count(*)::text FROM tidemark.failed WHERE next_seq = 10`)
			expectText(t, pool, "failures", fmt.Sprint(poisoned), `SELECT count(*)::text FROM tidemark.failure_log`)
			expectText(t, pool, "hot queue", "0", `SELECT count(*)::text FROM tidemark.outbox`)
			if n := query[int](t, pool, `SELECT pg_sequence_last_value('listed_n_seq')`); n > 2*total {
				t.Errorf("statements of the failing projection were tried %d times, for %d events", n, total)
			}
		})
	}
}
