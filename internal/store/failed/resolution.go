package failed

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/lookback"
)

// ResolutionFilter chooses resolutions. Zero fields match all.
type ResolutionFilter struct {
	Projection string // NAME, NAME~next and NAME~previous match the same
	CampaignID string
	After      *lookback.Resolution // the last one of the previous page; CampaignID, Projection and Seq count
	Limit      int                  // 0: 100
}

// Resolutions returns the resolutions that f chooses, ordered by campaign, projection and seq.
func Resolutions(ctx context.Context, db event.Querier, f ResolutionFilter) ([]lookback.Resolution, error) {
	after := lookback.Resolution{}
	if f.After != nil {
		after = *f.After
	}
	return resolutions(ctx, db, queryResolutions, pgx.QueryExecModeCacheDescribe, base(f.Projection), f.CampaignID,
		after.CampaignID, after.Projection, after.Seq, cmp.Or(f.Limit, listLimit))
}

// ResolutionsOf returns all resolutions of a projection in campaigns, ordered by campaign and seq.
func ResolutionsOf(
	ctx context.Context, db event.Querier, projection string, campaignIDs []string,
) ([]lookback.Resolution, error) {
	return resolutions(ctx, db, queryResolutionsOf, base(projection), campaignIDs)
}

func resolutions(ctx context.Context, db event.Querier, query string, args ...any) ([]lookback.Resolution, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[lookback.Resolution], "read which events are resolved", query, args...)
}

// CountResolutions counts the resolutions of a projection.
func CountResolutions(ctx context.Context, db event.Querier, projection string) (int64, error) {
	return rows.One(ctx, db, pgx.RowTo[int64], "count which events are resolved",
		queryCountResolutions, base(projection))
}

// LeftOut queues on batch a read of the resolved events of campaigns, for all projections.
func LeftOut(batch *pgx.Batch, campaignIDs []string, visit func(projection, campaignID string, seq int64)) {
	batch.Queue(queryLeftOut, campaignIDs).Query(eachLeftOut(visit))
}

// LeftOutBetween queues on batch a read of a projection's resolved events in campaigns after first, up to last.
func LeftOutBetween(
	batch *pgx.Batch, projection, first, last string, visit func(projection, campaignID string, seq int64),
) {
	batch.Queue(queryLeftOutBetween, base(projection), first, last).Query(eachLeftOut(visit))
}

func eachLeftOut(visit func(projection, campaignID string, seq int64)) func(pgx.Rows) error {
	var projection, campaignID string
	var seq int64
	return rows.Visit([]any{&projection, &campaignID, &seq}, func() { visit(projection, campaignID, seq) })
}

// ResolvedAhead reports whether the projection has a resolved event that its group has not reached:
// the projection or the group was removed and registered again.
func ResolvedAhead(ctx context.Context, tx pgx.Tx, group, projection string) (ahead bool, err error) {
	return rows.One(ctx, tx, pgx.RowTo[bool], fmt.Sprintf("look for resolutions of projection %s", projection),
		queryResolvedAhead, group, base(projection))
}

// base returns the projection of a registered name: NAME for NAME~next and NAME~previous.
func base(name string) string {
	name, _, _ = strings.Cut(name, "~")
	return name
}
