package projector_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestWorkersVerifyInTheBackground(t *testing.T) {
	t.Parallel()
	pool, registry := pgtest.New(t), prometheus.NewRegistry()
	p, err := projector.New(projector.Config{
		Pool: pool, Projections: []projector.Projection{counters(), ledger()}, Registerer: registry,
		PollInterval: 10 * time.Millisecond, NoListen: true, Concurrency: 1,
		VerifyRate: 6000,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, campaign := range []string{"a", "b", "c"} {
		appendMoves(t, pool, campaign, 1, 2, 3)
	}
	drain(t, p)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	within(t, "two rounds have passed", func() bool {
		return metric(t, registry, "tidemark_verify_campaigns_total") >= 12
	})
	if n := metric(t, registry, "tidemark_verify_mismatches_total"); n != 0 {
		t.Errorf("%v differences, and nothing was changed", n)
	}
	exec(t, pool, `DELETE FROM ledger WHERE campaign_id = 'b' AND seq = 2`)
	within(t, "it is found", func() bool { return metric(t, registry, "tidemark_verify_mismatches_total") > 0 })
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
