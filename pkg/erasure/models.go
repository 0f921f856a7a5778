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

// readModels chooses which projections are replayed, and which are rebuilt.
func (e *run) readModels(ctx context.Context) error {
	all, err := rebuild.Projections(ctx, e.db)
	if err != nil {
		return err
	}
	for _, p := range all {
		live, set := registry.Split(p.Name)
		if p.Version == rebuild.Withdrawn {
			continue
		}
		if p.Scope == "campaign" && set != registry.NextTables {
			err := failed.Resettable(ctx, e.db, p.Group, p.Name)
			if err == nil {
				e.resets = append(e.resets, p)
				continue
			}
			if !errors.Is(err, failed.ErrNotResettable) {
				return err
			}
		}
		if set != registry.PreviousTables {
			e.rebuilds = append(e.rebuilds, live)
		}
	}
	slices.Sort(e.rebuilds)
	e.rebuilds = slices.Compact(e.rebuilds)
	return nil
}

// mostFailed is how many failed campaigns the tables of a rebuild may have at the swap.
const mostFailed = 1_000_000

// rebuild has projections rebuilt whose campaigns cannot be replayed. A rebuild that is under way may
// have copied what was erased, so it begins anew. Tables that were replaced earlier are dropped.
func (e *run) rebuild(ctx context.Context) error {
	for _, name := range e.rebuilds {
		err := rebuild.AbortRebuild(ctx, e.db, name, e.act)
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
