package projector_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestEachEventCountsItsOwnAttempts(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	h := newPicky(nil).failWith(failNegative)
	p := workerOf(t, pool, nil, h)
	appendMoves(t, pool, "a", 1, -1, 2, -5, 3)
	drain(t, p)
	retry(t, pool, p)
	h.failWith(func(_ *projection.Group, _ event.Event, m moved) error {
		if m.By == -5 {
			return errPassing
		}
		return nil
	})
	retry(t, pool, p)
	expectPairs(t, pool, "a picky 4 failed 1 transient error")
	expectLog(t, pool, "failed 2 1, failed 2 2, recovered 2 2, failed 4 1")
}

func TestAPairThatHasPassedItsEventKeepsNothingOfTheFailure(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	h := newPicky(nil).failWith(failNegative)
	appendMoves(t, pool, "a", -1, 1, 2, 3)
	drain(t, workerOf(t, pool, nil, h))
	h.heal()
	exec(t, pool, `UPDATE tidemark.failed SET next_attempt_at = now()`)
	ctx, cancel := context.WithCancel(t.Context())
	committed := 0
	p := workerOf(t, pool, func(cfg *projector.Config) {
		cfg.GroupEvents = 1
		cfg.OnStep = func(s kind.Step) {
			if s == kind.StepCommitted {
				if committed++; committed == 2 {
					cancel()
				}
			}
		}
	}, h)
	_, _ = p.Drain(ctx)
	expectText(t, pool, "pair", "3 catching_up 0 t", `SELECT concat_ws(' ', next_seq, status, attempt_count,
		error_message IS NULL AND first_failed_at IS NULL AND last_failed_at IS NULL
		AND event_id IS NULL AND error_class IS NULL AND fingerprint IS NULL) FROM tidemark.failed`)
	expectLog(t, pool, "failed 1 1, recovered 1 1")
}

func TestAPairKeepsWhatAnOperatorNeedsToKnow(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	h := newPicky(func(s *projection.Spec) { s.Version = 7 }).failWith(func(_ *projection.Group, _ event.Event,
		m moved,
	) error {
		panic(fmt.Sprint("cannot go ", m.By))
	})
	appendMoves(t, pool, "a", 12345)
	drain(t, workerOf(t, pool, nil, h))
	const about = `concat_ws(' ', projection_version, event_id = (SELECT event_id FROM tidemark.journal), event_type, error_message, error_stack LIKE '%TestAPairKeepsWhatAnOperatorNeedsToKnow%',
		length(fingerprint), worker ~ '/[-0-9a-f]{36}$'`
	const want = "7 t moved panic: cannot go … t 12 t"
	expectText(t, pool, "pair", want+" t t", `SELECT `+
		about+`, first_failed_at > now() - interval '1 minute', last_failed_at = first_failed_at) FROM tidemark.failed`)
	expectText(t, pool, "log", want, `SELECT `+about+`) FROM tidemark.failure_log`)
}

func TestTheNextAttemptIsAsLateAsThePolicySays(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	h := newPicky(func(s *projection.Spec) {
		s.OnFailure = projection.Policy{Base: 10 * time.Minute, Factor: 3, Max: time.Hour}
	}).failWith(failNegative)
	p := workerOf(t, pool, nil, h)
	appendMoves(t, pool, "a", -1)
	drain(t, p)
	for i, minutes := range []float64{10, 30, 60, 60} {
		if i > 0 {
			retry(t, pool, p)
		}
		got := query[float64](t, pool, `SELECT extract(epoch FROM next_attempt_at - last_failed_at) / 60
			FROM tidemark.failed`)
		if got < minutes*0.9 || got > minutes*1.1+0.5 {
			t.Errorf("after failure %d it waits %.2f minutes, want %v give or take a tenth", i+1, got, minutes)
		}
	}
}

func TestACrashBeforeTheCommitCountsNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	crash := true
	p := workerOf(t, pool, func(cfg *projector.Config) {
		cfg.LeaseTTL = time.Second
		cfg.OnStep = func(s kind.Step) {
			if s == kind.StepDeferring && crash {
				crash = false
				exec(t, pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
					AND state = 'idle in transaction'`)
			}
		}
	}, counters(), newPicky(nil).failWith(failNegative))
	appendMoves(t, pool, "a", 1, -1, 2)
	if _, err := p.Drain(t.Context()); !failure.IsInfrastructure(err) {
		t.Fatalf("Drain = %v, want the failure of the connection", err)
	}
	expectPairs(t, pool, "")
	expectLog(t, pool, "")
	expectText(t, pool, "nothing of the group is kept", "0", `SELECT ((SELECT count(*) FROM picky) + (SELECT count(*)
		FROM counters))::text`)
	drainAll(t, pool, p)
	expectPairs(t, pool, "a picky 2 failed 1 transient error")
	expectLog(t, pool, "failed 2 1")
	expectApplied(t, pool, "a", "1")
}

// TestFailuresOfTheInfrastructureCostNoAttempt has a policy that gives up at once. It does not hold here.
func TestFailuresOfTheInfrastructureCostNoAttempt(t *testing.T) {
	t.Parallel()
	for _, action := range []projection.Action{
		projection.ActionRetry, projection.ActionDead, projection.ActionSkip, projection.ActionPause,
	} {
		t.Run(string(action), func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			h := newPicky(nil).failWith(func(*projection.Group, event.Event, moved) error {
				return fmt.Errorf("apply: %w", &pgconn.PgError{Code: "40001", Message: "could not serialize access"})
			})
			p := workerOf(t, pool, func(cfg *projector.Config) {
				cfg.OnFailure = projection.Policy{Action: action, Attempts: 1}
			}, h)
			appendMoves(t, pool, "a", 1)
			drain(t, p)
			for range 3 {
				retry(t, pool, p)
			}
			expectPairs(t, pool, "a picky 1 failed 0 infrastructure 40001")
			expectLog(t, pool, "failed 1 0")
			exec(t, pool, `UPDATE tidemark.failed SET first_failed_at = now() - interval '1 hour', next_attempt_at = now()`)
			drain(t, p)
			expectText(t, pool, "the pause grows", "60", `SELECT
				round(extract(epoch FROM next_attempt_at - last_failed_at))::text FROM tidemark.failed`)
			h.heal()
			retry(t, pool, p)
			expectPairs(t, pool, "")
			expectApplied(t, pool, "a", "1")
		})
	}
}

// TestAPairThatFailedIsTriedAgainWithOneEvent expects a retry to apply the failed event alone. The
// events after it follow once it has succeeded.
func TestAPairThatFailedIsTriedAgainWithOneEvent(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	var calls atomic.Int32
	var healed atomic.Bool
	p := workerOf(t, pool, nil, listing("", func(_ context.Context, g *projection.Group, e event.Event, m moved) error {
		calls.Add(1)
		if m.By == byStatement && healed.Load() {
			m.By = 1
		}
		return list(g, e, m)
	}), ledger())
	const length = 40
	for _, id := range []string{"a", "b", "c"} {
		amounts := slices.Repeat([]int{1}, length)
		amounts[1] = byStatement
		appendMoves(t, pool, id, amounts...)
	}
	drain(t, p)
	appendMoves(t, pool, "a", 1, 1)
	drain(t, p)
	expectPairs(t, pool,
		"a listing 2 failed 1 transient 42P01, b listing 2 failed 1 transient 42P01, c listing 2 failed 1 transient 42P01")

	calls.Store(0)
	retry(t, pool, p)
	if n := calls.Load(); n != 3 {
		t.Errorf("handlers were called %d times to try 3 pairs again, want 3", n)
	}
	expectPairs(t, pool,
		"a listing 2 failed 2 transient 42P01, b listing 2 failed 2 transient 42P01, c listing 2 failed 2 transient 42P01")

	healed.Store(true)
	calls.Store(0)
	retry(t, pool, p)
	expectPairs(t, pool, "")
	if n := calls.Load(); n != 3*(length-1)+2 {
		t.Errorf("handlers were called %d times for the %d events that waited", n, 3*(length-1)+2)
	}
	expectText(t, pool, "applied, in order", "a 42 0, b 40 0, c 40 0", `SELECT string_agg(concat_ws(' ', campaign_id,
		count, late), ', ' ORDER BY campaign_id) FROM (
		SELECT campaign_id, count(*), count(*) FILTER (WHERE late) AS late
			FROM (SELECT campaign_id, n < lag(n) OVER (PARTITION BY campaign_id ORDER BY seq) AS late FROM listed) l
			GROUP BY campaign_id) c`)
	expectText(t, pool, "recovered, once each", "a 2, b 2, c 2", `SELECT string_agg(campaign_id || ' ' || seq, ', '
		ORDER BY campaign_id) FROM tidemark.failure_log WHERE act = 'recovered'`)
}
