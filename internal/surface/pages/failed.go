package pages

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/surface/payload"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

const (
	// causeBound is up to where the pairs of a cause are counted.
	causeBound = 100
	// searchLook is how many pairs one page looks at, at most, where no index leads to those that a filter chooses.
	searchLook = 5000
)

// failedPages answers /failed and /failed/campaign.
type failedPages struct {
	pool     *pgxpool.Pool
	payloads payload.Rule
}

// causes sums up what has failed by projection and fingerprint.
func (p failedPages) causes(ctx context.Context, r *http.Request) (*shownTable, pager, error) {
	var place failed.CauseKey
	there, err := after(r, &place)
	if err != nil {
		return nil, pager{}, err
	}
	f := failed.CauseFilter{Limit: perPage, Bound: causeBound}
	if there {
		f.After = &place
	}
	causes, err := failed.Causes(ctx, p.pool, f)
	if err != nil {
		return nil, pager{}, err
	}
	var rows [][]table.Cell
	for _, c := range causes {
		all := count(c.Pairs())
		switch counted := max(c.Dead, c.Failed) < causeBound; {
		case !counted && c.About > c.Pairs():
			all = "≈ " + count(c.About)
		case !counted:
			all = "at least " + all
		}
		rows = append(rows, []table.Cell{
			table.Text(c.Message), table.Text(c.Fingerprint), table.Text(c.Projection), table.Text(c.Class),
			table.NumberText(bounded(c.Dead, causeBound)), table.NumberText(bounded(c.Failed, causeBound)),
			table.NumberText(all), table.Text(c.EventType), table.IfKnown(c.LastFailedAt),
		})
	}
	t := newTable(strings.Split("ERROR|FINGERPRINT|PROJECTION|CLASS|DEAD|FAILED|IN ALL|TYPE|LATEST", "|"), rows)
	t.Name, t.Empty = "Causes of failures", "Nothing has failed."
	next := afterLast(causes, func(c failed.Cause) failed.CauseKey {
		return failed.CauseKey{Projection: c.Projection, Fingerprint: c.Fingerprint}
	})
	return t, pages(r, next, plural(len(causes), "cause")+" on this page"), nil
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
