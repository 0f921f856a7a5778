package admin

import (
	"context"
	"fmt"
	"slices"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/outbox"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// What an operation is about must be there when it is started: no worker would ever do one that is about nothing.

// knownGroup answers [outbox.ErrNotRegistered] for a consumer group that there is not.
func knownGroup(ctx context.Context, db journal.Querier, name string) error {
	groups, err := outbox.Groups(ctx, db)
	if err == nil && !slices.ContainsFunc(groups, func(g outbox.Group) bool { return g.Name == name }) {
		err = fmt.Errorf("group %q: %w", name, outbox.ErrNotRegistered)
	}
	return err
}

// registered answers a projection, or [projector.ErrUnknownProjection].
func registered(ctx context.Context, db journal.Querier, name string) (projector.Registered, error) {
	all, err := projector.Projections(ctx, db)
	if err != nil {
		return projector.Registered{}, err
	}
	i := slices.IndexFunc(all, func(p projector.Registered) bool { return p.Name == name })
	if i < 0 {
		return projector.Registered{}, fmt.Errorf("projection %q: %w", name, projector.ErrUnknownProjection)
	}
	return all[i], nil
}

// published answers [publisher.ErrNotFound] for a pair that there is not.
func published(ctx context.Context, db journal.Querier, key publisher.Key) error {
	pairs, err := publisher.List(ctx, db, key)
	if err == nil && len(pairs) == 0 {
		err = fmt.Errorf("%s: %w", key, publisher.ErrNotFound)
	}
	return err
}
