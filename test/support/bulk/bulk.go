// Package bulk acts on all failed campaigns that match a filter, like operations do, but in one
// transaction.
package bulk

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/failed"
)

// Requeue requeues the campaigns, up to the filter's limit, and returns them.
func Requeue(ctx context.Context, tx pgx.Tx, f failed.Filter, act failed.Act) ([]failed.Key, error) {
	return each(ctx, tx, f, act, failed.RequeuePlaces)
}

// Resolve resolves the failing event of each campaign.
func Resolve(ctx context.Context, tx pgx.Tx, f failed.Filter, act failed.Act) ([]failed.Key, error) {
	return each(ctx, tx, f, act, failed.ResolvePlaces)
}

func each(
	ctx context.Context, tx pgx.Tx, f failed.Filter, act failed.Act,
	do func(context.Context, pgx.Tx, []failed.Place, failed.Act) ([]failed.Key, error),
) ([]failed.Key, error) {
	keys := []failed.Key{}
	for limit := f.Limit; ; f.Limit = limit - len(keys) { // rows that others are writing do not count
		places, err := failed.Choose(ctx, tx, f)
		if err != nil {
			return nil, err
		}
		fresh := slices.DeleteFunc(slices.Clone(places), func(p failed.Place) bool { return slices.Contains(keys, p.Key) })
		done, err := do(ctx, tx, fresh, act)
		if err != nil {
			return nil, err
		}
		if keys = append(keys, done...); limit == 0 || len(keys) == limit || len(places) < f.Limit {
			return keys, nil
		}
		f.After = &places[len(places)-1]
	}
}
