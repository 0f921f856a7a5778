package deferred

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// List answers the pairs that f chooses, in the order in which they are due: by NextAttemptAt,
// NextSeq, campaign and projection. For the page that follows, set f.After to the Place of the last
// one.
func List(ctx context.Context, db journal.Querier, f Filter) ([]Pair, error) {
	if err := f.validate(); err != nil {
		return nil, fmt.Errorf("list deferred pairs: %w", err)
	}
	rows, err := db.Query(ctx, queryList, f.args(listLimit)...)
	if err == nil {
		var pairs []Pair
		if pairs, err = pgx.CollectRows(rows, scanPair); err == nil {
			return pairs, nil
		}
	}
	return nil, fmt.Errorf("list deferred pairs: %w", f.explain(err))
}

// Count answers how many pairs f chooses, at most f.Limit if it is set. It reads all of them. An
// act with the same filter leaves out pairs that are being rebuilt: set f.Status for what an act
// would change.
func Count(ctx context.Context, db journal.Querier, f Filter) (int64, error) {
	if err := f.validate(); err != nil {
		return 0, fmt.Errorf("count deferred pairs: %w", err)
	}
	rows, err := db.Query(ctx, queryCount, f.args(0)...)
	if err == nil {
		var n int64
		if n, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64]); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("count deferred pairs: %w", f.explain(err))
}

func scanPair(row pgx.CollectableRow) (p Pair, err error) { return scanPairAfter(row) }

// scanPairAfter scans what comes before the pair, too.
func scanPairAfter(row pgx.CollectableRow, before ...any) (p Pair, err error) {
	var due pgtype.Timestamptz // 'infinity' where it waits for an operator
	err = row.Scan(append(before, &p.Projection, &p.CampaignID, &p.Group, &p.Version, &p.NextSeq, &p.Status, &p.Attempts,
		&due, &p.EventID, &p.EventType, &p.Class, &p.Code,
		&p.Message, &p.Fingerprint, &p.FirstFailedAt, &p.LastFailedAt, &p.Worker, &p.Reset, &p.SecondChances)...)
	p.NextAttemptAt = due.Time
	return p, err
}
