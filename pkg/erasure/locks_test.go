package erasure_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/erasure"
)

// TestAnErasureLocksLeasesBeforeFailedCampaigns stands in for a worker, which locks a lease and then the
// row of the campaign that failed.
func TestAnErasureLocksLeasesBeforeFailedCampaigns(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	p, err := projectorOf(s.Pool, s.catalogue)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.order("shop", "failing", 2)
	ctx, stop := context.WithCancel(t.Context())
	worker := make(chan error, 1)
	go func() { worker <- p.Run(ctx) }()
	const failed = `FROM tidemark.failed WHERE campaign_id = 'shop' AND projection = 'shops'`
	s.within("the campaign has failed", func() bool {
		return s.value(`SELECT count(*) `+failed+` AND error_message <> ''`) == "1"
	})
	stop()
	if err := <-worker; err != nil {
		t.Fatal(err)
	}

	erased := make(chan error, 1)
	if err := pgx.BeginFunc(t.Context(), s.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SELECT FROM tidemark.leases WHERE campaign_id = 'shop' FOR UPDATE`); err != nil {
			return err
		}
		go func() {
			_, err := erasure.Erase(t.Context(), s.Pool, erasure.Request{Campaign: "shop", By: "anna", Reason: "a test"})
			erased <- err
		}()
		const waits = `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND $1 = ANY (pg_blocking_pids(pid))`
		s.within("the erasure waits for the lease", func() bool { return s.value(waits, tx.Conn().PgConn().PID()) != "" })
		if n := s.value(`SELECT count(*) FROM pg_locks WHERE relation = 'tidemark.failed'::regclass AND mode LIKE 'Row%'
			AND pid = (`+waits+`)`, tx.Conn().PgConn().PID()); n != "0" {
			t.Errorf("the erasure that waits for the lease has %s locks on failed campaigns", n)
		}
		_, err := tx.Exec(t.Context(), `SELECT `+failed+` FOR UPDATE`)
		return err
	}); err != nil {
		t.Errorf("the worker: %v", err)
	}
	if err := <-erased; err != nil {
		t.Errorf("the erasure: %v", err)
	}
	if got := s.value(`SELECT error_message ` + failed); got != "" && got != "erased" {
		t.Errorf("the campaign's failure tells %q", got)
	}
}
