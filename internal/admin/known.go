package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Registered returns a projection, or [rebuild.ErrUnknownProjection].
func Registered(ctx context.Context, db event.Querier, name string) (rebuild.Registered, error) {
	all, err := rebuild.Projections(ctx, db)
	if err != nil {
		return rebuild.Registered{}, err
	}
	i := slices.IndexFunc(all, func(p rebuild.Registered) bool { return p.Name == name })
	if i < 0 {
		there := "there is none yet: the first worker that has one registers it"
		if names := slice.Of(all, func(p rebuild.Registered) string { return p.Name }); len(names) > 0 {
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

// NamesIn returns the names that get returns by parameter.
func NamesIn(get func(parameter string) string) Names {
	return Names{Group: get("group"), Projection: get("projection"), Topic: get("topic"), Publisher: get("publisher")}
}

// Check returns an [UnknownNameError] for an unknown name. A removed group or projection is known
// while the failure log mentions it. A projection is also known while it has resolved events.
func (n Names) Check(ctx context.Context, db event.Querier) error {
	for _, c := range []struct{ kind, name string }{
		{"group", n.Group}, {"projection", n.Projection}, {"topic", n.Topic}, {"publisher", n.Publisher},
	} {
		if c.name == "" {
			continue
		}
		known, err := Known(ctx, db, c.kind)
		if err != nil {
			return err
		}
		if slices.Contains(known, c.name) || c.kind == "projection" &&
			slices.Contains(known, registry.ProjectionOf(c.name)) {
			continue
		}
		was, err := mentioned(ctx, db, c.kind, c.name)
		if err != nil {
			return err
		}
		if !was {
			return &UnknownNameError{c.kind, c.name, known}
		}
	}
	return nil
}

// mentioned reports whether a group or projection that was removed has left something behind.
func mentioned(ctx context.Context, db event.Querier, kind, name string) (bool, error) {
	log := failed.LogFilter{Limit: 1}
	switch kind {
	case "group":
		log.Group = name
	case "projection":
		log.Projection = name
	default:
		return false, nil
	}
	records, err := failed.History(ctx, db, log)
	if err != nil || len(records) > 0 || kind == "group" {
		return len(records) > 0, err
	}
	resolutions, err := failed.Resolutions(ctx, db, failed.ResolutionFilter{Projection: name, Limit: 1})
	return len(resolutions) > 0, err
}

// Known returns the existing names of a kind: group, projection, topic or publisher. It returns none for
// other kinds.
func Known(ctx context.Context, db event.Querier, kind string) ([]string, error) {
	switch kind {
	case "group":
		all, err := outbox.Groups(ctx, db)
		return slice.Of(all, func(g outbox.Group) string { return g.Name }), err
	case "projection":
		all, err := rebuild.Projections(ctx, db)
		return slice.Of(all, func(p rebuild.Registered) string { return p.Name }), err
	case "topic", "publisher":
		all, err := publications.List(ctx, db, publications.Key{})
		names := slice.Of(all, func(p publications.Publication) string {
			return map[string]string{"topic": p.Topic, "publisher": p.Publisher}[kind]
		})
		slices.Sort(names)
		return slices.Compact(names), err
	}
	return nil, nil
}
