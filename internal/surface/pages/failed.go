package pages

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/surface/payload"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
)

const (
	// causeBound is up to where the pairs of a cause are counted.
	causeBound = 100
	// searchLook is how many pairs one page looks at, at most, where no index leads to those that a filter chooses.
	searchLook = 5000
)

// pairFilter is the filter of deferred pairs as the address has it.
type pairFilter struct {
	Projection, Fingerprint, Class, Code, EventType, Campaign, Message, Status, Older string
}

func readPairFilter(r *http.Request) (pairFilter, failed.Filter, error) {
	f := pairFilter{
		Projection: r.FormValue("projection"), Fingerprint: r.FormValue("fingerprint"), Class: r.FormValue("class"),
		Code:      r.FormValue("code"),
		EventType: r.FormValue("type"), Campaign: r.FormValue("campaign"), Message: r.FormValue("message"),
		Status: r.FormValue("status"), Older: r.FormValue("older"),
	}
	d := failed.Filter{
		Projection: f.Projection, Fingerprint: f.Fingerprint, Class: f.Class, Code: f.Code, EventType: f.EventType,
		CampaignID: f.Campaign, MessagePattern: f.Message,
		Status: []failed.Status{failed.Failed, failed.Dead},
	}
	status, err := choice(r, "status", d.Status)
	if err != nil {
		return f, d, err
	}
	if status != "" {
		d.Status = []failed.Status{status}
	}
	if _, err := choice(r, "class", failure.Classes()); err != nil {
		return f, d, err
	}
	if f.Older != "" {
		older, err := time.ParseDuration(f.Older)
		if err != nil || older < 0 {
			return f, d, problem.New(http.StatusBadRequest, "older is no length of time",
				"write it like 90s, 30m or 24h").Of("older", f.Older, "0s and up")
		}
		d.OlderThan = older
	}
	return f, d, nil
}

// Any says whether the filter leaves anything out.
func (f pairFilter) Any() bool { return f != pairFilter{} }

// Address answers a page of the filter's pairs.
func (f pairFilter) Address(path string) (string, error) { return link(path, f.parameters()...) }

// parameters are the filter's, as pairs of a name and a value.
func (f pairFilter) parameters() []any {
	return []any{
		"projection", f.Projection, "fingerprint", f.Fingerprint, "class", f.Class, "code", f.Code, "type", f.EventType,
		"campaign", f.Campaign, "message", f.Message, "status", f.Status, "older", f.Older,
	}
}

// failedPages answers /failed and /failed/campaign.
type failedPages struct {
	pool     *pgxpool.Pool
	payloads payload.Rule
}

type failedPage struct {
	Filter      pairFilter
	Projections []string
	Causes      []failed.Cause
	Bound       int64
	Pairs       []failed.Campaign
	Pager       pager
	All         bool // every pair, not grouped
	Looked      bool // the search ended before it came to the end
}

// list shows what has failed: by cause or, with a filter, one by one.
func (p failedPages) list(ctx context.Context, r *http.Request) (view, error) {
	shown, filter, err := readPairFilter(r)
	if err != nil {
		return view{}, err
	}
	page := failedPage{Filter: shown, Bound: causeBound, All: r.FormValue("all") != "" || shown.Any()}
	if page.Projections, err = projectionNames(ctx, p.pool); err != nil {
		return view{}, err
	}
	if page.All {
		err = p.pairs(ctx, r, filter, &page)
	} else {
		err = p.causes(ctx, r, &page)
	}
	return view{Title: "Failed", Data: page}, err
}

func (p failedPages) causes(ctx context.Context, r *http.Request, page *failedPage) error {
	var place failed.CauseKey
	there, err := after(r, &place)
	if err != nil {
		return err
	}
	f := failed.CauseFilter{Limit: perPage, Bound: causeBound}
	if there {
		f.After = &place
	}
	if page.Causes, err = failed.Causes(ctx, p.pool, f); err != nil {
		return err
	}
	next := afterLast(page.Causes, func(c failed.Cause) failed.CauseKey {
		return failed.CauseKey{Projection: c.Projection, Fingerprint: c.Fingerprint}
	})
	page.Pager = pages(r, next, plural(len(page.Causes), "cause")+" on this page")
	return nil
}

func (p failedPages) pairs(ctx context.Context, r *http.Request, f failed.Filter, page *failedPage) error {
	var place failed.Place
	there, err := after(r, &place)
	if err != nil {
		return err
	}
	if there {
		f.After = &place
	}
	f.Limit = perPage
	pairs, end, err := failed.Search(ctx, p.pool, f, searchLook)
	if err != nil {
		return err
	}
	page.Pairs = pairs
	shown := plural(len(pairs), "failed campaign") + " on this page, those due first come first"
	if end != nil && len(pairs) < perPage {
		page.Looked = true
		shown = fmt.Sprintf("%s among the %s that were looked at; the next page looks at more",
			plural(len(pairs), "failed campaign"), count(searchLook))
	}
	page.Pager = pages(r, end, shown)
	return nil
}

type pairPage struct {
	*failed.Detail
	Payload shownPayload
}

// pair shows all that is known of a pair.
func (p failedPages) pair(ctx context.Context, r *http.Request) (view, error) {
	projection, err := required(r, "projection")
	if err != nil {
		return view{}, err
	}
	campaign, err := required(r, "campaign")
	if err != nil {
		return view{}, err
	}
	detail, err := failed.Show(ctx, p.pool, failed.Key{Projection: projection, CampaignID: campaign})
	if err != nil {
		return view{}, err
	}
	page := pairPage{Detail: detail}
	if detail.Event != nil {
		page.Payload = showPayload(ctx, p.payloads, *detail.Event)
	}
	return view{Title: fmt.Sprintf("%s in %s", projection, short(campaign)), Data: page}, nil
}
