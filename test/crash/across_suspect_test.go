package crash_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/test/support/tally"
	"github.com/tidemark-go/tidemark/test/support/worker"
)

// bombKey is the amount of the third event of campaign b, restKey its other key in the document "pairs".
const bombKey, restKey = "2", "rest 2"

func TestAnEventThatEndsTheProcessAcrossCampaigns(t *testing.T) {
	t.Parallel()
	for kind, partitions := range map[worker.Kind]int{worker.Exit: 1, worker.Kill: 3, worker.Memory: 3, worker.Stack: 1} {
		t.Run(fmt.Sprintf("by_%s_is_dead_for_its_key_alone_in_%d_partitions", kind, partitions), func(t *testing.T) {
			t.Parallel()
			pool, url := preparedAcross(t, partitions)
			r := &replicas{cfg: acrossConfig(url, "", partitions)}
			r.cfg.Bomb = worker.Bomb{Kind: kind, Campaign: "b", Seq: 3}
			r.start(t, 2)
			expectCrashedAcross(t, pool, r)
		})
	}
	t.Run("when_it_is_retried_is_dead_for_its_key", func(t *testing.T) {
		t.Parallel()
		pool, url := preparedAcross(t, 1)
		first := acrossConfig(url, "first", 1)
		first.Refuses = 2
		refusing := worker.Start(t, first)
		tally.Eventually(t, "its keys have failed", tally.Holds(pool, `SELECT count(*) = 4 AND (SELECT bool_and(position >=
			(SELECT max(position) FROM tidemark.journal)) FROM tidemark.readers) FROM tidemark.failed`))
		refusing.Kill(t)
		r := &replicas{cfg: acrossConfig(url, "", 1)}
		r.cfg.Bomb = worker.Bomb{Kind: worker.Exit, Campaign: "b", Seq: 3} // the key catches up to it
		r.start(t, 2)
		expectCrashedAcross(t, pool, r)
	})
}

// expectCrashedAcross expects that the bomb's keys are dead before it, in the three projections that it
// ends, and that everything else is applied.
func expectCrashedAcross(t *testing.T, pool *pgxpool.Pool, r *replicas) {
	t.Helper()
	at := tally.Value[int64](t, pool, `SELECT position FROM tidemark.journal WHERE campaign_id = 'b' AND seq = 3`)
	held := map[string]int64{
		"boards " + bombKey: at, "lines " + bombKey: at, "pairs " + bombKey: at, "pairs " + restKey: at,
	}
	given := tally.Holds(pool, `SELECT count(*) = 4 FROM tidemark.failed WHERE status = 'dead'`)
	r.until(t, "the event is given up", given)
	r.until(t, "the rest is applied", tally.AtTheEnd(pool))
	crashes := r.crashes
	tally.Append(t, pool, "c", 6, 2, 1)
	r.until(t, "other keys go on", tally.AtTheEnd(pool))
	tally.VerifyAcross(t, pool, held)
	// On a busy machine a replica often dies before it has taken note of what the other died of.
	if t.Logf("%d crashes", crashes); crashes < 5 || crashes > 60 || r.crashes != crashes {
		t.Errorf("it took %d crashes, then %d more", crashes, r.crashes-crashes)
	}
	want := fmt.Sprintf("boards 2 %d dead permanent crash, lines 2 %[1]d dead permanent crash, pairs 2 %[1]d dead "+
		"permanent crash, pairs rest 2 %[1]d dead permanent crash", at)
	if got := tally.Value[string](t, pool, `SELECT string_agg(concat_ws(' ', projection, campaign_id, next_seq, status,
			error_class, error_code), ', ' ORDER BY projection, campaign_id) FROM tidemark.failed`); got != want {
		t.Errorf("keys that are behind: %s, want %s", got, want)
	}
	if got := tally.Value[string](t, pool, `SELECT string_agg(act || ' ' || projection, ', ' ORDER BY projection)
			FROM tidemark.failure_log WHERE act IN ('dead', 'crashed', 'skipped')`); got != "crashed boards, crashed lines, crashed pairs, crashed pairs" {
		t.Errorf("the failure log: %s", got)
	}
	for _, p := range r.running {
		p.Terminate(t)
	}
	if n := tally.Value[int](t, pool, `SELECT count(*) FROM tidemark.readers WHERE deaths > 0 OR marked IS NOT NULL`); n > 0 {
		t.Errorf("something is held against %d places", n)
	}
}

// TestKillsFromOutsideCostNoEventAnythingAcrossCampaigns kills one holder of a place after the
// other, in the worst moments: each time before it makes any progress, while it tries an event.
func TestKillsFromOutsideCostNoEventAnythingAcrossCampaigns(t *testing.T) {
	t.Parallel()
	for name, at := range map[string][]kind.Step{
		"two_while_the_same_event_is_tried_alone": {kind.StepRead, kind.StepApplied, kind.StepApplied, worker.Applying},
		"many_with_progress_in_between": {
			kind.StepRead, kind.StepRead, kind.StepRead, kind.StepRead, kind.StepCommitted,
			kind.StepRead, kind.StepRead, kind.StepRead, kind.StepCommitted, kind.StepRead,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, url := preparedAcross(t, 1)
			for i, step := range at {
				cfg := acrossConfig(url, fmt.Sprintf("victim-%d", i+1), 1)
				cfg.HaltAt, cfg.Patient = step, true // one place
				victim := worker.Start(t, cfg)
				victim.Halts(t)
				t.Log(step, tally.Value[string](t, pool, `SELECT concat_ws(' ', position, deaths, marked) FROM tidemark.readers
					WHERE topic = 'lines'`))
				victim.Kill(t)
			}
			worker.Start(t, acrossConfig(url, "successor", 1))
			tally.SettleAcross(t, pool)
			tally.VerifyAcross(t, pool, nil)
			if n := tally.Value[int](t, pool, `SELECT count(*) FROM tidemark.failure_log`); n > 0 {
				t.Errorf("the failure log has %d records", n)
			}
		})
	}
}
