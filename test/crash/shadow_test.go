package crash_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/test/support/tally"
	"github.com/tidemark-go/tidemark/test/support/worker"
)

// queueAsItIs is all that a shadow must leave as it was, with who wrote it last.
const queueAsItIs = `SELECT concat_ws(E'\n',
	(SELECT string_agg(concat(o, o.xmin), ' ' ORDER BY o.campaign_id, o.seq) FROM tidemark.outbox o),
		(SELECT string_agg(concat(l, l.xmin), ' ') FROM tidemark.leases l),
	(SELECT string_agg(concat(d, d.xmin), ' ') FROM tidemark.deferred d), (SELECT count(*) FROM tidemark.failure_log),
		(SELECT count(*) FROM tidemark.workers),
	(SELECT count(*) FROM entries), (SELECT count(*) FROM tallies))`

// leisure is a lease's life of which half is time enough for a round of a shadow on a machine with much else to do.
const leisure = time.Minute

// TestAnEventThatEndsAShadow restarts a shadow that dies of an event: it learns which one, without
// leaving a trace in the queue, and leaves that out.
func TestAnEventThatEndsAShadow(t *testing.T) {
	t.Parallel()
	for _, kind := range []worker.Kind{worker.Kill, worker.Memory} {
		t.Run(fmt.Sprintf("by_%s_is_left_out_after_three_crashes", kind), func(t *testing.T) {
			t.Parallel()
			pool, url := prepared(t, "a", "b", "c", "d", "e", "f")
			before := tally.Value[string](t, pool, queueAsItIs)
			cfg := standard(url, "")
			cfg.Shadow, cfg.PollInterval, cfg.LeaseTTL = true, 20*time.Millisecond, leisure
			cfg.Bomb = worker.Bomb{Kind: kind, Campaign: "c", Seq: 3}
			r := &replicas{cfg: cfg}
			r.start(t, 1)
			r.until(t, "the shadow goes on without the event", func(context.Context) (bool, error) {
				return r.running[0].Said("event left out") && r.running[0].Said("would have been applied"), nil
			})
			if r.crashes != 3 {
				t.Errorf("it took %d crashes", r.crashes)
			}
			for _, says := range []string{
				"projection=entries campaign=c seq=3 crashes=3",
				`would have failed" worker=replica-4 projection=entries class=permanent events=1`,
			} {
				if !r.running[0].Said(says) {
					t.Errorf("the shadow's log does not say %s", says)
				}
			}
			r.running[0].Terminate(t)
			if after := tally.Value[string](t, pool, queueAsItIs); after != before {
				t.Errorf("the queue was\n%s\nand is\n%s", before, after)
			}
			if known := tally.Value[string](t, pool, `SELECT string_agg(concat_ws(' ', consumer_group, campaign_id,
				cardinality(owners)), ', ') FROM tidemark.crashes`); known != "default~shadow c 3" {
				t.Errorf("what is known of crashes is %q, want that campaign c cost the shadow three", known)
			}

			// Workers know nothing of it: what they die of is for them to find out.
			next := standard(url, "worker")
			worker.Start(t, next)
			tally.Settle(t, pool, group)
			tally.Verify(t, pool, "")
		})
	}
	t.Run("is_not_one_that_was_under_way_when_somebody_killed_it", func(t *testing.T) {
		t.Parallel()
		pool, url := prepared(t, "a", "b", "c", "d", "e", "f")
		for i := range 5 {
			cfg := standard(url, fmt.Sprintf("victim-%d", i+1))
			cfg.Shadow, cfg.HaltAt, cfg.LeaseTTL = true, worker.Applying, leisure
			victim := worker.Start(t, cfg)
			victim.Halts(t)
			victim.Kill(t)
			// One that is left in peace goes to the end, and what is known is forgotten.
			cfg = standard(url, fmt.Sprintf("survivor-%d", i+1))
			cfg.Shadow, cfg.LeaseTTL = true, leisure
			survivor := worker.Start(t, cfg)
			tally.Eventually(t, "a round", func(context.Context) (bool, error) {
				return survivor.Said("would have been applied"), nil
			})
			survivor.Terminate(t)
			if survivor.Said("event left out") {
				t.Errorf("after %d kills an event is left out", i+1)
			}
		}
		if n := tally.Value[int](t, pool, `SELECT count(*) FROM tidemark.crashes`); n > 0 {
			t.Errorf("%d campaigns are still suspects", n)
		}
	})
}
