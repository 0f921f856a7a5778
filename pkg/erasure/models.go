package erasure

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/failed"
)

// readModels returns the sets of tables whose campaigns are replayed, and the projections that are
// rebuilt.
func (e *run) readModels(ctx context.Context) (resets []rebuild.Registered, rebuilds []string, err error) {
	all, err := rebuild.Projections(ctx, e.db)
	for _, p := range all {
		live, set := registry.Split(p.Name)
		if p.Version == rebuild.Withdrawn {
			continue
		}
		if p.Scope == "campaign" && set != registry.NextTables {
			err := failed.Resettable(ctx, e.db, p.Group, p.Name)
			if err == nil {
				resets = append(resets, p)
				continue
			}
			if !errors.Is(err, failed.ErrNotResettable) {
				return nil, nil, err
			}
		}
		if set != registry.PreviousTables {
			rebuilds = append(rebuilds, live)
		}
	}
	return resets, rebuilds, err
}

// replayed reports whether this call and those that were interrupted have had all their campaigns replayed.
func (e *run) replayed(p rebuild.Registered) bool {
	return slices.ContainsFunc(e.resets, func(r rebuild.Registered) bool {
		return r.Name == p.Name && r.RegisteredAt.Equal(p.RegisteredAt)
	}) && (!e.continued || !p.RegisteredAt.After(e.done.BeganAt))
}

// mostFailed is how many failed campaigns the tables of a rebuild may have at the swap.
const mostFailed = 1_000_000

// rebuild has projections rebuilt whose campaigns cannot be replayed, or that were registered meanwhile.
// A rebuild under way may have copied what was erased, so it begins anew; one that no worker has begun
// serves several erasures. Tables that were replaced earlier are dropped.
func (e *run) rebuild(ctx context.Context) error {
	now, rebuilds, err := e.readModels(ctx)
	if err != nil {
		return err
	}
	for _, p := range now {
		if live, set := registry.Split(p.Name); set == registry.LiveTables && !e.replayed(p) {
			rebuilds = append(rebuilds, live)
		}
	}
	slices.Sort(rebuilds)
	e.done.Rebuilt = slices.Compact(rebuilds)
	for _, name := range e.done.Rebuilt {
		under, err := rebuild.Rebuilds(ctx, e.db, name)
		if err == nil && !slices.ContainsFunc(under, func(r rebuild.Rebuild) bool {
			return r.ActiveAt == nil
		}) {
			_, err = rebuild.AbortRebuild(ctx, e.db, name, e.act)
		}
		if err != nil && !errors.Is(err, rebuild.ErrNoRebuild) {
			return err
		}
		// Keys that failed before may fail again: they must not keep what was erased in the live tables.
		keep, failed := time.Duration(0), int64(mostFailed)
		o := rebuild.Options{Keep: &keep, AllowFailed: &failed}
		if _, err := rebuild.StartRebuild(ctx, e.db, name, o, e.act); err != nil {
			return err
		}
	}
	return rebuild.DropReplaced(ctx, e.db)
}
