package journal_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func count(n *int, _ event.Event) error {
	*n++
	return nil
}

func TestModelsComposeIntoOneReadAndOneCondition(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	mustAppendIf(t, pool, always(), tagged("a", "opened", "x"), tagged("b", "opened", "y"),
		tagged("a", "closed", "x", "y"), tagged("c", "opened", "z"))
	x, closed, none := journal.NewModel(event.Tagged([]string{"x"}), count),
		journal.NewModel(event.Types("closed"), count), journal.NewModel(event.Types("lost"), count)
	var condition journal.Condition
	for range 2 { // the second round starts from an empty state
		var err error
		if condition, err = journal.DecideAll(t.Context(), pool, x, closed, none); err != nil {
			t.Fatal(err)
		}
		if x.State != 2 || closed.State != 1 || none.State != 0 {
			t.Errorf("states %d, %d, %d", x.State, closed.State, none.State)
		}
	}
	mustAppendIf(t, pool, condition, tagged("d", "opened", "z")) // matches none of the models
	for _, e := range []event.Event{tagged("d", "opened", "x"), tagged("d", "closed"), tagged("d", "lost")} {
		tx := begin(t, pool)
		if _, err := (journal.Journal{}).Append(t.Context(), tx, "e", journal.Any, e); err != nil {
			t.Fatal(err)
		}
		if _, err := (journal.Journal{}).AppendIf(t.Context(), tx, []event.Event{tagged("d", "noted")}, condition); !errors.Is(err,
			journal.ErrConditionFailed) {
			t.Errorf("after %s %v: %v", e.Type, e.Tags, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestADecisionReadsPageByPage(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for range 12 {
		events := noted(100)
		for i := range events {
			events[i].Tags = []string{fmt.Sprint("n=", i%2)}
		}
		mustAppend(t, pool, "a", events...)
	}
	for query, want := range map[string]int{"n=0": 600, "n=2": 0} {
		n, condition, err := journal.Decide(t.Context(), pool, event.Tagged([]string{query}), count)
		if err != nil || n != want || condition.After != 1200 {
			t.Errorf("%s: %d events, after %d, %v", query, n, condition.After, err)
		}
	}
	// Above the floor, Decide reads at most 256 events. The rest make the condition fail.
	open := begin(t, pool)
	if _, err := (journal.Journal{}).Append(t.Context(), open, "slow", journal.Any, noted(1)...); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		events := noted(100)
		for i := range events {
			events[i].Tags = []string{"late"}
		}
		mustAppend(t, pool, "b", events...)
	}
	n, condition, err := journal.Decide(t.Context(), pool, event.Tagged([]string{"late"}), count)
	if err != nil || n != 256 {
		t.Fatalf("%d events, %v", n, err)
	}
	if _, err := appendIf(t.Context(), pool, condition, tagged("c", "noted")); !errors.Is(err,
		journal.ErrConditionFailed) {
		t.Errorf("got %v", err)
	}
	if err := open.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestRetriesDecideAgain(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	attempts, ahead := 0, 1 // attempts that lose to another append
	decide := func(ctx context.Context, db event.Querier) ([]event.Event, journal.Condition, error) {
		attempts++
		tag := "x"
		if attempts <= ahead {
			tag = fmt.Sprint("x", attempts) // another query each time, so its locks are free
		}
		n, condition, err := journal.Decide(ctx, db, event.Tagged([]string{tag}), count)
		if attempts <= ahead {
			mustAppend(t, pool, "other", event.Event{Type: "noted", Tags: []string{"x", tag}})
		}
		return []event.Event{tagged("a", fmt.Sprint("decided by ", n), "mine")}, condition, err
	}
	for _, c := range []struct{ ahead, attempts, knows int }{{1, 2, 1}, {3, 4, 4}} {
		attempts, ahead = 0, c.ahead
		places, err := journal.Journal{Retry: journal.Retry{Most: time.Millisecond}}.CommitIf(t.Context(), pool, decide)
		if err != nil || attempts != c.attempts || len(places) != 1 {
			t.Fatalf("%d attempts, %+v, %v", attempts, places, err)
		}
		if e, err := journal.Get(t.Context(), pool, "a", places[0].Seq); err != nil ||
			e.Type != fmt.Sprint("decided by ", c.knows) {
			t.Errorf("%s, %v", e.Type, err)
		}
	}
	attempts, ahead = 0, 100
	if _, err := (journal.Journal{Retry: journal.Retry{Attempts: 2, Most: time.Millisecond}}).CommitIf(t.Context(), pool,
		decide); !errors.Is(err, journal.ErrConditionFailed) || !strings.Contains(err.Error(), `of campaign "other" (`) ||
		attempts != 4 {
		t.Errorf("%d attempts, %v", attempts, err)
	}
	nothing := func(context.Context, event.Querier) ([]event.Event, journal.Condition, error) {
		return nil, journal.Condition{}, nil
	}
	if places, err := (journal.Journal{}).CommitIf(t.Context(), pool, nothing); err != nil || places != nil {
		t.Errorf("no events: %v, %v", places, err)
	}
	refused := errors.New("refused")
	calls := 0
	err := journal.Retry{}.Do(t.Context(), func(context.Context) error { calls++; return refused })
	if !errors.Is(err, refused) || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

func TestDecisionsAreNotReadFromAnOldSnapshot(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		err := pgx.BeginTxFunc(t.Context(), pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
			_, _, err := journal.Decide(t.Context(), tx, event.Query{}, count)
			return err
		})
		if sqlState(err) != "TM008" {
			t.Errorf("%s: %v", level, err)
		}
	}
}
