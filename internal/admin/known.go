package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Registered returns a projection, or [rebuild.ErrUnknownProjection].
func Registered(ctx context.Context, db journal.Querier, name string) (rebuild.Registered, error) {
	all, err := rebuild.Projections(ctx, db)
	if err != nil {
		return rebuild.Registered{}, err
	}
	i := slices.IndexFunc(all, func(p rebuild.Registered) bool { return p.Name == name })
	if i < 0 {
		var names []string
		for _, p := range all {
			names = append(names, p.Name)
		}
		there := "there is none yet: the first worker that has one registers it"
		if len(names) > 0 {
			there = "there are " + strings.Join(names, ", ")
		}
		return rebuild.Registered{}, fmt.Errorf("projection %q: %w: %s", name, rebuild.ErrUnknownProjection, there)
	}
	return all[i], nil
}

// Names are the names in a filter. Empty ones match all.
type Names struct{ Group, Projection, Topic, Publisher string }

// UnknownNameError is an unknown name in a filter.
type UnknownNameError struct {
	Kind  string // "group", "projection", "topic" or "publisher"
	Name  string
	Known []string // existing names
}

func (e *UnknownNameError) Error() string {
	known := "none is known yet, the first worker registers some"
	if len(e.Known) > 0 {
		known = "there are " + strings.Join(e.Known, ", ")
	}
	return fmt.Sprintf("no %s %q: %s", e.Kind, e.Name, known)
}

// Check returns an [UnknownNameError] for an unknown name. A removed group or projection is known
// while the failure log mentions it. A projection is also known while it has resolved events.
func (n Names) Check(ctx context.Context, db journal.Querier) error {
	for _, c := range []struct {
		kind, name string
		known      func(ctx context.Context, db journal.Querier) ([]string, error)
		log        failed.LogFilter
	}{
		{"group", n.Group, knownGroups, failed.LogFilter{Group: n.Group, Limit: 1}},
		{"projection", n.Projection, knownProjections, failed.LogFilter{Projection: n.Projection, Limit: 1}},
		{"topic", n.Topic, knownPublications(func(k publications.Key) string { return k.Topic }), failed.LogFilter{}},
		{
			"publisher", n.Publisher, knownPublications(func(k publications.Key) string { return k.Publisher }),
			failed.LogFilter{},
		},
	} {
		if c.name == "" {
			continue
		}
		known, err := c.known(ctx, db)
		if err != nil {
			return err
		}
		if slices.Contains(known, c.name) || c.kind == "projection" &&
			slices.Contains(known, registry.ProjectionOf(c.name)) {
			continue
		}
		if c.log.Limit > 0 {
			records, err := failed.History(ctx, db, c.log)
			if err != nil {
				return err
			}
			if len(records) > 0 {
				continue
			}
		}
		if c.kind == "projection" {
			resolutions, err := failed.Resolutions(ctx, db, failed.ResolutionFilter{Projection: c.name, Limit: 1})
			if err != nil {
				return err
			}
			if len(resolutions) > 0 {
				continue
			}
		}
		return &UnknownNameError{c.kind, c.name, known}
	}
	return nil
}

func knownGroups(ctx context.Context, db journal.Querier) (names []string, err error) {
	all, err := outbox.Groups(ctx, db)
	for _, g := range all {
		names = append(names, g.Name)
	}
	return names, err
}

func knownProjections(ctx context.Context, db journal.Querier) (names []string, err error) {
	all, err := rebuild.Projections(ctx, db)
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names, err
}

func knownPublications(
	part func(publications.Key) string,
) func(ctx context.Context, db journal.Querier) ([]string, error) {
	return func(ctx context.Context, db journal.Querier) (names []string, err error) {
		all, err := publications.List(ctx, db, publications.Key{})
		for _, p := range all {
			names = append(names, part(p.Key))
		}
		slices.Sort(names)
		return slices.Compact(names), err
	}
}
