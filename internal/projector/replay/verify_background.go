package replay

import (
	"context"
	"errors"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// Watch verifies campaigns for as long as the projector runs, one after the other at
// [Config].VerifyRate and round and round, from one at random on. Of what it finds it tells the log
// and a counter, and mends nothing.
func (y *Replayer) Watch(ctx context.Context) {
	tick := time.NewTicker(time.Minute / time.Duration(y.Cfg.VerifyRate))
	defer tick.Stop()
	after, err := lease.Some(ctx, y.Cfg.Pool, y.Cfg.ConsumerGroup)
	for failures := 0; ; {
		if err != nil && ctx.Err() == nil {
			y.Cfg.Logger.WarnContext(ctx, "campaign not verified", "campaign", after, "error", err)
			registry.Sleep(ctx, y.Backoff(failures))
			failures++
		} else {
			failures = 0
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		after, err = y.watchNext(ctx, after)
	}
}

// watchNext verifies the campaign that comes next, and answers it; "" at the end.
func (y *Replayer) watchNext(ctx context.Context, after string) (string, error) {
	ids, err := feed.CampaignsAfter(ctx, y.Cfg.Pool, after, 1)
	if err != nil || len(ids) == 0 {
		return "", err
	}
	for _, projection := range y.Cfg.Projections {
		if err := y.watchOne(ctx, projection.Spec().Name, ids[0]); err != nil {
			return ids[0], err
		}
	}
	return ids[0], nil
}

func (y *Replayer) watchOne(ctx context.Context, name, campaignID string) error {
	first := Difference{}
	report, err := y.Verify(ctx, VerifyRequest{
		Projection: name, Campaigns: []string{campaignID}, Concurrency: 1,
		OnDifference: func(d Difference) {
			if first.Kind == "" {
				first = d
			}
		},
	})
	switch {
	case errors.Is(err, ErrNotVerifiable), errors.Is(err, registry.ErrRegistered): // nothing to be done, or not yet
		return nil
	case err != nil:
		return err
	}
	y.Metrics.Verify.Campaigns.WithLabelValues(name).Add(float64(report.Campaigns))
	if n := report.Differences(); n > 0 {
		y.Metrics.Verify.Mismatches.WithLabelValues(name).Add(float64(n))
		y.Cfg.Logger.ErrorContext(ctx, "rows are not as the journal says", "projection", name, "campaign", campaignID,
			"differences", n, "kind", first.Kind, "table", first.Table, "error", first.Err)
	}
	return nil
}
