package rebuild

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// ErrOtherTables is returned by [Rollback] if the kept tables are not those that [RollbackOptions] names.
var ErrOtherTables = errors.New("the kept tables have changed since the rollback was requested: look at the " +
	"projection again")

// RollbackOptions configures the return of replaced tables.
type RollbackOptions struct {
	// campaigns in which they may be behind, or events if they are across campaigns: they show old rows
	// until a worker that has their version has caught up; -1: any number
	AllowBehind int64
	Keep        time.Duration // how long the tables that make way are kept; default 24h
	Kept        Kept          // the tables that come back, from [CheckRollback]; default: whichever are kept
}

// Kept names tables that were replaced.
type Kept struct {
	Version      int
	RegisteredAt time.Time // tells them from others of the same version
}

// CheckRollback returns the tables that [Rollback] would put back, or the error that it would
// return before the swap. It takes no locks.
//
// Errors are those of [Rollback], except [ErrOtherTables].
func CheckRollback(ctx context.Context, db event.Querier, name string, o RollbackOptions) (_ Kept, err error) {
	defer rows.Explain(&err, "roll projection %q back", name)
	sets, err := readSets(ctx, db, querySets, name)
	if err != nil {
		return Kept{}, err
	}
	kept, err := returning(sets, name)
	if err != nil {
		return Kept{}, err
	}
	more, err := o.tooFarBehind(ctx, db, name, kept, near)
	if err == nil && more {
		err = o.behindError(ctx, db, name, kept)
	}
	return Kept{kept.Version, kept.RegisteredAt}, err
}

func returning(rows map[string]*lockedSet, name string) (*lockedSet, error) {
	kept := rows[registry.PreviousTables.Of(name)]
	switch {
	case rows[name] == nil:
		return nil, ErrUnknownProjection
	case rows[registry.NextTables.Of(name)] != nil:
		return nil, ErrRebuilding
	case kept == nil || kept.Version == Withdrawn:
		return nil, ErrNoPrevious
	case kept.Paused:
		return nil, fmt.Errorf("%w: %s is paused, resume it and wait", ErrBehind, kept.Name)
	}
	return kept, nil
}

// tooFarBehind reports whether more campaigns are behind than allowed, or tables across campaigns by
// more events. It counts no further.
func (o RollbackOptions) tooFarBehind(
	ctx context.Context, db event.Querier, name string, kept *lockedSet, events int64,
) (more bool, err error) {
	if o.AllowBehind < 0 {
		return false, nil
	}
	events = max(events, o.AllowBehind)
	if n, err := ledger.Behind(ctx, db, kept.Name, name, events+1); err != nil || n > events {
		return true, err
	}
	return rows.One(ctx, db, pgx.RowTo[bool], "", queryMoreBehind, kept.ConsumerGroup, kept.Name, o.AllowBehind)
}

// behindError returns [ErrBehind] with the number of campaigns or events. It counts all of them.
func (o RollbackOptions) behindError(ctx context.Context, db event.Querier, name string, kept *lockedSet) error {
	const remedy = "run a worker that has version %d until they have caught up, or allow them"
	if n, err := ledger.Behind(ctx, db, kept.Name, name, math.MaxInt64); err == nil && n > o.AllowBehind {
		return fmt.Errorf("%w by %d events, allowed are %d: "+remedy, ErrBehind, n, o.AllowBehind, kept.Version)
	}
	n, err := rows.One(ctx, db, pgx.RowTo[int64], "", queryCountBehind, kept.ConsumerGroup, kept.Name)
	if err != nil {
		return ErrBehind
	}
	return fmt.Errorf("%w in %d campaigns, allowed are %d: "+remedy, ErrBehind, max(n, o.AllowBehind+1),
		o.AllowBehind, kept.Version)
}

// Rollback puts the tables that a rebuild has replaced back in their place. The tables that make
// way are kept in turn, so a rollback can be rolled back. Workers do not build their version again
// by themselves.
//
// Rollback runs code that the owner of the read models has put into their schema. Call it as the
// role of the workers, and never as one with more rights.
//
// Errors are [ErrUnknownProjection], [ErrRebuilding], [ErrNoPrevious], [ErrBehind],
// [ErrOtherTables] and those of the database.
func Rollback(ctx context.Context, db registry.Beginner, name string, o RollbackOptions, act failed.Act) (err error) {
	defer rows.Explain(&err, "roll projection %q back", name)
	o.Keep = cmp.Or(o.Keep, defaultKeep)
	if o.AllowBehind >= 0 {
		if err := letPass(ctx, db, name, registry.PreviousTables, true); err != nil && !errors.Is(err, ErrNotYet) {
			return err
		}
	}
	var behind *lockedSet
	err = registry.Exclusively(ctx, db, name, func(tx pgx.Tx) error {
		behind = nil
		sets, err := lockSets(ctx, tx, name)
		if err != nil {
			return err
		}
		kept, err := returning(sets, name)
		if err != nil {
			return err
		}
		if o.Kept != (Kept{}) && (kept.Version != o.Kept.Version || !kept.RegisteredAt.Equal(o.Kept.RegisteredAt)) {
			return ErrOtherTables
		}
		more, err := o.tooFarBehind(ctx, tx, name, kept, 0)
		if err != nil {
			return err
		}
		if more {
			behind = kept
			return ErrBehind
		}
		return swap(ctx, tx, name, registry.PreviousTables, o.Keep, sets[name].Version, act, "rolled_back")
	})
	if behind != nil { // not counted under the lock
		err = o.behindError(ctx, db, name, behind)
	}
	return err
}
