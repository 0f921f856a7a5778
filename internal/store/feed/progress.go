package feed

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Progress returns [Floor] and the last assigned position. While they differ, appends are in flight.
func Progress(ctx context.Context, db Querier) (floor, last int64, err error) {
	if err = rows.Each(ctx, db, []any{&floor, &last}, func() error { return nil }, "read the writer floor",
		queryProgress); err != nil {
		return 0, 0, err
	}
	return floor, last, nil
}

// ReadRange reads up to limit events of a campaign, from a seq and up to a position.
func ReadRange(
	ctx context.Context, db Querier, campaignID string, fromSeq, untilPosition int64, limit int,
) ([]Event, error) {
	events, err := collect(ctx, db, queryCampaignRange, campaignID, fromSeq, untilPosition, limit)
	if err != nil {
		return nil, fmt.Errorf("read campaign %q from seq %d: %w", campaignID, fromSeq, err)
	}
	return events, nil
}

// PositionAt returns the position before the first event recorded at t or later, or the writer floor.
// Later events are older than t by at most a few milliseconds, because appends overtake each other.
func PositionAt(ctx context.Context, db Querier, t time.Time) (int64, error) {
	floor, err := Floor(ctx, db)
	if err != nil {
		return 0, err
	}
	return rows.One(ctx, db, pgx.RowTo[int64], fmt.Sprintf("find the position of %s", t), queryPositionAt, floor, t)
}

// OpenAppend is a transaction that has appended and is still open. The zero value means none.
type OpenAppend struct {
	Age    time.Duration // of the transaction
	PID    int           // its backend; 0: none, not visible, or prepared
	Holder string        // a process and its application, or the name of a prepared transaction
	Remedy string        // the statement that ends it
}

// OldestAppend returns the oldest open append. Readers of the whole journal wait for it.
func OldestAppend(ctx context.Context, db Querier) (OpenAppend, error) {
	return rows.One(ctx, db, pgx.RowToStructByPos[OpenAppend], "look for open appends", queryOldestAppend)
}
