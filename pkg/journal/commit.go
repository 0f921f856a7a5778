package journal

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/feed"
)

// Commit appends events to one or several campaigns in a transaction of its own, for callers that have none.
// They are all in the journal when it returns without an error. [Appended.Token] of the last one is what to wait
// for.
//
// Events get ids before they are appended. If a connection breaks and the outcome is unknown, the same events are
// appended again, as often as j.Retry says: they are in the journal once. An error of a connection, or
// the end of ctx, means that they may be in the journal or not. Other errors are those of [Journal.AppendAll], and
// mean that they are not.
func (j Journal) Commit(ctx context.Context, db *pgxpool.Pool, batches ...Batch) (places []Appended, err error) {
	batches = slices.Clone(batches)
	for i := range batches {
		batches[i].Events = identified(batches[i].Events)
	}
	var refusal error
	err = j.Retry.Do(ctx, func(ctx context.Context) error {
		err := pgx.BeginTxFunc(ctx, db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) (err error) {
			places, err = j.AppendAll(ctx, tx, batches...)
			return err
		})
		switch {
		case err == nil:
			return nil
		case slices.Contains([]string{stateSerializationFailure, stateDeadlock}, feed.SQLState(err)):
			return err
		case answered(err):
			refusal = err
			return nil
		case ctx.Err() != nil:
			return err
		}
		return &doubtError{err}
	})
	if refusal != nil {
		err = refusal
	}
	if err != nil {
		return nil, err
	}
	return places, nil
}
