package failed

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Backfill looks at up to limit campaigns (0: 5000) of a group that have moved, after the cursor
// ("": from the first), and has a projection apply from scratch those of which it has nothing: no
// row in any of its tables, and no pair. It answers how many that are and the cursor of the next
// call, "" at the end. Campaigns that hold nothing for the projection are among them each time;
// applying them changes nothing. It refuses, and locks, what [Replay] does; what it files is logged
// as 'backfilled'.
func Backfill(
	ctx context.Context, tx pgx.Tx, group, projection, cursor string, limit int, act Act,
) (n int64, next string, err error) {
	defer rows.Explain(&err, "backfill")
	r := ReplayRequest{Group: group, Projection: projection}
	if limit == 0 {
		limit = replayCampaigns
	}
	if limit < 1 || limit > replayCampaigns {
		return 0, "", fmt.Errorf("limit is %d, it must be 1 to %d: backfill more in several transactions", limit,
			replayCampaigns)
	}
	if err := act.validate(false); err != nil {
		return 0, "", err
	}
	projections, tables, err := r.backfillable(ctx, tx, queryReplayableNow)
	if err != nil {
		return 0, "", err
	}
	r.Campaigns, next, err = r.missing(ctx, tx, tables, cursor, limit)
	if err != nil || len(r.Campaigns) == 0 {
		return 0, next, err
	}
	n, err = r.file(ctx, tx, projections, act, "backfilled")
	return n, next, err
}

// CountBackfill answers how many campaigns [Backfill] would have the projection apply. It refuses what Backfill would.
func CountBackfill(ctx context.Context, db journal.Querier, group, projection string) (n int64, err error) {
	defer rows.Explain(&err, "count a backfill")
	r := ReplayRequest{Group: group, Projection: projection}
	_, tables, err := r.backfillable(ctx, db, queryReplayable)
	if err != nil {
		return 0, err
	}
	for cursor := ""; ; {
		campaigns, next, err := r.missing(ctx, db, tables, cursor, replayCampaigns)
		if err != nil {
			return 0, err
		}
		n += int64(len(campaigns))
		if cursor = next; cursor == "" {
			return n, nil
		}
	}
}

// backfillable answers the projection as query reads it, and its tables, which say of which campaigns it has something.
func (r ReplayRequest) backfillable(
	ctx context.Context, db journal.Querier, query string,
) (projections []replayable, tables []string, err error) {
	if r.Projection == "" {
		return nil, nil, fmt.Errorf("%w: name the projection", ErrUnknown)
	}
	if projections, err = r.validate(ctx, db, query); err != nil {
		return nil, nil, err
	}
	tables, err = rows.All(ctx, db, pgx.RowTo[string], "", queryTablesOf, r.Projection)
	if err == nil && len(tables) == 0 {
		err = fmt.Errorf("%w: projection %s has created no tables, so it is not known what it has: replay it",
			ErrNotResettable, r.Projection)
	}
	return projections, tables, err
}

// missing looks at up to limit campaigns after the cursor, and answers those that have no pair and
// no row in any of the tables.
func (r ReplayRequest) missing(
	ctx context.Context, db journal.Querier, tables []string, cursor string, limit int,
) (campaigns []string, next string, err error) {
	var campaign string
	var unfiled bool
	looked := 0
	if err = rows.Each(ctx, db, []any{&campaign, &unfiled}, func() error {
		looked++
		if unfiled {
			campaigns = append(campaigns, campaign)
		}
		return nil
	}, "", queryUnfiled, r.Group, cursor, limit, r.Projection); err != nil {
		return nil, "", err
	}
	if looked == limit {
		next = campaign
	}
	for _, table := range tables {
		rows, err := db.Query(ctx, fmt.Sprintf(queryWithoutRows, table), campaigns)
		if err != nil {
			return nil, "", err
		}
		if campaigns, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return nil, "", fmt.Errorf("look for campaigns in %s: %w", table, err)
		}
	}
	return campaigns, next, nil
}
