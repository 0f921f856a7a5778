package crash_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/test/support/tally"
	"github.com/tidemark-go/tidemark/test/support/worker"
)

// TestAWorkerToldToStop uses leases that outlive the test, so the next worker only gets leases that
// were released.
func TestAWorkerToldToStop(t *testing.T) {
	t.Parallel()
	for at, applied := range map[kind.Step]bool{
		kind.StepClaimed: false, kind.StepRead: true,
		kind.StepApplied: true,
	} {
		t.Run(fmt.Sprintf("gives_its_leases_back_at_once_when_it_has_%s", at), func(t *testing.T) {
			t.Parallel()
			pool, url := prepared(t, "a", "b", "c", "d", "e", "f")
			cfg := standard(url, "leaving")
			cfg.HaltAt, cfg.Concurrency, cfg.LeaseTTL, cfg.GroupEvents = at, 1, time.Hour, 10
			leaving := worker.Start(t, cfg)
			leaving.Halts(t)
			leaving.Signal(t, syscall.SIGTERM)
			leaving.Stops(t)
			leaving.Proceed(t)
			if code := leaving.Ends(t); code != 0 {
				t.Errorf("the worker ended with code %d after SIGTERM", code)
			}
			if n := tally.Value[int](t, pool, `SELECT count(*) FROM tidemark.leases WHERE expires_at > now()`); n > 0 {
				t.Errorf("%d leases are still held", n)
			}
			if n := tally.Value[int](t, pool, `SELECT count(*) FROM tidemark.workers`); n > 0 {
				t.Errorf("%d workers are still recorded", n)
			}
			if n := tally.Value[int](t, pool, `SELECT count(*) FROM entries`); (n > 0) != applied {
				t.Errorf("it applied %d events before it ended", n)
			}
			cfg.Name, cfg.HaltAt = "next", ""
			next := worker.Start(t, cfg)
			tally.Settle(t, pool, group)
			tally.Verify(t, pool, "")
			next.Terminate(t)
		})
	}
}
