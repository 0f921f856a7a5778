package api

import (
	"net/http"

	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

func (a *API) campaignRoutes() []Route {
	return []Route{
		a.reads("/campaigns/{campaign}", "getCampaign", a.campaign),
		a.reads("/campaigns/{campaign}/events", "listEvents", a.events),
		a.reads("/campaigns/{campaign}/events/{seq}", "getEvent", func(r *http.Request) (any, error) {
			seq, err := place(r, "seq")
			if err != nil {
				return nil, err
			}
			e, err := journal.Get(r.Context(), a.cfg.Pool, r.PathValue("campaign"), seq)
			if err != nil {
				return nil, err
			}
			return operator.One(a.event(r, e)), nil
		}),
		a.reads("/campaigns/{campaign}/as-of", "getAsOf", a.asOf),
		a.reads("/campaigns/{campaign}/diff", "getDiff", a.diff),
		a.reads("/campaigns/{campaign}/why", "getWhy", a.why),
		a.reads("/campaigns/{campaign}/verify", "verifyCampaign", a.verify),
		a.reads("/gaps", "listGaps", a.gaps),
	}
}

func (a *API) campaign(r *http.Request) (any, error) {
	head, err := journal.Last(r.Context(), a.cfg.Pool, r.PathValue("campaign"))
	if err != nil {
		return nil, err
	}
	campaign, err := operator.ReadCampaign(r.Context(), a.cfg.Pool, head)
	return operator.One(campaign), err
}

func (a *API) events(r *http.Request) (any, error) {
	q := parameters(r)
	limit, after := q.limit(), int64(0)
	q.after(&after)
	if err := q.done(); err != nil {
		return nil, err
	}
	events, more, err := feed.ListCampaign(r.Context(), a.cfg.Pool, r.PathValue("campaign"), after+1,
		a.listed(r, limit))
	if err != nil {
		return nil, err
	}
	if len(events) == 0 { // the campaign ends here, or there is none
		if _, err := journal.Last(r.Context(), a.cfg.Pool, r.PathValue("campaign")); err != nil {
			return nil, err
		}
	}
	return a.eventPage(r, events, more, func(e journal.Event) any { return e.Seq }), nil
}

func (a *API) gaps(r *http.Request) (any, error) {
	q := parameters(r)
	group, after := q.text("group"), ""
	q.after(&after)
	if group == "" {
		q.refuse("group", "", "", "the consumer group is missing", "name one of /api/v1/groups")
	}
	if err := q.done(); err != nil {
		return nil, err
	}
	if err := a.group(r, group); err != nil {
		return nil, err
	}
	gaps, next, err := outbox.Gaps(r.Context(), a.cfg.Pool, group, after, 0)
	p := all(gaps)
	if next != "" {
		p.Next = cursor(next)
	}
	return p, err
}
