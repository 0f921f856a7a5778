package pages

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
	"github.com/tidemark-go/tidemark/pkg/lookback"
)

type pairPage struct {
	*failed.Detail
	Payload shownPayload
}

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

type publisherPage struct {
	publications.Publication
	History []publications.Record
}

func (p *Pages) publisher(ctx context.Context, r *http.Request) (view, error) {
	key := publications.Key{Topic: r.FormValue("topic"), Publisher: r.FormValue("publisher")}
	if key.Topic == "" || key.Publisher == "" {
		return view{}, problem.New(http.StatusBadRequest, "topic or publisher is missing", "follow a link of the list")
	}
	all, err := publications.List(ctx, p.cfg.Pool, key)
	if err != nil {
		return view{}, err
	}
	if len(all) == 0 {
		return view{}, problem.New(http.StatusNotFound, "no publisher "+key.String()+" is known",
			"it appears once a worker that publishes it has run")
	}
	page := &publisherPage{Publication: all[0]}
	page.History, err = publications.Log(ctx, p.cfg.Pool,
		publications.LogFilter{Topic: key.Topic, Publisher: key.Publisher, Limit: 20})
	return view{Title: key.String(), Data: page}, err
}

type operationPage struct {
	admin.Operation
	Request  text
	Progress text
	Found    *verified // of a verification
	Items    []admin.Item
	Pager    pager
	Percent  int64
	Hidden   bool
	Again    string // URL of the list of items that failed again
}

// again returns the URL of the list of items that failed again, with those of the operation's filters
// that the list has.
func again(o admin.Operation) (string, error) {
	var bulk admin.Bulk
	if err := json.Unmarshal(o.Request, &bulk); err != nil {
		return "", err
	}
	if f := bulk.Parked; f != nil {
		return link("/parked", "topic", f.Topic, "publisher", f.Publisher, "campaign", f.CampaignID, "type", f.EventType)
	}
	f := bulk.Failed
	return link("/failed", "of", "all", "projection", f.Projection, "campaign", f.CampaignID, "type", f.EventType)
}

func (p *Pages) operation(ctx context.Context, r *http.Request) (view, error) {
	id, err := number(r, "id", 0)
	if err != nil {
		return view{}, err
	}
	o, err := p.cfg.Acts.Operation(ctx, id)
	if err != nil {
		return view{}, err
	}
	page := &operationPage{
		Operation: *o, Request: blockJSON(o.Request), Progress: blockJSON(o.Progress),
		Hidden: !p.cfg.Payloads.Sees(auth.From(ctx)),
	}
	if o.Kind == admin.OpVerify {
		if page.Found, err = verifiedBy(o.Request, o.Progress); err != nil {
			return view{}, err
		}
	}
	if o.Total > 0 {
		page.Percent = 100 * (o.Done + o.Skipped + o.Failed) / o.Total
	}
	if o.Since != nil {
		if page.Again, err = again(*o); err != nil {
			return view{}, err
		}
	}
	found, err := p.find(ctx, r, "listOperationItems", []filterField{{Name: "id", Value: strconv.FormatInt(id, 10)}})
	if err != nil {
		return view{}, err
	}
	page.Items = found.Things.([]admin.Item)
	for i, item := range page.Items {
		if o.Kind.Retries() && item.Outcome == "done" { // "done" only means that the retry is due
			page.Items[i].Outcome = "queued again"
		}
	}
	page.Pager = pages(r, found.Next, plural(len(page.Items), "item")+" on this page")
	return view{Title: fmt.Sprintf("Operation %d", id), Data: page}, nil
}

// verified is what a verification was asked for and has found: of its rows, or as a proof.
type verified struct {
	Asked  admin.Verification
	Report *lookback.VerifyReport
	Proof  *admin.Proof
}

func verifiedBy(request, found json.RawMessage) (*verified, error) {
	v := &verified{}
	if err := json.Unmarshal(request, &v.Asked); err != nil {
		return nil, err
	}
	if len(found) == 0 || string(found) == "null" || string(found) == "{}" {
		return v, nil
	}
	if v.Asked.Proof {
		v.Proof = &admin.Proof{}
		return v, json.Unmarshal(found, v.Proof)
	}
	v.Report = &lookback.VerifyReport{}
	return v, json.Unmarshal(found, v.Report)
}

const operationPath = "/operation?id="

// operationOf returns the URL of the operation that an act started, or "" if it started none.
func operationOf(o *admin.Outcome) string {
	var op admin.Operation
	if o == nil || json.Unmarshal(o.Detail, &op) != nil || op.ID == 0 || op.Kind == "" {
		return ""
	}
	return operationPath + strconv.FormatInt(op.ID, 10)
}

type settingsPage struct {
	Version  string
	Settings []Setting
	Payloads string
	Max      int32 // connections of the pages
}

// readSettings shows the worker's settings. They cannot be changed here.
func (p *Pages) readSettings(context.Context, *http.Request) (view, error) {
	return view{
		Title: "Settings",
		Data: &settingsPage{
			Version: p.cfg.Version, Settings: p.cfg.Settings, Payloads: p.cfg.Payloads.String(),
			Max: p.cfg.Pool.Config().MaxConns,
		},
	}, nil
}

func (p *Pages) readNothing(_ context.Context, r *http.Request) (view, error) {
	return view{}, problem.New(http.StatusNotFound, "there is no page "+r.URL.Path, "start from the overview")
}
