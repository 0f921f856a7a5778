package projector_test

import (
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/heavy"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// The limit on statements and what the read of a heavy event takes. A read with four times the limit is long enough.
const (
	heavyLimit = time.Second
	heavyTakes = 2500 * time.Millisecond
)

func withHeavyLimit(cfg *projector.Config) { cfg.ApplyTimeout, cfg.Concurrency = heavyLimit, 2 }

func TestAnEventThatOutlastsTheStatementTimeoutIsAppliedAndHoldsUpNoOtherCampaign(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	p := workerOf(t, pool, withHeavyLimit, counters(), ledger())
	drain(t, p)
	appendMoves(t, pool, "heavy", 1, 2, 3)
	for _, campaign := range []string{"a", "b", "z"} {
		appendMoves(t, pool, campaign, 1, 1)
	}
	event := heavy.Make(t, pool, "heavy", 2, heavyTakes)
	drain(t, p)
	if n := query[int](t, pool, `SELECT count(*) FROM ledger`); n != 9 {
		t.Errorf("%d events were applied, want 9", n)
	}
	if n := query[int](t, pool, `SELECT count(*) FROM tidemark.deferred`); n != 0 {
		t.Errorf("%d campaigns are deferred", n)
	}
	if event.Reads(t) < 2 {
		t.Error("no limit has ended a read")
	}
}
