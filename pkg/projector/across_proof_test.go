package projector_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	places "github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestWhatWasAppliedAcrossCampaignsCanBeProved finds the places that do not match the journal, also if
// they are not at the same event.
func TestWhatWasAppliedAcrossCampaignsCanBeProved(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	s := &scores{partitions: 3}
	p := workerOf(t, pool, func(c *projector.Config) { c.GroupEvents = 5 }, s.projections()...)
	drain(t, p)
	prove := func(want ...string) {
		t.Helper()
		if got := differing(t, pool); !slices.Equal(got, want) {
			t.Errorf("differing %q, want %q", got, want)
		}
	}
	prove()
	for range 2 {
		for i := range 20 {
			score(t, pool, fmt.Sprint("game", i%3), scored{fmt.Sprint("p", i%7), i + 1})
		}
		drain(t, p)
		prove()
	}
	const back = `UPDATE tidemark.readers r SET position = j.position, applied = j.n, applied_hash = j.hash FROM (SELECT
			max(position) AS position, count(*) AS n, bit_xor(uuid_hash_extended(event_id, 0)) AS hash FROM tidemark.journal
			WHERE position <= $2) j WHERE r.topic = 'board' AND r.publisher = $1`
	exec(t, pool, back, "#1", 20)
	prove() // places at different events
	exec(t, pool, `UPDATE tidemark.readers SET applied = applied + 1 WHERE topic = 'board' AND publisher = '#1'`)
	prove("#1 +1 true")
	exec(t, pool, back, "#1", 20)
	exec(t, pool, `ALTER TABLE tidemark.journal DISABLE TRIGGER USER`)
	exec(t, pool, `UPDATE tidemark.journal SET event_id = gen_random_uuid() WHERE position = 25`)
	prove("#0 +0 false", "#2 +0 false")
	exec(t, pool, `DELETE FROM tidemark.journal WHERE position = 3`)
	prove("#0 +1 false", "#1 +1 false", "#2 +1 false")
}

// differing returns the partitions of the board, of three, whose places do not match the journal.
func differing(t *testing.T, pool *pgxpool.Pool) (found []string) {
	t.Helper()
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		all, err := places.Prove(t.Context(), tx, "board")
		for _, one := range all {
			if one.Differs() {
				found = append(found, fmt.Sprintf("%s %+d %t", one.Partition, one.Applied-one.Journal, one.SameIDs))
			}
		}
		if len(all) != 3 {
			t.Errorf("%d partitions, want 3", len(all))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return found
}
