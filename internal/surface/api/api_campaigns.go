package api

import (
	"net/http"

	"github.com/tidemark-go/tidemark/internal/store/outbox"
)

func (a *API) campaignRoutes() []Route {
	return []Route{
		a.reads("/campaigns/{campaign}/as-of", "getAsOf", a.asOf),
		a.reads("/campaigns/{campaign}/diff", "getDiff", a.diff),
		a.reads("/campaigns/{campaign}/why", "getWhy", a.why),
		a.reads("/campaigns/{campaign}/verify", "verifyCampaign", a.verify),
		a.reads("/gaps", "listGaps", a.gaps),
	}
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
