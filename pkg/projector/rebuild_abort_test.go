package projector_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	tables "github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// abort ends a rebuild whose tables the session may drop.
func abort(ctx context.Context, db tables.Beginner, name string, act failed.Act) error {
	left, err := rebuild.AbortRebuild(ctx, db, name, act)
	if left {
		err = errors.New("the tables are left")
	}
	return err
}

func TestAnAbortedRebuildLeavesNothingBehindAndDoesNotBeginByItself(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	one := workerOf(t, pool, nil, kindsOf(t, "k", 1)...)
	moveAll(t, pool, 1, 2, 3)
	drain(t, one)
	two := workerOf(t, pool, nil, kindsOf(t, "k", 2)...)
	if err := two.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, `INSERT INTO tidemark.pauses (scope, consumer_group, name, reason, actor)
		VALUES ('projection', 'default', 'file_k~next', '', 'ada')`)
	for _, name := range []string{"document_k", "handlers_k", "file_k"} {
		if err := abort(t.Context(), pool, name, ada); err != nil {
			t.Fatal(err)
		}
		if err := abort(t.Context(), pool, name, ada); !errors.Is(err, rebuild.ErrNoRebuild) {
			t.Errorf("aborted twice: %v", err)
		}
	}
	if s := leftovers(t, pool); s != "" {
		t.Errorf("left: %s", s)
	}
	drain(t, two)
	drain(t, workerOf(t, pool, nil, kindsOf(t, "k", 2)...)) // a new worker does not start it again either
	if s := leftovers(t, pool); s != "" {
		t.Errorf("it has begun again: %s", s)
	}
	drain(t, one)
	if got, want := contents(t, pool, "tidemark_views", "k"), folded(t, pool, 1); got != want {
		t.Errorf("the tables hold\n%swant\n%s", got, want)
	}
	// On request the rebuild runs again.
	for _, name := range []string{"document_k", "handlers_k", "file_k"} {
		if begun, err := rebuild.StartRebuild(t.Context(), pool, name, rebuild.Options{}, ada); err != nil ||
			!begun {
			t.Fatal(begun, err)
		}
	}
	drain(t, two)
	if got, want := contents(t, pool, "tidemark_views", "k"), folded(t, pool, 2); got != want {
		t.Errorf("rebuilt tables hold\n%swant\n%s", got, want)
	}
}

// TestARebuildOfAnotherVersionDoesNotMakeAnAbortedOneBeginAgain aborts the rebuild of version 3.
// Then it builds and rolls back lower versions, while a worker with version 3 runs.
func TestARebuildOfAnotherVersionDoesNotMakeAnAbortedOneBeginAgain(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	appendMoves(t, pool, "a", 1)
	one, two, three := workerOf(t, pool, nil, tripled(1)), workerOf(t, pool, nil, tripled(2)),
		workerOf(t, pool, nil, tripled(3))
	drain(t, one)
	if err := three.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := abort(t.Context(), pool, "counters", ada); err != nil {
		t.Fatal(err)
	}
	shown := func(when, want string) {
		t.Helper()
		drain(t, three)
		expectText(t, pool, when, want, `SELECT string_agg(name || ' ' || version, ', ' ORDER BY name)
			FROM tidemark.projections`)
	}
	shown("once it is aborted", "counters 1")
	first, second, third := 1, 2, 3
	start(t, pool, rebuild.Options{Version: &first})
	shown("while version 1 is asked for", "counters 1, counters~next 1")
	drain(t, one)
	shown("once version 1 is rebuilt", "counters 1, counters~previous 1")
	start(t, pool, rebuild.Options{Version: &second})
	drain(t, two)
	shown("once version 2 is built", "counters 2, counters~previous 1")
	if err := rebuild.Rollback(t.Context(), pool, "counters", rebuild.RollbackOptions{AllowBehind: -1},
		ada); err != nil {
		t.Fatal(err)
	}
	shown("once version 2 is rolled back", "counters 1, counters~previous 2")
	start(t, pool, rebuild.Options{Version: &third})
	shown("once version 3 is asked for", "counters 3, counters~previous 1")
}
