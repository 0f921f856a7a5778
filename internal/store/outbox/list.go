package outbox

import (
	"cmp"
	"context"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Filter chooses the entries of [List] and [Page].
type Filter struct {
	Status     Status // zero: any
	CampaignID string // zero: any
	Limit      int    // zero: 100
}

const defaultListLimit = 100

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
