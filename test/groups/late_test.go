package groups_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// TestAConsumerGroupRegisteredWhileWritersAppendMissesNothing keeps transactions open for a while,
// so that some append before a group is registered and commit afterwards. No campaign gets a second
// append, so no later work item hides a missing one.
func TestAConsumerGroupRegisteredWhileWritersAppendMissesNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	writers := tally.Pool(t, pool.Config().ConnString(), "writers", 8)
	load := tally.Load{Pool: writers, Writers: 8, Linger: 30 * time.Millisecond}.Start(t)
	const groups = 10
	for i := range groups {
		before := load.Appended()
		tally.Eventually(t, "appends go on", func(context.Context) (bool, error) { return load.Appended() > before+20, nil })
		if err := outbox.Register(t.Context(), pool, fmt.Sprintf("late%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	load.Stop(t, pool)
	for i := range groups {
		prefix := fmt.Sprintf("late%d_", i)
		p, err := projector.New(projector.Config{
			Pool: pool, ConsumerGroup: fmt.Sprintf("late%d", i),
			Projections: []projection.Projection{tally.Entries(prefix, nil), tally.Tallies(prefix)},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		tally.Verify(t, pool, prefix)
	}
}

func TestAProjectionAddedWhileWorkersRunIsBroughtToTheHead(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	url := pool.Config().ConnString()
	start(t, url, group, tally.Tallies(""))
	load := tally.Load{
		Pool: tally.Pool(t, url, "writers", 4), Writers: 4, Campaigns: 100,
		Pause: 2 * time.Millisecond,
	}.Start(t)
	tally.Eventually(t, "the first worker has applied some", tally.Holds(pool, `SELECT count(*) > 20 FROM tallies`))
	start(t, url, group, tally.Both()...)
	tally.Eventually(t, "the second worker applies the added projection", tally.Holds(pool, `SELECT count(*) > 20 FROM
		entries`))
	before := load.Appended()
	tally.Eventually(t, "appends go on", func(context.Context) (bool, error) { return load.Appended() > before+200, nil })
	load.Stop(t, pool)
	tally.Settle(t, pool, group)
	tally.Verify(t, pool, "")
}
