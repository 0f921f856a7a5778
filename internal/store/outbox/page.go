package outbox

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Status is the status of an entry.
type Status string

// The statuses. The first three belong to work items of a consumer group, the others to failed campaigns.
const (
	Pending    Status = "pending"    // no worker holds the campaign
	Processing Status = "processing" // a worker holds the campaign's lease
	// the campaign or the whole group is paused; its failed campaigns keep their statuses
	Paused     Status = "paused"
	Failed     Status = "failed"      // the projection could not apply the event; a retry is due at NextAttemptAt
	Dead       Status = "dead"        // as Failed, but only an operator can retry it
	CatchingUp Status = "catching_up" // the projection is catching up with the campaign
)

// Statuses returns all statuses, in the order in which work passes through them.
func Statuses() []Status { return []Status{Pending, Processing, Paused, Failed, Dead, CatchingUp} }

// Entry is outstanding work: a work item, or a failed campaign of a projection.
type Entry struct {
	Group      string // consumer group
	CampaignID string //
	Seq        int64  // the work item's first event that is not applied, or the failed campaign's next event
	// events of the work item, or in a report of the campaign, from Seq on; 0 for a failed campaign
	Events        int64
	EventType     string    // of that event
	Status        Status    //
	Projection    string    // of the failed campaign; empty for a work item
	Since         time.Time // when the event was appended
	Attempts      int       // failures at the event
	NextAttemptAt time.Time // of the retry; zero unless Failed or CatchingUp
	Error         string    // of the last failure
}

// Filter chooses the entries of [List] and [Page].
type Filter struct {
	Status     Status // zero: any
	CampaignID string // zero: any
	Limit      int    // zero: 100
}

const defaultListLimit = 100

// Place is an entry's place in the order of [Page].
type Place struct {
	Group      string `json:"group,omitempty"` // of a work item
	CampaignID string `json:"campaign_id"`
	Seq        int64  `json:"seq,omitempty"`        // of the work item's last event
	Projection string `json:"projection,omitempty"` // of a failed campaign
}

// mostLooked is how many rows one page reads to find those with a status.
const mostLooked = 5000

// Page returns entries after a place (nil: from the first), and the place of the next page, nil at
// the end. Work items come first, ordered by group, campaign and seq, then failed campaigns,
// ordered by campaign and projection. Every page costs the same, wherever it is. Where few entries
// have the status, a page may be short or empty and still have a next one.
func Page(
	ctx context.Context, db event.Querier, filter Filter, after *Place,
) (entries []Entry, next *Place, err error) {
	filter.Limit = cmp.Or(filter.Limit, defaultListLimit)
	at, ofFailed := Place{}, slices.Contains([]Status{Failed, Dead, CatchingUp}, filter.Status)
	if after != nil {
		at = *after
		ofFailed = ofFailed || at.Group == ""
	}
	looked := 0
	for {
		// Without a status, read no more than the page takes.
		some := min(filter.Limit-len(entries), mostLooked-looked)
		if filter.Status != "" {
			some = min(mostLooked-looked, max(filter.Limit, 500))
		}
		read, err := pagePart(ctx, db, ofFailed, filter.CampaignID, at, some)
		if err != nil {
			return nil, nil, err
		}
		for _, e := range read {
			looked++
			at = Place{Group: e.Group, CampaignID: e.CampaignID, Seq: e.Seq + e.Events - 1}
			if ofFailed {
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
		case ofFailed:
			return entries, nil, nil
		default:
			if ofFailed, at = true, (Place{}); slices.Contains([]Status{Pending, Processing, Paused}, filter.Status) {
				return entries, nil, nil
			}
		}
	}
}

func pagePart(
	ctx context.Context, db event.Querier, ofFailed bool, campaignID string, at Place, limit int,
) ([]Entry, error) {
	query, args := queryPageItems, []any{at.Group, at.CampaignID, at.Seq, limit}
	switch {
	case ofFailed && campaignID != "":
		query, args = queryPageFailedOf, []any{campaignID, at.Projection, limit}
	case ofFailed:
		query, args = queryPageFailed, []any{at.CampaignID, at.Projection, limit}
	case campaignID != "":
		query, args = queryPageItemsOf, []any{campaignID, at.Group, at.Seq, limit}
	}
	return rows.All(ctx, db, pgx.RowToStructByPos[Entry], "list the outbox", query, args...)
}

// List returns entries in the order of [Page], from the first up to the filter's limit. Where few
// entries have the status it reads many pages.
func List(ctx context.Context, db event.Querier, filter Filter) (entries []Entry, err error) {
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
