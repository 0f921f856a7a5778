package projector_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestALostLeaseCostsItsCampaignAlone takes two of forty campaigns away while their group is
// applied. It counts the transactions that wrote the rows.
func TestALostLeaseCostsItsCampaignAlone(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	var once sync.Once
	// A projector's first claim takes a quarter of ClaimCampaigns: all forty.
	p, err := projector.New(projector.Config{
		Pool: pool, Projections: []projection.Projection{ordered("log")},
		Concurrency: 1, ClaimCampaigns: 160, OnStep: func(s kind.Step) {
			if s != kind.StepApplied {
				return
			}
			once.Do(func() {
				err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					return lease.Fence(t.Context(), tx, "default", []string{"c07", "c21"})
				})
				if err != nil {
					t.Error(err)
				}
			})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		appendMoves(t, pool, fmt.Sprintf("c%02d", i), 1)
	}
	drained(t, p, 40)
	if n := query[int](t, pool, `SELECT count(DISTINCT xmin::text) FROM log
		WHERE campaign_id NOT IN ('c07', 'c21')`); n != 1 {
		t.Errorf("the campaigns that were not taken away were applied in %d transactions, want 1", n)
	}
	if n := query[int](t, pool, `SELECT count(*) FROM log`); n != 40 {
		t.Errorf("%d rows, want 40", n)
	}
	if query[bool](t, pool, `SELECT EXISTS (SELECT FROM tidemark.failure_log)`) {
		t.Error("a lost lease came out as a failure")
	}
}
