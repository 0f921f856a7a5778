package outbox

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Place is where an entry stands in the order of [Page].
type Place struct {
	Group      string `json:"group,omitempty"` // of a work item
	CampaignID string `json:"campaign_id"`
	Seq        int64  `json:"seq,omitempty"`        // of the work item's last event
	Projection string `json:"projection,omitempty"` // of a pair
}

// mostLooked is how many rows one page looks at for those of a status.
const mostLooked = 5000

// Page answers some entries after a place (nil: from the first), and the place of the next page,
// nil at the end: work items in the order of their groups, campaigns and seqs, then pairs in that
// of their campaigns and projections. A page costs the same wherever it is and however much there
// is: where few entries have the status, it may have fewer than the limit, or none, and yet a next
// one.
func Page(
	ctx context.Context, db journal.Querier, filter Filter, after *Place,
) (entries []Entry, next *Place, err error) {
	if filter.Limit == 0 {
		filter.Limit = defaultListLimit
	}
	at, ofPairs := Place{}, slices.Contains([]Status{Failed, Dead, Rebuilding}, filter.Status)
	if after != nil {
		at = *after
		ofPairs = ofPairs || at.Group == ""
	}
	looked := 0
	for {
		// Without a status to look for, no more is read than the page takes.
		some := min(filter.Limit-len(entries), mostLooked-looked)
		if filter.Status != "" {
			some = min(mostLooked-looked, max(filter.Limit, 500))
		}
		read, err := pagePart(ctx, db, ofPairs, filter.CampaignID, at, some)
		if err != nil {
			return nil, nil, fmt.Errorf("list the outbox: %w", err)
		}
		for _, e := range read {
			looked++
			at = Place{Group: e.Group, CampaignID: e.CampaignID, Seq: e.Seq + e.Events - 1}
			if ofPairs {
				at = Place{CampaignID: e.CampaignID, Projection: e.Projection}
			}
			if filter.Status == "" || e.Status == filter.Status {
				entries = append(entries, e)
			}
			if len(entries) == filter.Limit {
				return entries, &at, nil
			}
		}
		switch {
		case looked >= mostLooked:
			return entries, &at, nil
		case len(read) == some: // there may be more of them
		case ofPairs:
			return entries, nil, nil
		default:
			if ofPairs, at = true, (Place{}); slices.Contains([]Status{Pending, Processing, Paused}, filter.Status) {
				return entries, nil, nil
			}
		}
	}
}

func pagePart(
	ctx context.Context, db journal.Querier, ofPairs bool, campaignID string, at Place, limit int,
) ([]Entry, error) {
	var rows pgx.Rows
	var err error
	switch {
	case ofPairs && campaignID != "":
		rows, err = db.Query(ctx, queryPagePairsOf, campaignID, at.Projection, limit)
	case ofPairs:
		rows, err = db.Query(ctx, queryPagePairs, at.CampaignID, at.Projection, limit)
	case campaignID != "":
		rows, err = db.Query(ctx, queryPageItemsOf, campaignID, at.Group, at.Seq, limit)
	default:
		rows, err = db.Query(ctx, queryPageItems, at.Group, at.CampaignID, at.Seq, limit)
	}
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Entry])
}
