package chaos_test

import (
	"os"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

const (
	// durationEnv sets a longer duration, such as "1m".
	durationEnv = "TIDEMARK_TEST_CHAOS"
	standard    = 4 * time.Second
	// pause is the time between two terminations.
	pause = 40 * time.Millisecond
)

func TestBackendsTerminatedAtRandomUnderLoadChangeNothing(t *testing.T) {
	t.Parallel()
	duration := standard
	if asked := os.Getenv(durationEnv); asked != "" {
		var err error
		if duration, err = time.ParseDuration(asked); err != nil {
			t.Fatalf("%s: %v", durationEnv, err)
		}
	}
	pool := pgtest.New(t)
	failures := tally.WatchFailures(t, pool)
	startWorkers(t, pool.Config().ConnString(), 3)
	load := tally.Load{
		Pool: tally.Pool(t, pool.Config().ConnString(), "writer", 4), Writers: 4, Campaigns: 50,
		Pause: 5 * time.Millisecond,
	}.Start(t)
	// Registering takes several statements, of which some backends here would never see the last.
	tally.Eventually(t, "the workers apply", tally.Holds(pool, `SELECT count(*) > 10 FROM tallies`))

	terminated := 0
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for end := time.Now().Add(duration); time.Now().Before(end); <-tick.C {
		terminated += tally.Value[int](t, pool, `SELECT count(*) FROM (
			SELECT pg_terminate_backend(pid) FROM (
				SELECT pid FROM pg_stat_activity
				WHERE datname = current_database() AND (application_name LIKE 'worker-%' OR application_name = 'writer')
				ORDER BY random() LIMIT 1
			) AS chosen
		) AS done`)
	}
	appended := load.Stop(t, pool)
	tally.Settle(t, pool, group)
	tally.Verify(t, pool, "")
	if n := failures(); n > 0 {
		t.Errorf("%d failures were put down to a projection", n)
	}
	t.Logf("%d backends were terminated while %d events were appended", terminated, appended)
	if terminated == 0 || appended == 0 {
		t.Errorf("%d backends were terminated while %d events were appended: nothing was tried", terminated, appended)
	}
}
