package chaos_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

func TestWorkersRecoverByThemselvesWhenPostgresCrashesUnderLoad(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	if err := migrations.Up(t.Context(), server.URL()); err != nil {
		t.Fatal(err)
	}
	pool := tally.Pool(t, server.URL(), "test", 8)
	failures := tally.WatchFailures(t, pool)
	startWorkers(t, server.URL(), 3)
	load := tally.Load{Pool: pool, Writers: 4, Campaigns: 50, Pause: 5 * time.Millisecond}.Start(t)
	tally.Eventually(t, "the workers apply", tally.Holds(pool, `SELECT count(*) > 10 FROM tallies`))
	for range 3 {
		grows(t, load)
		if err := server.Restart(t.Context(), devpg.Immediate); err != nil {
			t.Fatal(err)
		}
	}
	grows(t, load)
	load.Stop(t, pool)
	tally.Settle(t, pool, group)
	tally.Verify(t, pool, "")
	if n := failures(); n > 0 {
		t.Errorf("%d failures were put down to a projection", n)
	}
}

// grows waits until the load has appended 200 more events.
func grows(t *testing.T, load *tally.Running) {
	t.Helper()
	before := load.Appended()
	tally.Eventually(t, "appends go on", func(context.Context) (bool, error) { return load.Appended() >= before+200, nil })
}
