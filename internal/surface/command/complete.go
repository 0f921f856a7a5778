package command

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
)

// completions is how many ids a shell is offered at once.
const completions = 50

func campaignIDs(ctx context.Context, pool *pgxpool.Pool, prefix string) ([]string, error) {
	return feed.Campaigns(ctx, pool, prefix, completions)
}

func groupNames(ctx context.Context, pool *pgxpool.Pool, _ string) ([]string, error) {
	groups, err := outbox.Groups(ctx, pool)
	var names []string
	for _, g := range groups {
		names = append(names, g.Name)
	}
	return names, err
}

// deferredCampaigns offers campaigns in which something is behind: there are few of them, and it is
// those that a user looks for.
func deferredCampaigns(ctx context.Context, pool *pgxpool.Pool, _ string) ([]string, error) {
	list, err := deferred.List(ctx, pool, deferred.Filter{
		Status: []deferred.Status{deferred.Failed, deferred.Dead},
		Limit:  completions,
	})
	var ids []string
	for _, p := range list {
		ids = append(ids, p.CampaignID)
	}
	slices.Sort(ids)
	return slices.Compact(ids), err
}

func projectionNames(ctx context.Context, pool *pgxpool.Pool, _ string) ([]string, error) {
	all, err := rebuild.Projections(ctx, pool)
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names, err
}

func fingerprints(ctx context.Context, pool *pgxpool.Pool, _ string) ([]string, error) {
	stats, err := deferred.Stats(ctx, pool, deferred.Filter{})
	if err != nil {
		return nil, err
	}
	var values []string
	for _, t := range stats.Fingerprints {
		values = append(values, t.Value)
	}
	return values, nil
}
