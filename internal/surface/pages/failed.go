package pages

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

const (
	// causeBound is up to where the pairs of a cause are counted.
	causeBound = 100
	// searchLook is how many pairs one page looks at, at most, where no index leads to those that a filter chooses.
	searchLook = 5000
)

// causes sums up what has failed by projection and fingerprint.
func (p *Pages) causes(ctx context.Context, r *http.Request) (*shownTable, pager, error) {
	f := failed.CauseFilter{Limit: perPage, Bound: causeBound}
	if after := r.FormValue("after"); after != "" {
		projection, fingerprint, _ := strings.Cut(after, " ")
		f.After = &failed.CauseKey{Projection: projection, Fingerprint: fingerprint}
	}
	causes, err := failed.Causes(ctx, p.cfg.Pool, f)
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
	next := ""
	if n := len(causes); n == perPage {
		next = causes[n-1].Projection + " " + causes[n-1].Fingerprint
	}
	return t, pages(r, next, plural(len(causes), "cause")+" on this page"), nil
}

type pairPage struct {
	*failed.Detail
	Payload shownPayload
}

// failedCampaign shows all that is known of a campaign that failed in a projection.
func (p *Pages) failedCampaign(ctx context.Context, r *http.Request) (view, error) {
	projection, err := required(r, "projection")
	if err != nil {
		return view{}, err
	}
	campaign, err := required(r, "campaign")
	if err != nil {
		return view{}, err
	}
	detail, err := failed.Show(ctx, p.cfg.Pool, failed.Key{Projection: projection, CampaignID: campaign})
	if err != nil {
		return view{}, err
	}
	page := pairPage{Detail: detail}
	if detail.Event != nil {
		page.Payload = showPayload(ctx, p.cfg.Payloads, *detail.Event)
	}
	return view{Title: fmt.Sprintf("%s in %s", projection, short(campaign)), Data: page}, nil
}
