package erasure

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// scheduledRows is how many scheduled appends, or operations, one statement reads.
const scheduledRows = 1000

// countScheduled returns how many scheduled appends an erasure deletes or changes.
func (e *run) countScheduled(ctx context.Context, db event.Querier) (n int64, err error) {
	var changed int64
	for after := new(int64); after != nil && err == nil; {
		err = rows.Each(ctx, db, []any{&after, &changed}, func() { n += changed }, "look at scheduled appends",
			queryScheduled, e.ofScheduled(nil, *after)...)
	}
	return n, err
}

// beginScheduled is [run.eraseScheduled] before the first event is erased, if there is one to erase. It
// returns how many there are.
func (e *run) beginScheduled(ctx context.Context) (n int64, err error) {
	if n, err = e.countScheduled(ctx, e.db); err != nil || n == 0 {
		return n, err
	}
	if err = e.record(ctx, true); err != nil {
		return n, err
	}
	return n, e.eraseScheduled(ctx)
}

// eraseScheduled deletes or changes the scheduled appends about what is erased.
func (e *run) eraseScheduled(ctx context.Context) error {
	var changed int64
	for after := new(int64); after != nil; {
		if err := pgx.BeginFunc(ctx, e.db, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, queryScheduled, e.ofScheduled(&e.done.Erasure, *after)...).Scan(&after, &changed)
		}); err != nil {
			return err
		}
	}
	return nil
}

func (e *run) ofScheduled(erasure *int64, after int64) []any {
	return []any{
		erasure, e.generation, e.Campaign, e.Subjects, e.fields.encoded(), e.personal.encoded(), after, scheduledRows,
	}
}

// eraseOperations takes keys of the subjects from operations, and has the planner forget the values.
func (e *run) eraseOperations(ctx context.Context, subjects []string) error {
	for after := new(int64); after != nil; {
		if err := pgx.BeginFunc(ctx, e.db, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, queryEraseItems, e.done.Erasure, e.generation, subjects, *after, scheduledRows).Scan(&after)
		}); err != nil {
			return err
		}
	}
	return pgx.BeginFunc(ctx, e.db, func(tx pgx.Tx) error { return rows.Do(ctx, tx, "", queryForgetStatistics) })
}
