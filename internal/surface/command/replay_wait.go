package command

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/progress"
	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

const (
	// waitInterval is how long a wait sleeps between looks.
	waitInterval = 250 * time.Millisecond

	// campaignsLookedAt is up to how many campaigns are looked at one by one; beyond that all pairs of
	// the projection are counted.
	campaignsLookedAt = 20

	// campaignPairs is how many projections of one campaign are looked at.
	campaignPairs = 1000
)

// await shows progress until nothing of the replay is on its way, and answers how many pairs are dead then.
func (r replay) await(ctx context.Context, env *cli.Env, pool *pgxpool.Pool, n int64) (dead int64, err error) {
	meter := progress.New(env.Err, "pairs replayed", n)
	tick := time.NewTicker(waitInterval)
	defer tick.Stop()
	for {
		left, err := r.left(ctx, pool)
		if err == nil && left.Rebuilding+left.Failed == 0 {
			meter.Set(n-left.Dead, progress.Unknown)
			meter.Done()
			return left.Dead, nil
		}
		if err == nil {
			meter.Set(max(0, n-left.Rebuilding-left.Failed-left.Dead), progress.Unknown)
			select {
			case <-tick.C:
				continue
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			err := cli.Exitf(cli.ExitPartial, "interrupted: the wait, not the replay, which goes on by itself")
			return 0, cli.Hint(err, "tidemark lag --watch")
		}
		return 0, err
	}
}

// left sums up the pairs that are not done.
func (r replay) left(ctx context.Context, pool *pgxpool.Pool) (sum deferred.Left, err error) {
	if n := len(r.request.Campaigns); n == 0 || n > campaignsLookedAt {
		all, err := deferred.Remaining(ctx, pool, r.request.Group, r.request.Projection)
		for _, left := range all {
			sum.Rebuilding += left.Rebuilding
			sum.Failed += left.Failed
			sum.Dead += left.Dead
		}
		return sum, err
	}
	for _, id := range r.request.Campaigns {
		list, err := deferred.List(ctx, pool, deferred.Filter{
			Group: r.request.Group, Projection: r.request.Projection,
			CampaignID: id, Limit: campaignPairs,
		})
		if err != nil {
			return sum, err
		}
		for _, p := range list {
			switch p.Status {
			case deferred.Rebuilding:
				sum.Rebuilding++
			case deferred.Failed:
				sum.Failed++
			case deferred.Dead:
				sum.Dead++
			}
		}
	}
	return sum, nil
}
