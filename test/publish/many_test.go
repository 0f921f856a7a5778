package publish_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/broker"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// TestFiveHundredPairsOnThreeReplicas publishes 500 pairs with three workers and kills one of them.
func TestFiveHundredPairsOnThreeReplicas(t *testing.T) {
	t.Parallel()
	const topics = 500
	pool, b := pgtest.New(t), broker.Start(t)
	watchOwners(t, pool)
	var names []string
	for i := range topics {
		names = append(names, fmt.Sprint("t", i))
	}
	publishers := fmt.Sprintf("topics:\n  %s:\npublishers:\n  out:\n    topics: [%s]\n    sink: "+
		"broker://%s?from=${WORKER}\n", strings.Join(names, ":\n  "), strings.Join(names, ", "), b.Addr())
	var workers []*worker
	for i := range 3 {
		// The pairs are evenly distributed only while all workers are alive, which a busy machine
		// may not manage with a lease of a second.
		workers = append(workers, spawn(t, pool, fmt.Sprint("worker-", i), publishers, "TIDEMARK_LEASE_TTL=5s"))
	}
	shared := func(among ...int) {
		t.Helper()
		tally.Eventually(t, fmt.Sprintf("the pairs are shared out as %d", among),
			tally.Holds(pool, `SELECT array_agg(n ORDER BY n)
			= $1
			FROM (SELECT count(*)::int AS n FROM tidemark.readers WHERE expires_at > clock_timestamp()
				GROUP BY owner) AS c`, among))
	}
	shared(166, 167, 167)
	appendTo(t, pool, 5, "a", "b")
	eventually(t, "all has arrived", func() bool { return b.Taken() >= topics*10 })
	workers[0].kill(t)
	appendTo(t, pool, 5, "b", "c")
	killed := time.Now()
	shared(250, 250)
	t.Logf("after a kill the pairs were shared out again in %v", time.Since(killed).Round(time.Millisecond))
	tally.Eventually(t, "all pairs have got to the journal's end", tally.Holds(pool, `SELECT bool_and(position >= 20)
		FROM tidemark.readers`))
	for _, name := range names {
		if got := of(b, name, "a") + of(b, name, "b") + of(b, name,
			"c"); got != "[1 2 3 4 5][1 2 3 4 5 6 7 8 9 10][1 2 3 4 5]" {
			t.Errorf("of topic %s %s has arrived", name, got)
		}
	}
	if n := tally.Value[int](t, pool, `SELECT max(n) FROM (SELECT count(*) AS n FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE 'worker-%'
			GROUP BY application_name) AS c`); n > publisher.Connections+1 {
		t.Errorf("a worker has %d connections for its pairs, of which it needs %d and one to listen", n,
			publisher.Connections)
	}
	heldOnce(t, pool)
	for _, w := range workers[1:] {
		w.terminate(t)
	}
}
