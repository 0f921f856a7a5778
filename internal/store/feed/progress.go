package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Progress returns the writer floor, as [Floor], and the last position that was handed out. While
// the two differ, appends are in flight.
func Progress(ctx context.Context, db Querier) (floor, last int64, err error) {
	if err = rows.Each(ctx, db, []any{&floor, &last}, func() error { return nil }, "read the writer floor",
		queryProgress); err != nil {
		return 0, 0, err
	}
	return floor, last, nil
}

// ReadRange reads up to limit events of a campaign from a seq on, up to a position.
func ReadRange(
	ctx context.Context, db Querier, campaignID string, fromSeq, untilPosition int64, limit int,
) ([]Event, error) {
	events, err := collect(ctx, db, queryCampaignRange, campaignID, fromSeq, untilPosition, limit)
	if err != nil {
		return nil, fmt.Errorf("read campaign %q from seq %d: %w", campaignID, fromSeq, err)
	}
	return events, nil
}

// PositionAt returns the position before the first event that was recorded at t or later: reading
// after it, one gets those events and none that is older by more than the few milliseconds in which
// appends overtake each other. Without such an event it is the writer floor.
func PositionAt(ctx context.Context, db Querier, t time.Time) (int64, error) {
	floor, err := Floor(ctx, db)
	if err != nil {
		return 0, err
	}
	// Positions and times grow together, but for appends that overtook each other. So the bisection
	// looks for a time well before.
	low, high := int64(1), floor+1
	for low < high {
		middle := low + (high-low)/2
		var position int64
		var recorded time.Time
		err := scanOne(ctx, db, queryRecordedAt, []any{&position, &recorded}, middle)
		switch {
		case errors.Is(err, pgx.ErrNoRows) || err == nil && (position > floor || !recorded.Before(t.Add(-10*time.Second))):
			high = middle
		case err != nil:
			return 0, fmt.Errorf("find the position of %s: %w", t, err)
		default:
			low = position + 1
		}
	}
	var position int64
	switch err := scanOne(ctx, db, queryRecordedSince, []any{&position}, low, t); {
	case errors.Is(err, pgx.ErrNoRows):
		return floor, nil
	case err != nil:
		return 0, fmt.Errorf("find the position of %s: %w", t, err)
	}
	return min(position-1, floor), nil
}

func scanOne(ctx context.Context, db Querier, query string, into []any, args ...any) error {
	_, err := rows.One(ctx, db, func(row pgx.CollectableRow) (struct{}, error) {
		return struct{}{}, row.Scan(into...)
	}, "", query, args...)
	return err
}

// OpenAppend is a transaction that has appended and has neither committed nor rolled back. Its zero value is none.
type OpenAppend struct {
	Age    time.Duration // of the transaction
	PID    int           // its backend; 0: none, not to be seen, or it is prepared
	Holder string        // which it is: a process and its application, or the name of a prepared transaction
	Remedy string        // the statement that ends it
}

// OldestAppend answers the oldest append that is open: readers of the whole journal wait for it.
func OldestAppend(ctx context.Context, db Querier) (OpenAppend, error) {
	var open OpenAppend
	var seconds float64
	if err := scanOne(ctx, db, queryOldestAppend, []any{&seconds, &open.PID, &open.Holder, &open.Remedy}); err != nil {
		return OpenAppend{}, fmt.Errorf("look for open appends: %w", err)
	}
	open.Age = time.Duration(seconds * float64(time.Second))
	return open, nil
}
