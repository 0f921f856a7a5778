package projector_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// A handler that loops is counted as failed until its event is dead, also if its time limit is longer
// than the lease of its campaign.
func TestAHandlerThatLoopsLongerThanItsLeaseIsCounted(t *testing.T) {
	t.Parallel()
	const ttl, attempts = time.Second, 3
	for name, loop := range map[string]func(ctx context.Context, end <-chan struct{}) error{
		"and obeys its context": func(ctx context.Context, _ <-chan struct{}) error {
			<-ctx.Done()
			return ctx.Err()
		},
		"and ignores its context": func(_ context.Context, end <-chan struct{}) error {
			<-end
			return nil
		},
	} {
		for _, scope := range []projection.Scope{projection.ScopeCampaign, projection.ScopeJournal} {
			for where, timeout := range map[string]time.Duration{"as long as": ttl, "longer than": 3 * ttl} {
				t.Run(string(scope)+" "+name+", "+where+" its lease", func(t *testing.T) {
					t.Parallel()
					pool := pgtest.New(t)
					end := make(chan struct{})
					t.Cleanup(func() { close(end) })
					spec := projection.Handlers{
						Name: "slow", Version: 1, Types: []string{"moved"}, Scope: scope,
						Tables: `CREATE TABLE slow (campaign_id text, seq bigint, PRIMARY KEY (campaign_id, seq))`,
						OnFailure: projection.Policy{
							Timeout: timeout, Base: time.Millisecond, Max: time.Millisecond, Attempts: attempts,
						},
					}
					if scope == projection.ScopeJournal {
						spec.Key = func(e event.Event) (string, error) { return e.CampaignID, nil }
						spec.KeyColumn = "campaign_id"
					}
					var runs atomic.Int32
					h := &spec
					h.On = append(h.On, projection.Handle(event.Type[moved]("moved"),
						func(ctx context.Context, g *projection.Group, e event.Event, m moved) error {
							tx, err := g.Tx(ctx)
							if err != nil {
								return err
							}
							if _, err := tx.Exec(ctx, `INSERT INTO slow VALUES ($1, $2)`, e.CampaignID, e.Seq); err != nil {
								return err
							}
							if m.By == endless {
								runs.Add(1)
								return loop(ctx, end)
							}
							return nil
						}))
					appendMoves(t, pool, "a", 1)
					appendMoves(t, pool, "b", 1, endless, 3)
					appendMoves(t, pool, "c", 1, 2)
					tally.Run(t, projector.Config{
						Pool: pool, Projections: []projection.Projection{h}, LeaseTTL: ttl, PollInterval: 100 * time.Millisecond,
					})
					tally.Eventually(t, "the event is dead", tally.Holds(pool, `SELECT EXISTS (SELECT FROM tidemark.failed
						WHERE status = 'dead' AND campaign_id = 'b' AND error_code = 'deadline')`))
					if n := tally.Value[int](t, pool, `SELECT attempt_count FROM tidemark.failed`); n != attempts {
						t.Errorf("%d attempts are counted, want %d", n, attempts)
					}
					if n := runs.Load(); n > 4*attempts {
						t.Errorf("the handler ran %d times for %d attempts", n, attempts)
					}
					tally.Eventually(t, "the others are applied", tally.Holds(pool,
						`SELECT count(*) = 4 FROM tidemark_views.slow`))
				})
			}
		}
	}
}
