package feed

import (
	"context"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"
)

// Read returns the first limit events that a query selects, from position from on (inclusive; 0:
// from the first), in order of position and up to the writer floor: no event that is left out can
// appear among them later. An event that has just been appended may be left out for as long as an
// append with a lower position is in flight; a decision takes it in. It must not run inside a
// REPEATABLE READ or SERIALIZABLE transaction.
func Read(ctx context.Context, db Querier, q Query, from int64, limit int) ([]Event, error) {
	if err := CheckQuery(q); err != nil {
		return nil, err
	}
	events, err := collect(ctx, db, queryRead, string(AppendQuery(nil, q)), from, limit)
	if err != nil {
		return nil, fmt.Errorf("read the events of a query from position %d: %w", from, err)
	}
	return events, nil
}

// ReadMatches reads up to limit events that a query selects, as [AppendQuery] writes it, in order of
// position, after one and until another.
func ReadMatches(ctx context.Context, db Querier, query string, after, until int64, limit int) ([]Event, error) {
	events, err := collect(ctx, db, queryMatches, query, after, until, limit)
	if err != nil {
		return nil, fmt.Errorf("read the events of a query after position %d: %w", after, err)
	}
	return events, nil
}

// batcher is a Querier that sends several statements at once, as those of pgx do.
type batcher interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// ReadFirst reads the writer floor and then, in a later statement but the same round trip if db
// can, the first page of what a query selects.
func ReadFirst(ctx context.Context, db Querier, query string) (floor int64, events []Event, err error) {
	sender, ok := db.(batcher)
	if !ok {
		if floor, err = Floor(ctx, db); err != nil {
			return 0, nil, err
		}
		events, err = ReadMatches(ctx, db, query, 0, math.MaxInt64, PageEvents)
		return floor, events, err
	}
	var batch pgx.Batch
	batch.Queue(queryFloor).QueryRow(func(row pgx.Row) error { return row.Scan(&floor) })
	batch.Queue(queryMatches, query, 0, int64(math.MaxInt64), PageEvents).Query(func(rows pgx.Rows) (err error) {
		events, _, err = collectBytes(rows, 0, math.MaxInt64)
		return err
	})
	if err := sender.SendBatch(ctx, &batch).Close(); err != nil {
		return 0, nil, fmt.Errorf("read the writer floor and the events of a query: %w", err)
	}
	return floor, events, nil
}
