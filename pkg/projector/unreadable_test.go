package projector_test

import (
	"testing"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/unreadable"
)

// An event that the database cannot read makes its campaign dead in each projection. Everything
// else goes on, and the breaker stays closed.
func TestAnEventThatCannotBeReadHoldsUpItsCampaignAlone(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	p := newProjector(t, pool, kinds(t, "x")[:2]...)
	exec(t, pool, `SELECT FROM tidemark.append('bad', '[{"type": "moved", "payload": {"by": 1}}]')`)
	unreadable.Write(t, pool, "bad", "moved", unreadable.Damaged)
	exec(t, pool, `SELECT tidemark.append('good' || i, '[{"type": "moved", "payload": {"by": 1}}]')
		FROM generate_series(1, 20) AS i`)
	drain(t, p)
	if n := query[int](t, pool, "SELECT count(*) FROM z_parent_x"); n != 21 {
		t.Errorf("%d campaigns were applied, want 21", n)
	}
	if n := query[int](t, pool,
		"SELECT count(*) FROM tidemark.failed WHERE campaign_id = 'bad' AND next_seq = 2 AND status = 'dead' AND "+
			"error_class = 'permanent'"); n != 2 {
		t.Errorf("%d pairs are dead at the event, want 2", n)
	}
	if n := query[int](t, pool, "SELECT count(*) FROM tidemark.failed"); n != 2 {
		t.Errorf("%d pairs are behind, want 2", n)
	}
}
