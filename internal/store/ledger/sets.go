package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// The readers of a projection across campaigns have the name of its set of tables as their topic.
// Whoever changes them waits for their holders up to its lock_timeout. Without readers of that name
// the functions change nothing.

// Rename gives the readers of a set to another name, and takes them from their holders.
func Rename(ctx context.Context, tx pgx.Tx, from, to string) error {
	return rows.Do(ctx, tx, "rename the readers of "+from, queryRename, from, to)
}

// Unregister deletes the readers of a set.
func Unregister(ctx context.Context, tx pgx.Tx, set string) error {
	return rows.Do(ctx, tx, "delete the readers of "+set, queryUnregister, set)
}

// Positions returns the positions of the readers of a set, in the order of partitions.
func Positions(ctx context.Context, db rows.Querier, set string) ([]int64, error) {
	return rows.All(ctx, db, pgx.RowTo[int64], "read the places of "+set, queryPositions, set)
}

// Reached returns the farthest position of the readers of a set; 0: none.
func Reached(ctx context.Context, db rows.Querier, set string) (int64, error) {
	return rows.One(ctx, db, pgx.RowTo[int64], "", queryReached, set)
}

// Behind counts the events by which the readers of a set are behind those of another, up to limit.
func Behind(ctx context.Context, db rows.Querier, set, other string, limit int64) (int64, error) {
	return rows.One(ctx, db, pgx.RowTo[int64], "", queryBehind, set, other, limit)
}

// StandStill takes the readers of other from their holders for a while, so that those of set pass
// them. It reports false, and does nothing, if set has readers that are not held.
func StandStill(ctx context.Context, db rows.Querier, set, other string, d time.Duration) (bool, error) {
	all, err := rows.All(ctx, db, pgx.RowTo[string], "", queryStandStill, set, other, d)
	return len(all) > 0, err
}

// ReactOn makes the live readers of a process, once the sets have changed places, react to what the
// former live ones have not reached. Of other projections it changes nothing.
func ReactOn(ctx context.Context, tx pgx.Tx, name string, sets []string) error {
	return rows.Do(ctx, tx, "let process "+name+" react", queryReactOn, name, sets)
}

// Unreacted reports whether a process has keys that wait, and so events to react to that are not its
// last ones.
func Unreacted(ctx context.Context, db rows.Querier, name string) (bool, error) {
	return rows.One(ctx, db, pgx.RowTo[bool], "", queryUnreacted, name)
}

// Position returns the position of a reader; 0 if there is none.
func (l *Ledger) Position(ctx context.Context, reader publications.Key) (position int64, err error) {
	err = l.Use(ctx, func(conn *pgxpool.Conn) error {
		err := conn.QueryRow(ctx, queryPosition, reader.Topic, reader.Publisher).Scan(&position)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return position, err
}
