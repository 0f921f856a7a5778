package failed

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// List answers the pairs that f chooses, in the order in which they are due: by NextAttemptAt,
// NextSeq, campaign and projection. For the page that follows, set f.After to the Place of the last
// one.
func List(ctx context.Context, db journal.Querier, f Filter) ([]Campaign, error) {
	if err := f.validate(); err != nil {
		return nil, fmt.Errorf("list failed campaigns: %w", err)
	}
	return rows.All(ctx, db, scanCampaign, "list failed campaigns", queryList, f.args(listLimit)...)
}

// Count answers how many pairs f chooses, at most f.Limit if it is set. It reads all of them. An
// act with the same filter leaves out pairs that are being rebuilt: set f.Status for what an act
// would change.
func Count(ctx context.Context, db journal.Querier, f Filter) (int64, error) {
	if err := f.validate(); err != nil {
		return 0, fmt.Errorf("count failed campaigns: %w", err)
	}
	return rows.One(ctx, db, pgx.RowTo[int64], "count failed campaigns", queryCount, f.args(0)...)
}

func scanCampaign(row pgx.CollectableRow) (p Campaign, err error) { return scanCampaignAfter(row) }

// scanCampaignAfter scans what comes before the pair, too.
func scanCampaignAfter(row pgx.CollectableRow, before ...any) (p Campaign, err error) {
	var due pgtype.Timestamptz // 'infinity' where it waits for an operator
	err = row.Scan(append(before, &p.Projection, &p.CampaignID, &p.Group, &p.Version, &p.NextSeq, &p.Status, &p.Attempts,
		&due, &p.EventID, &p.EventType, &p.Class, &p.Code,
		&p.Message, &p.Fingerprint, &p.FirstFailedAt, &p.LastFailedAt, &p.Worker, &p.Reset)...)
	p.NextAttemptAt = due.Time
	return p, err
}

// Search is [List] for failed and dead pairs with a bound on its cost: it looks at no more than the
// next look pairs, whether or not they match. end is the place to go on from as f.After; nil: there
// are no more pairs.
func Search(ctx context.Context, db journal.Querier, f Filter, look int) (pairs []Campaign, end *Place, err error) {
	if f, err = f.acting(); err != nil {
		return nil, nil, fmt.Errorf("search failed campaigns: %w", err)
	}
	if f.Limit == 0 {
		f.Limit = listLimit
	}
	if f.narrow() {
		pairs, err = List(ctx, db, f)
		if err == nil && len(pairs) == f.Limit {
			place := pairs[len(pairs)-1].Place()
			end = &place
		}
		return pairs, end, err
	}
	pairs, end, err = search(ctx, db, f, look)
	if err != nil {
		return nil, nil, fmt.Errorf("search failed campaigns: %w", err)
	}
	return pairs, end, nil
}

// narrow says whether an index leads to what the filter chooses.
func (f Filter) narrow() bool {
	rest := f
	rest.Status, rest.After, rest.Limit, rest.CampaignID, rest.Projection, rest.Fingerprint = nil, nil, 0, "", "", ""
	return f.CampaignID != "" || rest.open() && (f.Projection == "") == (f.Fingerprint == "")
}

// open says whether none of the conditions is set that no index knows.
func (f Filter) open() bool {
	return f.Group == "" && f.EventType == "" && f.Class == "" && f.Code == "" && f.OlderThan == 0
}

func search(ctx context.Context, db journal.Querier, f Filter, look int) (pairs []Campaign, end *Place, err error) {
	found, err := rows.All(ctx, db, scanSearched, "", querySearch, f.args(listLimit, look)...)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range found {
		if place := s.pair.Place(); s.last {
			end = &place
		} else {
			pairs = append(pairs, s.pair)
		}
	}
	if len(pairs) == f.Limit {
		place := pairs[len(pairs)-1].Place()
		end = &place
	}
	return pairs, end, nil
}

// searched is a pair that matches or, where last, the last that was looked at.
type searched struct {
	last bool
	pair Campaign
}

func scanSearched(row pgx.CollectableRow) (s searched, err error) {
	s.pair, err = scanCampaignAfter(row, &s.last)
	return s, err
}

const (
	nextFailures = `(
			SELECT d.* FROM (
				(SELECT d.* FROM tidemark.deferred d WHERE d.status = 'failed'
					AND 'failed' = ANY ($1::text[])` + afterPlace + campaignOrder + ` LIMIT $16::integer) UNION
					ALL
				(SELECT d.* FROM tidemark.deferred d WHERE d.status = 'dead'
					AND 'dead' = ANY ($1)` + afterPlace + campaignOrder + ` LIMIT $16)
			) d` + campaignOrder + ` LIMIT $16
		)`

	afterPlace = ` AND (NOT $10::boolean OR (d.next_attempt_at, d.next_seq, d.campaign_id,
		d.projection) > ($11::timestamptz, $12::bigint, $13, $14))`
)
