package rebuild

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestARebuildThatBeganAnewIsNotWithdrawn has a worker that has seen an aborted rebuild withdraw its
// tables, after an operator has removed them and begun another rebuild.
func TestARebuildThatBeganAnewIsNotWithdrawn(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	request := func() *lockedSet {
		if _, err := pool.Exec(t.Context(), queryRequest, "it~next", "default", 0); err != nil {
			t.Fatal(err)
		}
		sets, err := readSets(t.Context(), pool, querySets, "it")
		if err != nil {
			t.Fatal(err)
		}
		return sets["it~next"]
	}
	aborted := request()
	if _, err := pool.Exec(t.Context(), queryForgetRow, "it~next"); err != nil {
		t.Fatal(err)
	}
	anew := request()
	for _, tt := range []struct {
		seen *lockedSet
		left int64
	}{{aborted, 1}, {anew, 0}} {
		if err := withdraw(t.Context(), pool, "it", registry.NextTables, still(tt.seen.Registered)); err != nil {
			t.Error(err)
		}
		left, err := rows.One(t.Context(), pool, pgx.RowTo[int64], "", `SELECT count(*) FROM tidemark.projections
			WHERE name = 'it~next' AND version = 0`)
		if err != nil || left != tt.left {
			t.Errorf("%d rebuilds are left, want %d; error %v", left, tt.left, err)
		}
	}
}

// TestTwoRequestsOfARebuildMeet has the second wait for the first.
func TestTwoRequestsOfARebuildMeet(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), queryRequest, "it", "default", 1); err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if begun, err := StartRebuild(t.Context(), tx, "it", Options{}, failed.Act{By: "anna"}); err != nil || !begun {
			t.Errorf("the first has begun: %t, %v", begun, err)
		}
		go func() {
			begun, err := StartRebuild(t.Context(), pool, "it", Options{}, failed.Act{By: "bert"})
			if begun {
				t.Error("the second has begun too")
			}
			second <- err
		}()
		for waits := false; !waits; {
			var err error
			if waits, err = rows.One(t.Context(), pool, pgx.RowTo[bool], "", `SELECT EXISTS (SELECT FROM pg_stat_activity
				WHERE $1 = ANY (pg_blocking_pids(pid)))`, tx.Conn().PgConn().PID()); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Error(err)
	}
}
