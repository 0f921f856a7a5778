package projector_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// meets runs other while act's transaction is open. The transaction commits once other waits for
// it.
func meets(
	t *testing.T, pool *pgxpool.Pool, act func(ctx context.Context, tx pgx.Tx) error,
	other func(ctx context.Context) error,
) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if err := act(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- other(t.Context()) }()
	within(t, "the other waits for the act", func() bool {
		return query[bool](t, pool, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
			AND $1 = ANY (pg_blocking_pids(pid)))`, tx.Conn().PgConn().PID())
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestAnAbortLeavesNothingOfAnActThatItMeets aborts a rebuild while an open transaction writes its
// rows in tidemark.failed.
func TestAnAbortLeavesNothingOfAnActThatItMeets(t *testing.T) {
	t.Parallel()
	key := failed.Key{Projection: "counters~next", CampaignID: "a"}
	for name, act := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"a replay": func(ctx context.Context, tx pgx.Tx) error {
			_, err := failed.Replay(ctx, tx, failed.ReplayRequest{Group: "default", Campaigns: []string{"a", "b"}, From: 2},
				ada)
			return err
		},
		"a resolve": func(ctx context.Context, tx pgx.Tx) error {
			return failed.Resolve(ctx, tx, key, 2, failed.Act{By: "ada", Reason: "x"})
		},
		"a requeue": func(ctx context.Context, tx pgx.Tx) error { return failed.Requeue(ctx, tx, key, ada) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			appendMoves(t, pool, "a", 1, -1)
			appendMoves(t, pool, "b", 1, 2)
			drain(t, workerOf(t, pool, nil, tripled(1)))
			two := workerOf(t, pool, nil, tripled(2))
			drain(t, two)
			expectPairs(t, pool, "a counters~next 2 dead 1 transient error never")
			meets(t, pool, act, func(ctx context.Context) error { return abort(ctx, pool, "counters", ada) })
			if s := leftovers(t, pool); s != "" {
				t.Errorf("left: %s", s)
			}
		})
	}
}

// TestAReplayThatMeetsAnAbortIsOfTheTablesThatAreLeft begins a replay while a rebuild is being
// withdrawn from the workers.
func TestAReplayThatMeetsAnAbortIsOfTheTablesThatAreLeft(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	appendMoves(t, pool, "a", 1, 2)
	drain(t, workerOf(t, pool, nil, tripled(1)))
	if err := workerOf(t, pool, nil, tripled(2)).Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	withdrawn := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE tidemark.projections SET state = 'requested', version = -1
			WHERE name = 'counters~next'`)
		return err
	}
	meets(t, pool, withdrawn, func(ctx context.Context) error {
		_, err := replayFrom(ctx, pool, failed.ReplayRequest{Group: "default", Campaigns: []string{"a"}, From: 2})
		return err
	})
	expectText(t, pool, "filed", "counters 2", `SELECT string_agg(projection || ' ' || next_seq, ', ')
		FROM tidemark.failed`)
}
