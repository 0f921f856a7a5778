package crash_test

import (
	"flag"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/deferred"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/internal/tally"
	"github.com/tidemark-go/tidemark/test/internal/worker"
)

// rebuildKills is how many workers are killed in each round of rebuilds: go test ./test/crash -run Rebuild -args -rebuild-kills=30
func rebuildKills() int {
	if f := flag.Lookup("rebuild-kills"); f != nil {
		if n, err := strconv.Atoi(f.Value.String()); err == nil {
			return n
		}
	}
	return 5
}

var _ = flag.Int("rebuild-kills", 5, "how many workers are killed in each round of rebuilds")

// TestARebuildSurvivesTheDeathOfItsWorkers kills one worker after the other while both projections are rebuilt and events arrive.
func TestARebuildSurvivesTheDeathOfItsWorkers(t *testing.T) {
	t.Parallel()
	const campaigns, rounds = 60, 2
	kills := max(2, rebuildKills())
	pool, url := prepared(t)
	appendAll := func(n int64) {
		for i := range campaigns {
			tally.Append(t, pool, fmt.Sprint("c", i), n, n+1)
		}
	}
	begin := func(name string) *worker.Process {
		cfg := standard(url, name)
		cfg.PollInterval, cfg.GroupEvents, cfg.Claim, cfg.Concurrency = 10*time.Millisecond, 10, 4, 2
		return worker.Start(t, cfg)
	}
	for n := range int64(4) {
		appendAll(n)
	}
	workers := []*worker.Process{begin("first"), begin("second")}
	tally.Settle(t, pool, group)
	share := 1.0
	for round := range rounds {
		for _, name := range []string{"entries", "tallies"} {
			if _, err := projector.StartRebuild(t.Context(), pool, name, projector.RebuildOptions{MaxShare: &share}, deferred.Act{By: "ada"}); err != nil {
				t.Fatal(err)
			}
		}
		for kill := range kills {
			// Beginning with the first moment at which there is something to lose, ending with the exchange.
			tally.Eventually(t, "the rebuild goes on", tally.Holds(pool, `SELECT NOT EXISTS (SELECT FROM tidemark.projections WHERE state = 'requested')
				AND (SELECT count(*) FROM tidemark.deferred WHERE projection LIKE '%~next') <= $1`, 2*campaigns*(kills-1-kill)/(kills-1)))
			victim := kill % len(workers)
			workers[victim].Kill(t)
			appendAll(int64(kill))
			workers[victim] = begin(fmt.Sprintf("successor %d of round %d", kill, round))
		}
		tally.Eventually(t, "both are rebuilt", tally.Holds(pool, `SELECT count(*) = $1 FROM tidemark.failure_log WHERE act = 'rebuilt'`, 2*(round+1)))
	}
	tally.Settle(t, pool, group)
	tally.Verify(t, pool, "")
	if n := tally.Value[int](t, pool, `SELECT count(*) FROM tidemark.failure_log WHERE act IN ('failed', 'dead', 'crashed')`); n > 0 {
		t.Errorf("%d failures are put down to events", n)
	}
}
