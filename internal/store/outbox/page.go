package outbox

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Status says how it stands with an entry.
type Status string

// The statuses. The first three are work items, which belong to a consumer group; the others are
// (campaign, projection) pairs that are behind their group.
const (
	Pending    Status = "pending"    // no worker holds the campaign
	Processing Status = "processing" // a worker holds the campaign's lease
	// the campaign or the whole group is paused; pairs of what is paused keep their statuses
	Paused     Status = "paused"
	Failed     Status = "failed"     // the projection could not apply the event; a retry is due at NextAttemptAt
	Dead       Status = "dead"       // as Failed, but it waits for an operator
	Rebuilding Status = "rebuilding" // the projection is catching up with the campaign
)

// Statuses answers all statuses, in the order in which work goes through them.
func Statuses() []Status { return []Status{Pending, Processing, Paused, Failed, Dead, Rebuilding} }

// Entry is something that remains to be done: a work item, or a (campaign, projection) pair that is behind.
type Entry struct {
	Group      string // consumer group
	CampaignID string //
	Seq        int64  // of the work item's first event that is not applied; of the pair's next event
	// how many events the work item, or in a report the campaign, still waits with, from Seq on; 0 of a pair
	Events        int64
	EventType     string    // of that event
	Status        Status    //
	Projection    string    // of the pair; empty for a work item
	Since         time.Time // when the event was appended
	Attempts      int       // how often the pair has failed at the event
	NextAttemptAt time.Time // when the pair is tried again; zero unless Failed or Rebuilding
	Error         string    // what the pair failed with last
}

// Filter chooses the entries of [List] and [Page].
type Filter struct {
	Status     Status // zero: any
	CampaignID string // zero: any
	Limit      int    // zero: 100
}

const defaultListLimit = 100

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
			return nil, nil, err
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
	query, args := queryPageItems, []any{at.Group, at.CampaignID, at.Seq, limit}
	switch {
	case ofPairs && campaignID != "":
		query, args = queryPagePairsOf, []any{campaignID, at.Projection, limit}
	case ofPairs:
		query, args = queryPagePairs, []any{at.CampaignID, at.Projection, limit}
	case campaignID != "":
		query, args = queryPageItemsOf, []any{campaignID, at.Group, at.Seq, limit}
	}
	return rows.All(ctx, db, pgx.RowToStructByPos[Entry], "list the outbox", query, args...)
}

// List answers entries in the order of [Page], from the first up to the filter's limit. Where few
// entries have the status it looks at many pages.
func List(ctx context.Context, db journal.Querier, filter Filter) (entries []Entry, err error) {
	most := cmp.Or(filter.Limit, defaultListLimit)
	for next := (*Place)(nil); ; {
		var page []Entry
		filter.Limit = most - len(entries)
		page, next, err = Page(ctx, db, filter, next)
		if entries = append(entries, page...); err != nil || next == nil || len(entries) == most {
			return entries, err
		}
	}
}
