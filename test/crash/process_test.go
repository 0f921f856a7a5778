package crash_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
	"github.com/tidemark-go/tidemark/test/support/worker"
)

// question is the payload of the events of questions.
type question struct {
	Campaign string `json:"campaign"`
	N        int    `json:"n"`
}

// questions is a process with two reactions and a timer: what is asked in a campaign of its own is
// answered in one campaign for all, and then closed where it was asked. The timer never fires.
func questions() projection.Projection {
	return projection.Process[[]string]{
		Name: "questions", Version: 1, Types: []string{"asked", "answered", "closed", "late"},
		Key: func(e event.Event) (string, error) {
			q, err := event.Decode[question](e)
			return q.Campaign, err
		},
		Fold: func(seen *[]string, e event.Event) error {
			*seen = append(*seen, e.Type)
			return nil
		},
		React: []projection.Reaction[[]string]{
			projection.React("asked", func(_ *[]string, e event.Event, q question) ([]projection.Do, error) {
				return []projection.Do{
					{Campaign: "answers", Events: then("answered", e)},
					{Campaign: q.Campaign, Events: then("late", e), At: e.RecordedAt.Add(time.Hour), Timer: "answer"},
				}, nil
			}),
			projection.React("answered", func(_ *[]string, e event.Event, q question) ([]projection.Do, error) {
				return []projection.Do{{Campaign: q.Campaign, Events: then("closed", e)}}, nil
			}),
			projection.React("closed", func(*[]string, event.Event, question) ([]projection.Do, error) {
				return []projection.Do{{Timer: "answer", Cancel: true}}, nil
			}),
		},
	}
}

// then returns an event with the payload of another one.
func then(eventType string, e event.Event) []event.Event {
	return []event.Event{{Type: eventType, Payload: e.Payload}}
}

// ask appends questions, one campaign and one transaction each.
func ask(t *testing.T, pool *pgxpool.Pool, first, last int) {
	t.Helper()
	for n := first; n <= last; n++ {
		q := question{Campaign: fmt.Sprint("question-", n), N: n}
		payload, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		tally.AppendAll(t, pool, journal.Batch{
			CampaignID: q.Campaign, Events: []event.Event{{Type: "asked", Payload: payload}},
		})
	}
}

// asked returns a database with the process registered and five questions, and a worker's settings.
func asked(t *testing.T) (*pgxpool.Pool, worker.Config) {
	t.Helper()
	pool := pgtest.New(t)
	p, err := projector.New(projector.Config{Pool: pool, Projections: []projection.Projection{questions()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask(t, pool, 1, 5)
	cfg := standard(pool.Config().ConnString(), "victim")
	cfg.Own, cfg.PollInterval = true, 100*time.Millisecond
	return pool, cfg
}

// closed waits until n questions are closed and no append is to be made.
func closed(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	tally.Eventually(t, "all questions are closed", tally.Holds(pool, `SELECT NOT EXISTS (SELECT FROM tidemark.scheduled)
		AND $1 = (SELECT count(*) FROM tidemark.journal WHERE event_type = 'closed')
		AND $1 = (SELECT count(*) FROM questions WHERE doc = '["asked", "answered", "closed"]')`, n))
}

// verifyAnswers checks that each of n questions has each event once, and that answers came in the
// order in which they were due.
func verifyAnswers(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	if wrong := tally.Value[string](t, pool, `SELECT coalesce(string_agg(concat_ws(' ', q.n, q.events), ', '), '') FROM (
			SELECT n, (SELECT string_agg(j.event_type, ' ' ORDER BY j."position") FROM tidemark.journal j
				WHERE (j.payload ->> 'n')::int = n) AS events FROM generate_series(1, $1::int) AS n) AS q
		WHERE q.events IS DISTINCT FROM 'asked answered closed'`, n); wrong != "" {
		t.Errorf("questions with other events: %s", wrong)
	}
	if wrong := tally.Value[string](t, pool, `SELECT coalesce(string_agg(payload ->> 'n', ' ' ORDER BY seq), '')
		FROM tidemark.journal WHERE campaign_id = 'answers' AND (payload ->> 'n')::bigint <> seq`); wrong != "" {
		t.Errorf("answers out of order: %s", wrong)
	}
	if failures := tally.Value[int](t, pool, `SELECT count(*) FROM tidemark.failure_log`); failures > 0 {
		t.Errorf("%d failures are logged", failures)
	}
}

// TestAWorkerWithAProcessThatIsKilled kills at each step between an event and the events that follow
// from it.
func TestAWorkerWithAProcessThatIsKilled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at    kind.Step
		fires bool // before it is killed
	}{
		"after_it_read":     {at: kind.StepRead},
		"before_it_commits": {at: kind.StepApplied},
		"after_a_commit_and_before_its_reactions_fire":  {at: kind.StepCommitted},
		"after_its_reactions_fired_and_before_it_reads": {at: kind.StepCommitted, fires: true},
	} {
		t.Run(name+"_reacts_once", func(t *testing.T) {
			t.Parallel()
			pool, cfg := asked(t)
			held, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := held.Exec(t.Context(), `SELECT tidemark.lock_campaign('answers')`); err != nil {
				t.Fatal(err)
			}
			halting := cfg
			halting.HaltAt = c.at
			victim := worker.Start(t, halting)
			victim.Halts(t)
			scheduled := tally.Value[int](t, pool, `SELECT count(*) FROM tidemark.scheduled`)
			if want := map[bool]int{true: 10}[c.at == kind.StepCommitted]; scheduled != want {
				t.Errorf("%d appends are to be made when the worker halts, want %d", scheduled, want)
			}
			if c.fires {
				release(t, held)
				tally.Eventually(t, "the reactions are made", tally.Holds(pool, `SELECT count(*) = 5 FROM tidemark.journal
					WHERE event_type = 'answered'`))
			}
			victim.Kill(t)
			release(t, held)
			cfg.Name = "successor"
			successor := worker.Start(t, cfg)
			ask(t, pool, 6, 9)
			closed(t, pool, 9)
			successor.Terminate(t)
			verifyAnswers(t, pool, 9)
		})
	}
}

// release ends a transaction, also one that has ended.
func release(t *testing.T, tx pgx.Tx) {
	t.Helper()
	if err := tx.Rollback(t.Context()); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		t.Fatal(err)
	}
}

// TestAWorkerWithAProcessStoppedBeyondItsLease stops a worker with SIGSTOP and continues it after
// another has reacted to its events.
func TestAWorkerWithAProcessStoppedBeyondItsLease(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at      kind.Step
		patient bool // the server keeps its transaction, so only the fence can refuse it
	}{
		"after_it_read":                       {at: kind.StepRead},
		"before_it_commits":                   {at: kind.StepApplied},
		"before_it_commits_in_a_live_session": {at: kind.StepApplied, patient: true},
		"after_it_committed":                  {at: kind.StepCommitted},
	} {
		t.Run("reacts_to_nothing_again_when_it_was_stopped_"+name, func(t *testing.T) {
			t.Parallel()
			pool, cfg := asked(t)
			halting := cfg
			halting.HaltAt = c.at
			if c.patient {
				halting.LeaseTTL = time.Minute
			}
			stopped := worker.Start(t, halting)
			stopped.Halts(t)
			stopped.Signal(t, syscall.SIGSTOP)
			stopped.Proceed(t)
			if c.patient {
				tally.Exec(t, pool, `UPDATE tidemark.readers SET expires_at = clock_timestamp()`)
			}
			cfg.Name = "other"
			other := worker.Start(t, cfg)
			closed(t, pool, 5)
			if c.patient && !tally.Value[bool](t, pool, `SELECT EXISTS (SELECT FROM pg_stat_activity
				WHERE application_name = 'victim' AND state = 'idle in transaction' AND datname = current_database())`) {
				t.Error("the stopped worker has no transaction for the fence to refuse")
			}
			stopped.Signal(t, syscall.SIGCONT)
			ask(t, pool, 6, 9)
			closed(t, pool, 9)
			stopped.Terminate(t)
			other.Terminate(t)
			verifyAnswers(t, pool, 9)
		})
	}
}
