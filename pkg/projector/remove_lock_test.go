package projector_test

import (
	"testing"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestARemovalDeletesPairsOfAllSetsOutsideOfTheRegistrysLock lets another session lock a row in
// tidemark.failed of each set of tables in turn.
func TestARemovalDeletesPairsOfAllSetsOutsideOfTheRegistrysLock(t *testing.T) {
	t.Parallel()
	for _, set := range []string{"", "~next", "~previous"} {
		t.Run("counters"+set, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			other := workerOf(t, pool, nil, ledger())
			drain(t, workerOf(t, pool, nil, ledger(), counters()))
			for _, name := range []string{"counters~next", "counters~previous"} {
				exec(t, pool, `INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state)
					VALUES ($1, 'default', 7, '', '{}', 'active')`, name)
			}
			exec(t, pool, `INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status,
				next_attempt_at)
				SELECT 'c' || c, 'counters' || s, 'default', 1, 'dead', 'infinity'
					FROM generate_series(1, 9) AS c, unnest(ARRAY['', '~next', '~previous']) AS s`)
			_, end := elsewhere(t, pool, `SELECT FROM tidemark.failed WHERE campaign_id = 'c5'
				AND projection = 'counters`+set+`' FOR UPDATE`)
			removed := make(chan error, 1)
			go func() { removed <- rebuild.Remove(t.Context(), pool, "counters", true, ada) }()
			within(t, "it is removed from the registry", func() bool {
				return query[int](t, pool, `SELECT count(*) FROM tidemark.projections WHERE name LIKE 'counters%'`) == 0
			})
			appendMoves(t, pool, "a", 1, 2)
			drain(t, other) // the group goes on
			expectText(t, pool, "events", "2", `SELECT count(*)::text FROM ledger`)
			end()
			if err := <-removed; err != nil {
				t.Error(err)
			}
			expectPairs(t, pool, "")
		})
	}
	t.Run("and what it leaves behind is deleted by the next registration", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		exec(t, pool, `INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status,
			next_attempt_at)
			SELECT 'c' || c, 'counters' || s, 'default', 1, 'dead', 'infinity'
				FROM generate_series(1, 9) AS c, unnest(ARRAY['', '~next', '~previous']) AS s`)
		drain(t, workerOf(t, pool, nil, counters()))
		expectPairs(t, pool, "")
	})
}
