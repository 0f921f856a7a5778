package crash_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/test/support/tally"
	"github.com/tidemark-go/tidemark/test/support/worker"
)

// replicas are workers that are restarted when they end.
type replicas struct {
	cfg     worker.Config
	running []*worker.Process
	started int
	crashes int
}

func (r *replicas) start(t *testing.T, n int) {
	t.Helper()
	for range n {
		r.running = append(r.running, r.another(t))
	}
}

func (r *replicas) another(t *testing.T) *worker.Process {
	t.Helper()
	r.started++
	cfg := r.cfg
	cfg.Name = fmt.Sprintf("replica-%d", r.started)
	return worker.Start(t, cfg)
}

// restart replaces the replicas that have ended.
func (r *replicas) restart(t *testing.T) {
	t.Helper()
	for i, p := range r.running {
		if p.Ended() {
			r.crashes++
			r.running[i] = r.another(t)
		}
	}
}

// until restarts replicas until the condition holds.
func (r *replicas) until(t *testing.T, what string, holds func(context.Context) (bool, error)) {
	t.Helper()
	tally.Eventually(t, what, func(ctx context.Context) (bool, error) {
		r.restart(t)
		return holds(ctx)
	})
}

// longer gives a worker longer leases. An owner that was seen after half of its lease's life counts
// as alive if it does not renew. Half of this TTL is enough, even on a busy machine, to get from a
// claim to the event that ends the process.
func longer(cfg worker.Config) worker.Config {
	cfg.LeaseTTL = 8 * time.Second
	return cfg
}

func TestAnEventThatEndsTheProcess(t *testing.T) {
	t.Parallel()
	for _, kind := range []worker.Kind{worker.Exit, worker.Kill, worker.Memory, worker.Stack} {
		t.Run(fmt.Sprintf("by_%s_is_dead_after_three_crashes_for_its_projection_alone", kind), func(t *testing.T) {
			t.Parallel()
			pool, url := prepared(t, "a", "b", "c", "d", "e", "f")
			r := &replicas{cfg: longer(standard(url, ""))}
			r.cfg.Bomb = worker.Bomb{Kind: kind, Campaign: "c", Seq: 3}
			r.start(t, 2)
			r.until(t, "the event is given up, the rest applied", tally.Holds(pool, `SELECT NOT EXISTS (SELECT
				FROM tidemark.outbox)
				AND EXISTS (SELECT FROM tidemark.failed WHERE status = 'dead')`))
			tally.Append(t, pool, "c", 6)
			r.until(t, "the campaign goes on", tally.Holds(pool, `SELECT NOT EXISTS (SELECT FROM tidemark.outbox)`))
			if r.crashes != 3 {
				t.Errorf("it took %d crashes", r.crashes)
			}
			expectCrashed(t, pool)
			for _, p := range r.running {
				p.Terminate(t)
			}
		})
	}
	t.Run("of_a_projection_that_catches_up_is_dead_for_it_after_three_crashes", func(t *testing.T) {
		t.Parallel()
		pool, url := prepared(t, "a", "b", "c", "d", "e", "f")
		tally.Exec(t, pool, `INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status)
			SELECT DISTINCT campaign_id, 'entries', 'default', 1, 'catching_up' FROM tidemark.outbox`)
		first := standard(url, "first")
		first.TalliesOnly = true
		catchingUp := worker.Start(t, first)
		tally.Eventually(t, "the other projection is at the head", tally.Holds(pool, `SELECT NOT EXISTS (SELECT
			FROM tidemark.outbox)`))
		catchingUp.Terminate(t)
		r := &replicas{cfg: longer(standard(url, ""))}
		r.cfg.Bomb = worker.Bomb{Kind: worker.Kill, Campaign: "c", Seq: 3}
		r.start(t, 2)
		r.until(t, "the event is given up, the rest caught up", tally.Holds(pool, `SELECT count(*) = 1 AND
			bool_and(status = 'dead') FROM tidemark.failed`))
		if r.crashes != 3 {
			t.Errorf("it took %d crashes", r.crashes)
		}
		tally.Append(t, pool, "c", 6)
		r.until(t, "the campaign goes on", tally.Holds(pool, `SELECT NOT EXISTS (SELECT FROM tidemark.outbox)`))
		expectCrashed(t, pool)
		for _, p := range r.running {
			p.Terminate(t)
		}
	})
}

// TestAStackOverflowHoldsTheOthersForOneLease kills three processes with one event. The first death
// is detected when its leases expire. The others have marked the campaign they work on, so they are
// waited for no longer than a sixth of a lease's life. The test allows a slow machine the rest of
// it.
func TestAStackOverflowHoldsTheOthersForOneLease(t *testing.T) {
	t.Parallel()
	pool, url := prepared(t, "a", "b", "d", "e", "f")
	r := &replicas{cfg: standard(url, "")}
	r.cfg.LeaseTTL, r.cfg.PollInterval = 30*time.Second, 200*time.Millisecond
	r.cfg.Bomb = worker.Bomb{Kind: worker.Stack, Campaign: "c", Seq: 3}
	r.start(t, 2)
	// Only deaths of recorded workers count.
	tally.Eventually(t, "both are recorded", tally.Holds(pool, `SELECT count(*) = 2 FROM tidemark.workers`))
	tally.Append(t, pool, "c", 1, 2, 3, 4, 5)
	r.until(t, "the first has died", func(context.Context) (bool, error) { return r.crashes > 0, nil })
	first := tally.Value[string](t, pool, `SELECT owner FROM tidemark.leases WHERE campaign_id = 'c'`)
	tally.Append(t, pool, "g", 1, 2, 3, 4, 5)
	r.until(t, "another campaign goes on", tally.Holds(pool, `SELECT EXISTS (SELECT FROM tallies WHERE campaign_id = 'g'
		AND doc ->> 'count' = '5')`))
	if n := tally.Value[int](t, pool, `SELECT count(*) FROM tidemark.leases WHERE campaign_id = 'c'
		AND expires_at > clock_timestamp() AND owner = '`+first+`'`); n != 1 {
		t.Error("another campaign went on when the leases of the dead had ended")
	}
	r.until(t, "the second has died", func(context.Context) (bool, error) { return r.crashes > 1, nil })
	end := tally.Value[time.Time](t, pool, `SELECT max(expires_at) FROM tidemark.leases
		WHERE expires_at > clock_timestamp()`)
	r.until(t, "the campaign's other projection goes on", tally.Holds(pool, `SELECT doc ->> 'count' = '5' FROM tallies
		WHERE campaign_id = 'c'`))
	r.until(t, "all else is applied", tally.Holds(pool, `SELECT NOT EXISTS (SELECT FROM tidemark.outbox)`))
	if tally.Value[time.Time](t, pool, `SELECT clock_timestamp()`).After(end) {
		t.Error("all else went on when the leases of the second had ended")
	}
	if r.crashes != 3 {
		t.Errorf("it took %d crashes", r.crashes)
	}
	for _, p := range r.running {
		p.Terminate(t)
	}
}

// TestKillsFromOutsideCostNoEventAnything kills workers that have claimed and done nothing yet,
// then workers that apply the campaign alone. An event could have caused each of these deaths.
func TestKillsFromOutsideCostNoEventAnything(t *testing.T) {
	t.Parallel()
	for name, at := range map[string][]kind.Step{
		"one_under_the_mark": {kind.StepClaimed, kind.StepClaimed, worker.Applying},
		"two_under_the_mark_while_others_die_besides": {
			kind.StepClaimed, kind.StepClaimed, kind.StepClaimed,
			worker.Applying, worker.Applying,
		},
		"one_under_the_mark_and_one_between_the_marks": {kind.StepClaimed, worker.Applying, kind.StepClaimed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, url := prepared(t, "c")
			for i, step := range at {
				cfg := standard(url, fmt.Sprintf("victim-%d", i+1))
				cfg.HaltAt, cfg.Concurrency = step, 1
				victim := worker.Start(t, cfg)
				victim.Halts(t)
				victim.Kill(t)
			}
			worker.Start(t, standard(url, "successor"))
			tally.Settle(t, pool, group)
			tally.Verify(t, pool, "")
			if n := tally.Value[int](t, pool, `SELECT count(*) FROM tidemark.failure_log`); n > 0 {
				t.Errorf("the failure log has %d records", n)
			}
		})
	}
}

// expectCrashed expects that the projection "entries" has stopped before the third event of
// campaign c, and that everything else is applied, each event once.
func expectCrashed(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for what, c := range map[string]struct{ sql, want string }{
		"the pairs that are behind": {`SELECT string_agg(concat_ws(' ', projection, campaign_id, next_seq, status,
			error_class, error_code), ', ') FROM tidemark.failed`, "entries c 3 dead permanent crash"},
		"the failure log": {`SELECT string_agg(concat_ws(' ', act, projection, campaign_id, seq), ', ')
			FROM tidemark.failure_log`, "crashed entries c 3"},
		"the entries": {`SELECT concat_ws(' ', count(*), count(DISTINCT (campaign_id, seq)),
			count(*) FILTER (WHERE campaign_id = 'c')) FROM entries`, "27 27 2"},
		"the tallies": {`SELECT string_agg(campaign_id || (doc ->> 'count'), ' ' ORDER BY campaign_id)
			FROM tallies`, "a5 b5 c6 d5 e5 f5"},
		"what is held against others": {`SELECT count(*)::text FROM tidemark.crashes WHERE cardinality(owners) > 0`, "0"},
	} {
		if got := tally.Value[string](t, pool, c.sql); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
}
