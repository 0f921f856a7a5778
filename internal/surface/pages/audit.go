package pages

import (
	"context"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/payload"
)

// auditPages answers /audit.
type auditPages struct {
	pool     *pgxpool.Pool
	payloads payload.Rule
}

type auditPage struct {
	Actor, Act, Campaign string
	Failures             bool // what happened to pairs, not what people did
	Acts                 []string
	Rows                 []auditRow
	Records              []failed.Record
	Pager                pager
}

type auditRow struct {
	publications.Record
	Detail text
	Hidden bool
}

// audit shows who did what and why, the newest first; or what happened to pairs.
func (p auditPages) audit(ctx context.Context, r *http.Request) (view, error) {
	of, err := choice(r, "of", []string{"failures"})
	if err != nil {
		return view{}, err
	}
	page := &auditPage{
		Actor: r.FormValue("actor"), Campaign: r.FormValue("campaign"), Failures: of == "failures",
		Acts: failed.Acts(),
	}
	if !page.Failures {
		page.Acts = nil
		for _, k := range admin.Kinds() {
			page.Acts = append(page.Acts, string(k))
		}
	}
	if page.Act, err = choice(r, "act", page.Acts); err != nil {
		return view{}, err
	}
	var before int64
	if _, err := after(r, &before); err != nil {
		return view{}, err
	}
	var acts []string
	if page.Act != "" {
		acts = []string{page.Act}
	}
	if page.Failures {
		f := failed.LogFilter{Actor: page.Actor, CampaignID: page.Campaign, Acts: acts, Before: before, Limit: perPage}
		if page.Records, err = failed.History(ctx, p.pool, f); err != nil {
			return view{}, err
		}
		page.Pager = pages(r, afterLast(page.Records, func(rec failed.Record) int64 { return rec.ID }),
			plural(len(page.Records), "record")+" on this page, the newest first")
		return view{Title: "Audit", Data: page}, nil
	}
	f := publications.LogFilter{Actor: page.Actor, CampaignID: page.Campaign, Acts: acts, Before: before, Limit: perPage}
	records, err := publications.Log(ctx, p.pool, f)
	if err != nil {
		return view{}, err
	}
	sees := p.payloads.Sees(auth.From(ctx))
	for _, rec := range records {
		row := auditRow{Record: rec, Hidden: !sees}
		if sees {
			row.Detail = newText(string(rec.Detail), 2000, false)
		}
		page.Rows = append(page.Rows, row)
	}
	page.Pager = pages(r, afterLast(records, func(rec publications.Record) int64 { return rec.ID }),
		plural(len(records), "act")+" on this page, the newest first")
	return view{Title: "Audit", Data: page}, nil
}
