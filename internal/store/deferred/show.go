package deferred

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Detail is all that is known of a pair.
type Detail struct {
	Pair
	Stack   string         // of the panic it failed with last; at most 16 KiB
	Event   *journal.Event // number NextSeq, as it was appended; nil if there is none yet
	History []Record       // of the pair, newest first, at most 100

	Resolutions []Resolution // events that are left out of the projection in the campaign, by seq, at most 100
}

// Show answers all that is known of a pair, or [ErrNotFound].
func Show(ctx context.Context, db journal.Querier, key Key) (*Detail, error) {
	d, err := show(ctx, db, key)
	if err != nil {
		return nil, fmt.Errorf("show %s: %w", key, err)
	}
	return d, nil
}

func show(ctx context.Context, db journal.Querier, key Key) (*Detail, error) {
	pair, err := get(ctx, db, key)
	if err != nil {
		return nil, err
	}
	d := &Detail{Pair: pair}
	rows, err := db.Query(ctx, queryStack, key.CampaignID, key.Projection)
	if err != nil {
		return nil, err
	}
	// it has caught up this very moment
	if d.Stack, err = pgx.CollectOneRow(rows, pgx.RowTo[string]); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, err
	}
	event, err := journal.Get(ctx, db, key.CampaignID, pair.NextSeq)
	switch {
	case err == nil:
		d.Event = &event
	case !errors.Is(err, journal.ErrNotFound):
		return nil, err
	}
	if d.Resolutions, err = Resolutions(ctx, db, ResolutionFilter{
		Projection: key.Projection,
		CampaignID: key.CampaignID,
	}); err != nil {
		return nil, err
	}
	d.History, err = History(ctx, db, LogFilter{Group: pair.Group, Projection: key.Projection, CampaignID: key.CampaignID})
	return d, err
}

// get answers one pair, or ErrNotFound.
func get(ctx context.Context, db journal.Querier, key Key) (Pair, error) {
	if err := key.validate(); err != nil {
		return Pair{}, err
	}
	rows, err := db.Query(ctx, queryPair, key.CampaignID, key.Projection)
	if err != nil {
		return Pair{}, err
	}
	pair, err := pgx.CollectExactlyOneRow(rows, scanPair)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	return pair, err
}
