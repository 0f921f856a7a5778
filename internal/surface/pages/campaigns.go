package pages

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
)

// waitingLook is how many campaigns with work are looked at for those that have waited longest.
const waitingLook = 500

// campaignPages answers /campaigns and /campaign.
type campaignPages struct {
	pool     *pgxpool.Pool
	replayer *replayer
}

type campaignsPage struct {
	Query  string
	Bucket string // of the heat map, if the rows are of one alone
	Rows   []campaignRow
	Pager  pager
	Worst  bool // the rows are campaigns with work, not what was searched for
	Part   bool // more campaigns have work than were looked at
	Look   int64
}

type campaignRow struct {
	ID      string
	Waiting *outbox.Waiting // nil: nothing waits, or not looked at
}

// list shows the campaigns that have waited longest or, with a search, those whose ids begin so.
func (p campaignPages) list(ctx context.Context, r *http.Request) (view, error) {
	page := campaignsPage{Query: strings.TrimSpace(r.FormValue("q")), Look: waitingLook}
	read := p.found
	if page.Query == "" {
		read = p.waiting
	}
	return view{Title: "Campaigns", Data: &page}, read(ctx, r, &page)
}

func (p campaignPages) found(ctx context.Context, r *http.Request, page *campaignsPage) error {
	var last string
	there, err := after(r, &last)
	if err != nil {
		return err
	}
	var ids []string
	if there {
		ids, err = feed.CampaignsAfter(ctx, p.pool, last, perPage)
		if end := slices.IndexFunc(ids, func(id string) bool { return !strings.HasPrefix(id, page.Query) }); end >= 0 {
			ids = ids[:end]
		}
	} else {
		ids, err = feed.Campaigns(ctx, p.pool, page.Query, perPage)
	}
	if err != nil {
		return err
	}
	for _, id := range ids {
		page.Rows = append(page.Rows, campaignRow{ID: id})
	}
	next := afterLast(ids, func(id string) string { return id })
	page.Pager = pages(r, next, plural(len(ids), "campaign")+" on this page, by id")
	return nil
}

func (p campaignPages) waiting(ctx context.Context, r *http.Request, page *campaignsPage) error {
	bucket, err := number(r, "bucket", 0)
	if err == nil && bucket > heatBuckets {
		err = problem.New(http.StatusBadRequest, "there is no such bucket", "follow a link of the lag heat map").Of("bucket",
			count(bucket), "1 to "+count(int64(heatBuckets)))
	}
	if err != nil {
		return err
	}
	waiting, err := outbox.WalkWaiting(ctx, p.pool, "", "", waitingLook)
	if err != nil {
		return err
	}
	page.Worst, page.Part = true, len(waiting) == waitingLook
	if bucket > 0 {
		page.Bucket = bucketName(int(bucket) - 1)
		waiting = slices.DeleteFunc(waiting, func(w outbox.Waiting) bool { return bucketOf(w.CampaignID) != int(bucket)-1 })
	}
	slices.SortStableFunc(waiting, func(a, b outbox.Waiting) int { return a.Since.Compare(b.Since) })
	for _, w := range waiting[:min(perPage, len(waiting))] {
		page.Rows = append(page.Rows, campaignRow{ID: w.CampaignID, Waiting: &w})
	}
	return nil
}
