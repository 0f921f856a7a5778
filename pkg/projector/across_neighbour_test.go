package projector_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// polling runs a worker that gets no notifications until the test ends.
func polling(t *testing.T, pool *pgxpool.Pool, change func(*projector.Config), projections ...projection.Projection) {
	t.Helper()
	p := workerOf(t, pool, func(c *projector.Config) {
		c.NoListen, c.PollInterval = true, 100*time.Millisecond
		if change != nil {
			change(c)
		}
	}, projections...)
	if err := p.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// began opens a transaction that the test ends.
func began(t *testing.T, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}

// games returns the games of a player in both projections.
func games(t *testing.T, pool *pgxpool.Pool, player string) string {
	t.Helper()
	return query[string](t, pool, `SELECT concat_ws(' ', coalesce((SELECT doc ->> 'games' FROM tidemark_views.board
		WHERE key = $1), '0'), coalesce((SELECT games FROM tidemark_views.list WHERE player = $1), 0))`, player)
}

func TestAnAppendInFlightHoldsBackAllLaterEventsAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, commits := range []bool{true, false} {
		t.Run(fmt.Sprintf("and_commits_%v", commits), func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			s := &scores{partitions: 3}
			polling(t, pool, nil, s.projections()...)
			score(t, pool, "before", scored{"ann", 1}, scored{"bob", 1})
			tx := began(t, pool)
			if _, err := (journal.Journal{}).Append(t.Context(), tx, "idle", journal.Any, event.Event{
				Type: "scored", Payload: []byte(`{"player": "ann", "points": 2}`),
			}); err != nil {
				t.Fatal(err)
			}
			floor := query[int64](t, pool, `SELECT max(position) FROM tidemark.journal`)
			for i := range 20 {
				score(t, pool, fmt.Sprint("after", i), scored{"ann", 3}, scored{"bob", 3})
			}
			within(t, "what came before is applied", func() bool {
				return games(t, pool, "ann") == "1 1" && games(t, pool, "bob") == "1 1" &&
					query[bool](t, pool, `SELECT bool_and(position >= $1) FROM tidemark.readers`, floor)
			})
			other := workerOf(t, pool, nil, s.projections()...)
			drain(t, other) // takes nothing either
			if g := games(t, pool, "ann") + ", " + games(t, pool, "bob"); g != "1 1, 1 1" {
				t.Errorf("games behind the floor: %s", g)
			}
			end := tx.Rollback
			if commits {
				end = tx.Commit
			}
			if err := end(t.Context()); err != nil {
				t.Fatal(err)
			}
			within(t, "all is applied", func() bool { return games(t, pool, "bob") == "21 21" })
			within(t, "all places are at the end", func() bool {
				return query[bool](t, pool, `SELECT bool_and(position >= (SELECT max(position) FROM tidemark.journal))
					FROM tidemark.readers`)
			})
			expectScores(t, pool, nil)
		})
	}
}

// TestALockedRowDelaysItsKeyAlone locks a row of each projection.
func TestALockedRowDelaysItsKeyAlone(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 3} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			s := &scores{partitions: partitions}
			polling(t, pool, func(c *projector.Config) { c.OnFailure = projection.Policy{} },
				append(s.projections(), ordered("log"))...)
			score(t, pool, "game", scored{"ann", 1}, scored{"bob", 1}, scored{"cid", 1})
			within(t, "the rows are there", func() bool { return games(t, pool, "bob") == "1 1" && games(t, pool, "cid") == "1 1" })
			tx := began(t, pool)
			for _, sql := range []string{
				`SELECT FROM tidemark_views.board WHERE key = 'bob' FOR UPDATE`,
				`SELECT FROM tidemark_views.list WHERE player = 'bob' FOR UPDATE`,
			} {
				if _, err := tx.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 10 {
				score(t, pool, fmt.Sprint("game", i), scored{"bob", 2}, scored{"ann", 2}, scored{"cid", 2})
			}
			appendMoves(t, pool, "campaign", 1, 2, 3)
			within(t, "other keys go on", func() bool {
				return games(t, pool, "ann") == "11 11" && games(t, pool, "cid") == "11 11"
			})
			within(t, "campaigns go on", func() bool {
				return query[int](t, pool, `SELECT count(*) FROM tidemark.outbox`) == 0
			})
			if g := games(t, pool, "bob"); g != "1 1" {
				t.Errorf("games of the locked rows: %s", g)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			within(t, "the key catches up", func() bool { return games(t, pool, "bob") == "11 11" })
			expectScores(t, pool, nil)
			within(t, "nothing is behind", func() bool {
				return query[int](t, pool, `SELECT count(*) FROM tidemark.failed`) == 0
			})
			if n := query[int](t, pool, `SELECT count(*) FROM tidemark.failure_log WHERE error_class <> 'lock'`); n > 0 {
				t.Errorf("%d failures are not the lock's", n)
			}
		})
	}
}

// TestAnEventThatTakesTooLongHoldsBackItsKeyAlone has a handler that waits for its context, or does not.
func TestAnEventThatTakesTooLongHoldsBackItsKeyAlone(t *testing.T) {
	t.Parallel()
	for _, heeds := range []bool{true, false} {
		t.Run(fmt.Sprintf("and_heeds_its_context_%v", heeds), func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			quick := make(chan struct{})
			list := &projection.Handlers{
				Name: "list", Version: 1, Scope: projection.ScopeJournal, Tables: `CREATE TABLE list (player text, points int)`,
				Key: func(e event.Event) (string, error) {
					p, err := event.Decode[scored](e)
					return p.Player, err
				},
				On: []projection.Handler{
					projection.Handle("scored", func(ctx context.Context, g *projection.Group, _ event.Event, p scored) error {
						if p.Points < 0 {
							select {
							case <-quick:
							case <-ctx.Done():
								if heeds {
									return ctx.Err()
								}
								<-quick
							}
						}
						g.Queue(`INSERT INTO list VALUES ($1, $2)`, p.Player, p.Points)
						return nil
					}),
				},
			}
			polling(t, pool, func(c *projector.Config) {
				c.ApplyTimeout, c.GroupEvents, c.OnFailure = 200*time.Millisecond, 8, projection.Policy{}
			}, list)
			score(t, pool, "a", scored{"ann", 1}, scored{"bob", 2}, scored{"ann", -3}, scored{"bob", 4}, scored{"ann", 5})
			score(t, pool, "b", scored{"bob", 6}, scored{"ann", 7})
			const rows = `SELECT coalesce(string_agg(player || points, ' ' ORDER BY player, ctid), '') FROM tidemark_views.list`
			within(t, "the other key goes on", func() bool { return query[string](t, pool, rows) == "ann1 bob2 bob4 bob6" })
			expectText(t, pool, "failure", "ann deadline", `SELECT concat_ws(' ', campaign_id, error_code) FROM tidemark.failed`)
			close(quick)
			within(t, "the key catches up", func() bool {
				return query[string](t, pool, rows) == "ann1 ann-3 ann5 ann7 bob2 bob4 bob6"
			})
		})
	}
}
