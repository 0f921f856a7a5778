package pages

import (
	"context"
	"net/http"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

type parkedPage struct {
	Filter       publisher.ParkedFilter
	Publications []publisher.Key
	Rows         []publisher.Parked
	Pager        pager
	One          *publisher.Parked // the filter names one
}

// readParked shows events that publishers' sinks have refused.
func (p *Pages) readParked(ctx context.Context, r *http.Request) (view, error) {
	seq, err := number(r, "seq", 0)
	if err != nil {
		return view{}, err
	}
	page := parkedPage{Filter: publisher.ParkedFilter{
		Topic: r.FormValue("topic"), Publisher: r.FormValue("publisher"), CampaignID: r.FormValue("campaign"), EventType: r.FormValue("type"), Status: r.FormValue("status"), Seq: seq, Limit: perPage,
	}}
	all, err := publisher.List(ctx, p.cfg.Pool, publisher.Key{})
	if err != nil {
		return view{}, err
	}
	for _, pub := range all {
		page.Publications = append(page.Publications, pub.Key)
	}
	v := view{Name: "parked", Title: "Parked", Data: &page}
	if page.Filter.CampaignID != "" && page.Filter.Topic != "" && page.Filter.Publisher != "" {
		page.Rows, err = publisher.ListParked(ctx, p.cfg.Pool, page.Filter)
		if len(page.Rows) == 1 && seq > 0 {
			page.One = &page.Rows[0]
		}
		return v, err
	}
	var place publisher.ParkedPlace
	there, err := after(r, &place)
	if err != nil {
		return view{}, err
	}
	from := &place
	if !there {
		from = nil
	}
	rows, end, err := publisher.WalkParked(ctx, p.cfg.Pool, page.Filter, from, searchLook)
	page.Rows = rows
	var next any
	if end != nil {
		next = *end
	}
	page.Pager = pages(r, next, plural(len(rows), "row")+" on this page")
	return v, err
}
