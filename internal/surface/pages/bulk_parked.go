package pages

import (
	"context"
	"errors"
	"net/http"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
)

// bulkParkedPage is a bulk act on parked events, as bulkPage is one on pairs.
type bulkParkedPage struct {
	Filter  admin.ParkedFilter
	Kind    admin.OperationKind
	Kinds   []admin.OperationKind
	Preview *admin.Preview // nil: nothing is chosen yet
	Back    string         // the list with the same filter
}

// parked shows what an act on all parked events that a filter chooses would be about.
func (p bulkPages) parked(ctx context.Context, r *http.Request) (view, error) {
	if _, err := choice(r, "status", publications.ParkedStatuses()); err != nil {
		return view{}, err
	}
	page := &bulkParkedPage{
		Filter: parkedFilterOf(r), Kind: admin.OperationKind(r.FormValue("kind")),
		Kinds: []admin.OperationKind{admin.OpRetryParked},
	}
	if auth.From(ctx).Role >= auth.Admin {
		page.Kinds = append(page.Kinds, admin.OpResolveParked)
	}
	page.Back, _ = link("/parked", "topic", page.Filter.Topic, "publisher", page.Filter.Publisher, "campaign",
		page.Filter.CampaignID, "type", page.Filter.EventType)
	v := view{Name: "bulk_parked", Title: "Bulk acts on parked events", Data: page}
	if page.Kind == "" {
		page.Kind = admin.OpRetryParked
		return v, nil
	}
	preview, err := p.acts.PreviewBulk(ctx, admin.Bulk{Kind: page.Kind, Parked: &page.Filter})
	if errors.Is(err, admin.ErrInvalid) || errors.Is(err, deferred.ErrPattern) {
		return view{}, problem.New(http.StatusBadRequest, err.Error(), "choose another act or filter")
	}
	page.Preview = preview
	return v, err
}

func parkedFilterOf(r *http.Request) admin.ParkedFilter {
	return admin.ParkedFilter{
		Topic: r.FormValue("topic"), Publisher: r.FormValue("publisher"), CampaignID: r.FormValue("campaign"),
		EventType: r.FormValue("type"), Status: r.FormValue("status"), Message: r.FormValue("message"),
	}
}

func startBulkParked(
	ctx context.Context, a *admin.Acts, req admin.Request, r *http.Request,
) (*admin.Outcome, string, error) {
	if _, err := choice(r, "status", publications.ParkedStatuses()); err != nil {
		return nil, "", err
	}
	filter := parkedFilterOf(r)
	asOf, err := previewedAt(r)
	if err != nil {
		return nil, "", err
	}
	bulk := admin.Bulk{Kind: admin.OperationKind(r.PostFormValue("kind")), Parked: &filter, AsOf: asOf}
	o, err := a.StartBulk(ctx, req, bulk, r.PostFormValue("confirm"))
	return o, begun(o), err
}
