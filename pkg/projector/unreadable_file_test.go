package projector_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/unreadable"
)

// TestAnUnreadableEventHoldsUpItsCampaignOfAnSQLFileAlone lets SQL files apply events that
// tidemark.append would have refused. It does so in a function, which need not print what it reads,
// and statement by statement.
func TestAnUnreadableEventHoldsUpItsCampaignOfAnSQLFileAlone(t *testing.T) {
	t.Parallel()
	for kind := range unreadable.Kinds() {
		for how, noFunctions := range map[string]bool{"by a function": false, "by statements": true} {
			if kind == unreadable.Unprintable && noFunctions {
				continue // each attempt to print it takes seconds, and the damaged event fails in the same place
			}
			t.Run(kind+" "+how, func(t *testing.T) {
				t.Parallel()
				pool := pgtest.New(t)
				log := &lockedBuffer{}
				p := workerOf(t, pool, func(c *projector.Config) {
					c.NoFunctions, c.Logger = noFunctions, slog.New(slog.NewTextHandler(log, nil))
				}, trails(t, 1, true)[1], counters())
				if !noFunctions {
					p = workerOf(t, pool, func(c *projector.Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) },
						trails(t, 1, true)[1])
				}
				if err := p.Register(t.Context()); err != nil {
					t.Fatal(err)
				}
				appendMoves(t, pool, "bad", 1)
				unreadable.Write(t, pool, "bad", "moved", kind)
				for _, campaign := range []string{"a", "b", "z"} {
					appendMoves(t, pool, campaign, 1, 2)
				}
				drain(t, p)
				expectText(t, pool, "others", "a2 b2 z2", `SELECT string_agg(campaign_id || n, ' ' ORDER BY campaign_id)
					FROM (SELECT campaign_id, count(*) AS n FROM trail_file WHERE campaign_id <> 'bad' GROUP BY 1) AS t`)
				expectText(t, pool, "pairs of others", "", `SELECT string_agg(concat_ws(' ', campaign_id, next_seq, status), ', ')
					FROM tidemark.failed WHERE campaign_id <> 'bad' OR next_seq <> 2`)
				expectText(t, pool, "work items", "0", `SELECT count(*)::text FROM tidemark.outbox`)
				if text := log.String(); strings.Contains(text, "breaker open") {
					t.Errorf("the breaker has opened: %.2000s", text)
				}
			})
		}
	}
}
