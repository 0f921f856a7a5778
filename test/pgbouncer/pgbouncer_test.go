package pgbouncer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestBehindPgBouncerInTransactionMode(t *testing.T) {
	t.Parallel()
	for _, execMode := range []string{"cache_describe", "exec"} {
		for listen, noListen := range map[string]bool{"and_a_listen_that_hears_nothing": false, "without_listening": true} {
			t.Run(fmt.Sprintf("all_is_applied_by_polling_with_%s_%s", execMode, listen), func(t *testing.T) {
				t.Parallel()
				pool := pgtest.New(t)
				url := startBouncer(t, pool, execMode)
				failures := tally.WatchFailures(t, pool)
				for i := range 2 {
					tally.Run(t, projector.Config{
						Pool: tally.Pool(t, url, fmt.Sprintf("worker-%d", i), 6), Projections: tally.Both(), LeaseTTL: time.Second,
						PollInterval: 100 * time.Millisecond, NoListen: noListen,
					})
				}
				load := tally.Load{
					Pool: tally.Pool(t, url, "writer", 4), Writers: 4, Campaigns: 30,
					Pause: time.Millisecond,
				}.Start(t)
				tally.Eventually(t, "there is a load", func(context.Context) (bool, error) { return load.Appended() > 500, nil })
				load.Stop(t, pool)
				tally.Settle(t, pool, "default")
				tally.Verify(t, pool, "")
				if n := failures(); n > 0 {
					t.Errorf("%d failures were put down to a projection", n)
				}
			})
		}
	}
}

func TestBehindPgBouncerInTransactionModeAcrossCampaigns(t *testing.T) {
	t.Parallel()
	for _, execMode := range []string{"cache_describe", "exec", "simple_protocol"} {
		t.Run("all_is_applied_by_polling_with_"+execMode, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			url := startBouncer(t, pool, execMode)
			failures := tally.WatchFailures(t, pool)
			for i := range 2 {
				tally.Run(t, projector.Config{
					Pool: tally.Pool(t, url, fmt.Sprintf("worker-%d", i), 6), Projections: tally.Across(3, nil),
					LeaseTTL: 2 * time.Second, PollInterval: 100 * time.Millisecond, NoListen: true,
				})
			}
			load := tally.Load{
				Pool: tally.Pool(t, url, "writer", 4), Writers: 4, Campaigns: 30, Amounts: 20, Pause: time.Millisecond,
			}.Start(t)
			tally.Eventually(t, "there is a load", func(context.Context) (bool, error) { return load.Appended() > 500, nil })
			load.Stop(t, pool)
			tally.SettleAcross(t, pool)
			tally.VerifyAcross(t, pool, nil)
			if n := failures(); n > 0 {
				t.Errorf("%d failures were put down to a projection", n)
			}
		})
	}
}
