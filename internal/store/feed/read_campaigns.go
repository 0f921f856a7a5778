package feed

import (
	"context"
)

// CampaignsRead says which events [ReadCampaigns] reads: those after event Seq of CampaignID, of
// that campaign and of those that sort after it, up to and with Last.
type CampaignsRead struct {
	CampaignID string
	Seq        int64
	Last       string
	Types      []string // nil: all
	Events     int      // stop after so many
	Bytes      int64    // stop after about so many bytes of payload and metadata, but not before the first event
	Careful    bool     // leave out documents that cannot be read: [Event.Unreadable]
}

// ReadCampaigns reads events that are projected (of intent [ProjectionAndReplay]), campaign after
// campaign, as one walk along the journal's primary key: quicker than [ReadGroup], which looks for
// each campaign by itself, where all campaigns are wanted. visit gets the memory that each event's
// payload and metadata take; the event is the next one's after the call. more says whether a limit
// ended it: then the next read begins after the last event.
func ReadCampaigns(
	ctx context.Context, db Querier, read CampaignsRead, visit func(e *Event, bytes int),
) (more bool, err error) {
	query, args := queryReadCampaigns, []any{read.CampaignID, read.Seq, read.Last, read.Events}
	if read.Types != nil {
		query, args = queryReadCampaignsOf, append(args, read.Types)
	}
	if read.Careful {
		query = careful(query)
	}
	rows, err := db.Query(ctx, query, args...)
	if err != nil {
		return false, err
	}
	n, size, err := eachEvent(rows, read.Bytes, campaignFirst(visit))
	return n >= read.Events || size >= read.Bytes, err
}
