package pages

import (
	"context"
	"fmt"
	"net/http"

	"github.com/tidemark-go/tidemark/internal/store/failed"
)

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
