package crash_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/test/support/tally"
	"github.com/tidemark-go/tidemark/test/support/worker"
)

// rebuildKills returns the number of workers to kill during rebuilds: go test ./test/crash -run
// Rebuild -args -rebuild-kills=100
func rebuildKills() int {
	n, err := strconv.Atoi(flag.Lookup("rebuild-kills").Value.String())
	if err != nil {
		panic(err)
	}
	return n
}

var _ = flag.Int("rebuild-kills", 8, "how many workers are killed while projections are rebuilt")

// TestARebuildSurvivesTheDeathOfItsWorkers kills one worker after another at random moments of
// rebuilds of both projections, while events arrive. Each rebuild survives a few kills before it
// finishes. Then the next one begins.
func TestARebuildSurvivesTheDeathOfItsWorkers(t *testing.T) {
	t.Parallel()
	const campaigns = 60
	pool, url := prepared(t)
	begin := func(name string) *worker.Process {
		cfg := standard(url, name)
		cfg.PollInterval, cfg.GroupEvents, cfg.Claim, cfg.Concurrency = 100*time.Millisecond, 10, 4, 2
		return worker.Start(t, cfg)
	}
	for i := range campaigns {
		tally.Append(t, pool, fmt.Sprint("c", i), 1, 2, 3, 4, 5, 6, 7, 8)
	}
	workers := []*worker.Process{begin("first"), begin("second")}
	tally.Settle(t, pool, group)
	kills, rounds := 0, 0
	for ; kills < rebuildKills(); rounds++ {
		share := 1.0
		for _, name := range []string{"entries", "tallies"} {
			if _, err := rebuild.StartRebuild(t.Context(), pool, name, rebuild.Options{MaxShare: &share},
				failed.Act{By: "ada"}); err != nil {
				t.Fatal(err)
			}
		}
		for kills < rebuildKills() && rebuildComes(t, pool) {
			victim := rand.IntN(len(workers))
			workers[victim].Kill(t)
			kills++
			for range campaigns / 4 {
				tally.Append(t, pool, fmt.Sprint("c", rand.IntN(campaigns)), int64(kills))
			}
			workers[victim] = begin(fmt.Sprint("successor ", kills))
		}
		tally.Eventually(t, "both are rebuilt", tally.Holds(pool, `SELECT count(*) = $1 FROM tidemark.failure_log
			WHERE act = 'rebuilt'`, 2*(rounds+1)))
	}
	tally.Settle(t, pool, group)
	tally.Verify(t, pool, "")
	t.Logf("%d workers were killed in %d rounds of rebuilds", kills, rounds)
	if n := tally.Value[int](t, pool, `SELECT count(*) FROM tidemark.failure_log
		WHERE act IN ('failed', 'dead', 'crashed')`); n > 0 {
		t.Errorf("%d failures are put down to events", n)
	}
}

// TestARebuildAcrossCampaignsSurvivesTheDeathOfItsWorkers kills one worker after another at random
// moments of rebuilds, while events arrive.
func TestARebuildAcrossCampaignsSurvivesTheDeathOfItsWorkers(t *testing.T) {
	t.Parallel()
	const campaigns = 60
	pool, url := prepared(t)
	begin := func(name string) *worker.Process {
		cfg := standard(url, name)
		cfg.PollInterval, cfg.GroupEvents, cfg.Totals, cfg.TalliesOnly = 100*time.Millisecond, 3, true, true
		return worker.Start(t, cfg)
	}
	for i := range campaigns {
		tally.Append(t, pool, fmt.Sprint("c", i), 1, 2, 3, 4, 5, 6, 7, 8)
	}
	workers := []*worker.Process{begin("first"), begin("second")}
	applied := tally.Holds(pool, `SELECT coalesce(bool_and(r.position = j.last_value), false) FROM tidemark.readers r
		CROSS JOIN tidemark.journal_position j WHERE r.topic = 'totals'`)
	tally.Eventually(t, "all is applied", applied)
	kills, rounds := 0, 0
	for ; kills < rebuildKills(); rounds++ {
		share := 1.0
		if _, err := rebuild.StartRebuild(t.Context(), pool, "totals", rebuild.Options{MaxShare: &share},
			failed.Act{By: "ada"}); err != nil {
			t.Fatal(err)
		}
		for kills < rebuildKills() && rebuildComes(t, pool) {
			victim := rand.IntN(len(workers))
			workers[victim].Kill(t)
			kills++
			for range campaigns / 4 {
				tally.Append(t, pool, fmt.Sprint("c", rand.IntN(campaigns)), int64(kills))
			}
			workers[victim] = begin(fmt.Sprint("successor ", kills))
		}
		tally.Eventually(t, "it is rebuilt", tally.Holds(pool, `SELECT count(*) = $1 FROM tidemark.failure_log
			WHERE act = 'rebuilt'`, rounds+1))
	}
	tally.Eventually(t, "all is applied", applied)
	tally.VerifyTotals(t, pool)
	t.Logf("%d workers were killed in %d rounds of rebuilds", kills, rounds)
	if n := tally.Value[int](t, pool, `SELECT count(*) FROM tidemark.failure_log
		WHERE act IN ('failed', 'dead', 'crashed')`); n > 0 {
		t.Errorf("%d failures are put down to events", n)
	}
}

// rebuildComes waits until the running rebuilds have progressed by a random step, and reports
// whether any are left.
func rebuildComes(t *testing.T, pool *pgxpool.Pool) bool {
	t.Helper()
	const stage = 20 // counts as much as this many campaigns
	stages := map[string]int64{"requested": 6, "copying": 2, "copied": 1, "joining": 1}
	left := func(ctx context.Context) (int64, error) {
		all, err := rebuild.Rebuilds(ctx, pool, "")
		n := int64(-1)
		for _, r := range all {
			n += 1 + stage*stages[r.State] + r.Left
		}
		return n, err
	}
	now, err := left(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	moment := now - 1 - rand.Int64N(now/3+1)
	tally.Eventually(t, "the rebuild goes on", func(ctx context.Context) (bool, error) {
		now, err = left(ctx)
		return now <= max(moment, -1), err
	})
	return now >= 0
}
