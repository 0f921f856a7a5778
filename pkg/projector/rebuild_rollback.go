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
		var behind int64
		if err := tx.QueryRow(ctx, queryCountBehind, kept.ConsumerGroup, kept.Name).Scan(&behind); err != nil {
			return err
		}
		if o.AllowBehind >= 0 && behind > o.AllowBehind {
			return fmt.Errorf("%w in %d campaigns, allowed are %d: run a worker that has version %d until they have caught up, or allow them", ErrBehind, behind, o.AllowBehind, kept.Version)
		}
		return swap(ctx, tx, name, previousTables, o.Keep, live.Version, act, "rolled_back")
	})
	if err != nil {
		return fmt.Errorf("roll projection %q back: %w", name, err)
	}
	return nil
}
