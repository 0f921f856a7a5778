package projector

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/deferred"
)

// RollbackOptions says how tables that were replaced come back.
type RollbackOptions struct {
	AllowBehind int64         // campaigns in which they may be behind: they show what they showed then, until a worker that has their version has caught up; -1: any number
	Keep        time.Duration // how long those that make way are kept in turn; default 24h
}

// Rollback puts the tables that a rebuild has replaced in their place again, with all that they have been given since: workers that have their version went on applying events to them. Those that make way
// are kept in turn, so that a rollback can be rolled back; workers do not begin to build their version again by themselves.
//
// Errors are [ErrUnknownProjection], [ErrRebuilding], [ErrNoPrevious], [ErrBehind] and those of the database.
func Rollback(ctx context.Context, db Beginner, name string, o RollbackOptions, act deferred.Act) error {
	if o.Keep == 0 {
		o.Keep = defaultKeep
	}
	var behind *lockedSet
	err := exclusively(ctx, db, name, func(tx pgx.Tx) error {
		rows, err := lockSets(ctx, tx, name)
		if err != nil {
			return err
		}
		live, kept := rows[name], rows[previousTables.of(name)]
		switch {
		case live == nil:
			return ErrUnknownProjection
		case rows[nextTables.of(name)] != nil:
			return ErrRebuilding
		case kept == nil || kept.Version == withdrawn:
			return ErrNoPrevious
		case kept.Paused:
			return fmt.Errorf("%w: %s is paused, resume it and wait", ErrBehind, kept.Name)
		}
		if o.AllowBehind >= 0 { // no more are counted under the lock than are allowed
			var more bool
			if err := tx.QueryRow(ctx, queryMoreBehind, kept.ConsumerGroup, kept.Name, o.AllowBehind).Scan(&more); err != nil {
				return err
			}
			if more {
				behind = kept
				return ErrBehind
			}
		}
		return swap(ctx, tx, name, previousTables, o.Keep, live.Version, act, "rolled_back")
	})
	if behind != nil {
		rows, _ := db.Query(ctx, queryCountBehind, behind.ConsumerGroup, behind.Name)
		if n, counted := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64]); counted == nil {
			err = fmt.Errorf("%w in %d campaigns, allowed are %d: run a worker that has version %d until they have caught up, or allow them",
				err, max(n, o.AllowBehind+1), o.AllowBehind, behind.Version)
		}
	}
	if err != nil {
		return fmt.Errorf("roll projection %q back: %w", name, err)
	}
	return nil
}
