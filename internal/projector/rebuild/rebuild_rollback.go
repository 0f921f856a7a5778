package rebuild

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// ErrOtherTables is returned by [Rollback] when the tables that are kept are not those that [RollbackOptions] names.
var ErrOtherTables = errors.New("other tables are kept by now than when the rollback was asked for: look at the " +
	"projection again")

// RollbackOptions says how tables that were replaced come back.
type RollbackOptions struct {
	// campaigns in which they may be behind: they show what they showed then, until a worker that has
	// their version has caught up; -1: any number
	AllowBehind int64
	Keep        time.Duration // how long those that make way are kept in turn; default 24h
	Kept        Kept          // the tables that come back, as [CheckRollback] answered them; default: whichever are kept
}

// Kept are tables that were replaced.
type Kept struct {
	Version      int
	RegisteredAt time.Time // tells them from others of the same version
}

// CheckRollback answers the tables that [Rollback] would put back, or the error that it would
// return before it exchanges anything. It takes no locks.
//
// Errors are those of [Rollback], but for [ErrOtherTables].
func CheckRollback(ctx context.Context, db journal.Querier, name string, o RollbackOptions) (_ Kept, err error) {
	defer rows.Explain(&err, "roll projection %q back", name)
	sets, err := readSets(ctx, db, querySets, name)
	if err != nil {
		return Kept{}, err
	}
	kept, err := returning(sets, name)
	if err != nil {
		return Kept{}, err
	}
	more, err := o.tooFarBehind(ctx, db, kept)
	if err == nil && more {
		err = o.behindError(ctx, db, kept)
	}
	return Kept{kept.Version, kept.RegisteredAt}, err
}

// returning answers the tables that a rollback puts back.
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

// tooFarBehind counts no more campaigns than are allowed.
func (o RollbackOptions) tooFarBehind(ctx context.Context, db journal.Querier, kept *lockedSet) (more bool,
	err error,
) {
	if o.AllowBehind < 0 {
		return false, nil
	}
	return rows.One(ctx, db, pgx.RowTo[bool], "", queryMoreBehind, kept.ConsumerGroup, kept.Name, o.AllowBehind)
}

// behindError says in how many campaigns tables are behind. It counts all of them.
func (o RollbackOptions) behindError(ctx context.Context, db journal.Querier, kept *lockedSet) error {
	n, err := rows.One(ctx, db, pgx.RowTo[int64], "", queryCountBehind, kept.ConsumerGroup, kept.Name)
	if err != nil {
		return ErrBehind
	}
	return fmt.Errorf("%w in %d campaigns, allowed are %d: run a worker that has version %d until they have caught up, "+
		"or allow them",
		ErrBehind, max(n, o.AllowBehind+1), o.AllowBehind, kept.Version)
}

// Rollback puts the tables that a rebuild has replaced in their place again. Those that make way
// are kept in turn, so that a rollback can be rolled back; workers do not build their version again
// by themselves.
//
// It runs whatever the owner of the read models has made in their schema: call it as the role of
// the workers, and as none with more rights.
//
// Errors are [ErrUnknownProjection], [ErrRebuilding], [ErrNoPrevious], [ErrBehind],
// [ErrOtherTables] and those of the database.
func Rollback(ctx context.Context, db registry.Beginner, name string, o RollbackOptions, act failed.Act) (err error) {
	defer rows.Explain(&err, "roll projection %q back", name)
	if o.Keep == 0 {
		o.Keep = defaultKeep
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
		more, err := o.tooFarBehind(ctx, tx, kept)
		if err != nil {
			return err
		}
		if more {
			behind = kept
			return ErrBehind
		}
		return swap(ctx, tx, name, registry.PreviousTables, o.Keep, sets[name].Version, act, "rolled_back")
	})
	if behind != nil { // they are not counted under the lock
		err = o.behindError(ctx, db, behind)
	}
	return err
}
