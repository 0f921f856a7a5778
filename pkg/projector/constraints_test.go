package projector_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// unsettled is a projection with a deferred constraint: COMMIT refuses amounts below zero that its
// statements wrote.
func unsettled(name string, constraint string, do func(context.Context, *projector.Group) error) projector.Projection {
	h := projector.NewHandlers(projector.Spec{
		Name: name, Version: 1, OnFailure: slow(""),
		Tables: `CREATE TABLE positive (by int PRIMARY KEY); INSERT INTO positive SELECT generate_series(1, 9);
			CREATE TABLE settled (campaign_id text, seq bigint, n bigint GENERATED ALWAYS AS IDENTITY, by int,
				PRIMARY KEY (campaign_id, seq));
			CREATE FUNCTION refuse_negative() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				IF NEW."by" < 0 THEN RAISE 'no amounts below zero'; END IF;
				RETURN NULL;
			END $$;` + constraint,
	})
	projector.On(h, "moved", func(ctx context.Context, g *projector.Group, e journal.Event, m moved) error {
		g.Queue(`INSERT INTO settled (campaign_id, seq, by) VALUES ($1, $2, $3)`, e.CampaignID, e.Seq, m.By)
		if do != nil {
			return do(ctx, g)
		}
		return nil
	})
	return h
}

// TestAConstraintThatIsCheckedByCommit expects the worker to find the event that violates a
// deferred constraint, although COMMIT does not name it.
func TestAConstraintThatIsCheckedByCommit(t *testing.T) {
	t.Parallel()
	const (
		foreignKey = `ALTER TABLE settled ADD FOREIGN KEY (by) REFERENCES positive DEFERRABLE INITIALLY DEFERRED`
		trigger    = `CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON settled DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
			EXECUTE FUNCTION refuse_negative()`
		putOff = `ALTER TABLE settled ADD FOREIGN KEY (by) REFERENCES positive DEFERRABLE`
	)
	look := func(ctx context.Context, g *projector.Group) error {
		_, err := g.Tx(ctx)
		return err
	}
	postpone := func(_ context.Context, g *projector.Group) error {
		g.Queue(`SET CONSTRAINTS ALL DEFERRED`)
		return nil
	}
	for name, kind := range map[string]struct {
		constraint string
		do         func(context.Context, *projector.Group) error
		want       string // the rest of the row in tidemark.deferred
	}{
		"as_a_foreign_key":                             {foreignKey, nil, "dead 1 permanent 23503 never"},
		"as_a_trigger":                                 {trigger, nil, "failed 1 transient P0001"},
		"because_the_handler_says_so":                  {putOff, postpone, "dead 1 permanent 23503 never"},
		"by_a_projection_that_looks_at_its_statements": {foreignKey, look, "dead 1 permanent 23503 never"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			worker := func() *projector.Projector {
				return workerOf(t, pool, func(c *projector.Config) { c.Concurrency = 1 }, ledger(),
					unsettled("unsettled", kind.constraint, kind.do))
			}
			p := worker()
			const campaigns = 12
			for i := range campaigns {
				amounts := []int{1, 2, 3}
				if i%5 == 2 {
					amounts[1] = -1
				}
				appendMoves(t, pool, fmt.Sprintf("c%02d", i), amounts...)
			}
			drain(t, p)
			expectPairs(t, pool, "c02 unsettled 2 "+kind.want+", c07 unsettled 2 "+kind.want)
			expectText(t, pool, "applied", "32 1,2,3", `SELECT count(*) || ' ' || (SELECT string_agg(by::text, ',' ORDER BY n)
				FROM settled WHERE campaign_id = 'c03') FROM settled`)
			expectText(t, pool, "others", "36", `SELECT count(*)::text FROM ledger`)

			// A new worker that has only the failed campaign to retry finds it too.
			exec(t, pool, `UPDATE tidemark.deferred SET status = 'failed', next_attempt_at = now(), attempt_count = 0`)
			drain(t, worker())
			expectPairs(t, pool, "c02 unsettled 2 "+kind.want+", c07 unsettled 2 "+kind.want)

			// Repaired events are applied in order, and the constraint holds as before.
			exec(t, pool, `INSERT INTO positive VALUES (-1)`)
			exec(t, pool, `CREATE OR REPLACE FUNCTION refuse_negative() RETURNS trigger
				LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`)
			exec(t, pool, `UPDATE tidemark.deferred SET status = 'failed', next_attempt_at = now(), attempt_count = 0`)
			drain(t, p)
			expectPairs(t, pool, "")
			expectText(t, pool, "applied", "36 1,-1,3", `SELECT count(*) || ' ' || (SELECT string_agg(by::text, ',' ORDER BY n)
				FROM settled WHERE campaign_id = 'c02') FROM settled`)
		})
	}
}

// TestAConstraintThatIsCheckedByCommitMayBeViolatedUntilThen lets each event violate a constraint
// and then satisfy it, also during the search for a culprit.
func TestAConstraintThatIsCheckedByCommitMayBeViolatedUntilThen(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	checks := `CREATE SEQUENCE checks; CREATE TABLE checked (seq bigint);
		CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO checked
			VALUES (NEW.seq); RETURN NULL; END $$;
		ALTER TABLE settled ADD FOREIGN KEY (by) REFERENCES positive DEFERRABLE INITIALLY DEFERRED;
		CREATE CONSTRAINT TRIGGER note AFTER INSERT ON settled DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION
			note()`
	p := workerOf(t, pool, nil, unsettled("unsettled", checks, func(_ context.Context, g *projector.Group) error {
		g.Queue(`INSERT INTO positive SELECT by FROM settled WHERE by > 9 ON CONFLICT DO NOTHING`)
		return nil
	}))
	appendMoves(t, pool, "a", 10, 11, -1, 12)
	appendMoves(t, pool, "b", 20, 21, 22)
	drain(t, p)
	expectPairs(t, pool, "a unsettled 3 dead 1 permanent 23503 never")
	expectText(t, pool, "applied", "a 1, a 2, b 1, b 2, b 3", `SELECT string_agg(campaign_id || ' ' || seq, ', '
		ORDER BY campaign_id, seq) FROM settled`)
	expectText(t, pool, "what the trigger did, once for each row", "1 1 2 2 3", `SELECT string_agg(seq::text, ' '
		ORDER BY seq) FROM checked`)
}

// TestACommitThatFailsHoldsUpNobodyElse uses Run, so the breaker takes part.
func TestACommitThatFailsHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	p := workerOf(t, pool, func(c *projector.Config) { c.PollInterval = 10 * time.Millisecond }, ledger(),
		unsettled("unsettled", `ALTER TABLE settled ADD FOREIGN KEY (by) REFERENCES positive DEFERRABLE INITIALLY
			DEFERRED`, nil))
	if err := p.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	for i := range 20 {
		appendMoves(t, pool, fmt.Sprintf("c%02d", i), 1, -1+2*(i%2), 1)
	}
	within(t, "all is applied but what is refused, and what waits for it", func() bool {
		return query[bool](t, pool, `SELECT (SELECT count(*) FROM tidemark.outbox) = 0
			AND (SELECT count(*) FROM ledger) = 60 AND (SELECT count(*) FROM settled) = 40`)
	})
	expectText(t, pool, "dead", "10", `SELECT count(*)::text FROM tidemark.deferred WHERE status = 'dead'
		AND next_seq = 2`)
}

// TestBestEffortLeavesToTheWorkersWhatCommitWouldRefuse expects the append to commit.
func TestBestEffortLeavesToTheWorkersWhatCommitWouldRefuse(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	p := inlineProjector(t, pool, projector.Config{InlineBestEffort: true, Projections: []projector.Projection{
		ledger(), unsettled("unsettled", `ALTER TABLE settled ADD FOREIGN KEY (by) REFERENCES positive DEFERRABLE INITIALLY
			DEFERRED`, nil),
	}})
	mustAppendInline(t, pool, p, "a", 1, 2)
	expectText(t, pool, "applied inline", "2 2 0", `SELECT concat_ws(' ', (SELECT count(*) FROM settled),
		(SELECT count(*) FROM ledger), (SELECT count(*) FROM tidemark.outbox))`)
	mustAppendInline(t, pool, p, "a", -1)
	expectText(t, pool, "left to the workers", "2 2 1", `SELECT concat_ws(' ', (SELECT count(*) FROM settled),
		(SELECT count(*) FROM ledger), (SELECT count(*) FROM tidemark.outbox))`)
	drain(t, p)
	expectPairs(t, pool, "a unsettled 3 dead 1 permanent 23503 never")
	expectText(t, pool, "others", "3", `SELECT count(*)::text FROM ledger`)
}
