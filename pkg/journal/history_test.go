package journal_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// keep notes the last position as the one up to which later histories are the same.
func keep(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for _, sql := range []string{
		`SELECT tidemark.keep_history()`,
		`UPDATE tidemark.histories SET position = (SELECT last_value FROM tidemark.journal_position)
			WHERE history = tidemark.history()`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

// rewind takes all events after a position from the journal, as a failover does.
func rewind(t *testing.T, pool *pgxpool.Pool, position int64) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), fmt.Sprintf(`BEGIN; SET LOCAL session_replication_role = replica;
		DELETE FROM tidemark.journal WHERE position > %[1]d; DELETE FROM tidemark.event_tags WHERE position > %[1]d;
		UPDATE tidemark.histories SET position = least(position, %[1]d); DELETE FROM tidemark.incarnation;
		SELECT setval('tidemark.journal_position', %[1]d); COMMIT`, position), pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
}

// TestADecisionOfALostHistoryIsRefused decides before commits are lost, and appends after others have the
// positions that the decision knows.
func TestADecisionOfALostHistoryIsRefused(t *testing.T) {
	t.Parallel()
	query := event.Tagged([]string{"seat=1"}, "opened")
	decide := func(t *testing.T, db event.Querier) journal.Condition {
		t.Helper()
		_, condition, err := journal.Decide(t.Context(), db, query, func(*int, event.Event) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return condition
	}
	for name, read := range map[string]func(t *testing.T, pool *pgxpool.Pool) journal.Condition{
		"of a pool": func(t *testing.T, pool *pgxpool.Pool) journal.Condition { t.Helper(); return decide(t, pool) },
		"of a transaction": func(t *testing.T, pool *pgxpool.Pool) (c journal.Condition) {
			t.Helper()
			if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				c = decide(t, tx)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			return c
		},
		"without batches": func(t *testing.T, pool *pgxpool.Pool) journal.Condition {
			t.Helper()
			return decide(t, struct{ event.Querier }{pool})
		},
		"by hand": func(t *testing.T, pool *pgxpool.Pool) journal.Condition {
			t.Helper()
			history, err := journal.History(t.Context(), pool)
			if err != nil {
				t.Fatal(err)
			}
			return journal.Condition{FailIfMatch: query, After: decide(t, pool).After, History: history}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			mustAppendIf(t, pool, always(), tagged("a", "noted"))
			keep(t, pool)
			kept := read(t, pool)
			for range 5 {
				mustAppendIf(t, pool, always(), tagged("lost", "noted"))
			}
			lost := read(t, pool)
			rewind(t, pool, kept.After)
			attempt := tagged("mine", "taken", "seat=1")
			if _, err := appendIf(t.Context(), pool, lost, attempt); !errors.Is(err, journal.ErrInvalidCondition) {
				t.Errorf("before a new event: %v", err)
			}
			if _, err := appendIf(t.Context(), pool, kept, tagged("b", "noted")); err != nil {
				t.Errorf("what is known to both histories: %v", err)
			}
			mustAppendIf(t, pool, always(), tagged("other", "opened", "seat=1"))
			for range 5 {
				mustAppendIf(t, pool, always(), tagged("c", "noted"))
			}
			keep(t, pool)
			_, err := appendIf(t.Context(), pool, lost, attempt)
			if !errors.Is(err, journal.ErrInvalidCondition) || !strings.Contains(err.Error(),
				fmt.Sprintf("up to %d@", lost.After)) || !strings.Contains(err.Error(), "read again and decide again") {
				t.Errorf("the decision of a lost history: %v", err)
			}
			if _, err := appendIf(t.Context(), pool, kept, attempt); !errors.Is(err, journal.ErrConditionFailed) {
				t.Errorf("the earlier decision: %v", err)
			}
			if _, err := appendIf(t.Context(), pool, read(t, pool), attempt); err != nil {
				t.Errorf("a new decision: %v", err)
			}
		})
	}
}

// TestADecisionOfALostHistoryIsMadeAgain retries, as after a connection that broke in the commit.
func TestADecisionOfALostHistoryIsMadeAgain(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	keep(t, pool)
	mustAppendIf(t, pool, always(), tagged("lost", "noted"))
	query := event.Types("opened")
	decide := func(ctx context.Context, db event.Querier) (journal.Condition, error) {
		_, c, err := journal.Decide(ctx, db, query, func(*int, event.Event) error { return nil })
		return c, err
	}
	before, err := decide(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	rewind(t, pool, 0)
	mustAppendIf(t, pool, always(), tagged("other", "opened"))
	attempts := 0
	places, err := journal.Journal{}.CommitIf(t.Context(), pool,
		func(ctx context.Context, db event.Querier) ([]event.Event, journal.Condition, error) {
			c := before
			var err error
			if attempts++; attempts > 1 {
				c, err = decide(ctx, db)
			}
			return []event.Event{tagged("mine", "opened")}, c, err
		})
	if err != nil || attempts != 2 || places[0].Position != 2 {
		t.Errorf("after %d attempts: %v, %v", attempts, places, err)
	}
}

// TestAnAppendThatIsThereIsKnownInEachHistory repeats an append that survived, with its lost decision.
func TestAnAppendThatIsThereIsKnownInEachHistory(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	keep(t, pool)
	_, c, err := journal.Decide(t.Context(), pool, event.Types("opened"), func(*int, event.Event) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	e := tagged("mine", "opened")
	e.ID = event.Event{ID: [16]byte{1, 6: 0x70, 8: 0x80, 15: 1}}.ID
	first := mustAppendIf(t, pool, c, e)
	keep(t, pool)
	c.After, c.History = first[0].Position+5, "0123456789abcdef"
	again, err := appendIf(t.Context(), pool, c, e)
	if err != nil || again[0].Position != first[0].Position || !again[0].Duplicate {
		t.Errorf("%+v, %v", again, err)
	}
}
