package pages

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
)

type operationPage struct {
	admin.Operation
	Request  text
	Progress text
	Items    []admin.Item
	Pager    pager
	Percent  int64
	Hidden   bool
	Again    string // where what failed again is listed
}

// again answers the list in which what failed again is found, with the operation's filter as far as the list has it.
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

// operation shows how far an act has come.
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
		if o.Kind.Retries() && item.Outcome == "done" { // not before it is tried
			page.Items[i].Outcome = "queued again"
		}
	}
	page.Pager = pages(r, found.Next, plural(len(page.Items), "item")+" on this page")
	return view{Title: fmt.Sprintf("Operation %d", id), Data: page}, nil
}

const operationPath = "/operation?id="

// operationOf answers the address of the operation that an act has begun; "": it has begun none.
func operationOf(o *admin.Outcome) string {
	var op admin.Operation
	if o == nil || json.Unmarshal(o.Detail, &op) != nil || op.ID == 0 || op.Kind == "" {
		return ""
	}
	return operationPath + strconv.FormatInt(op.ID, 10)
}
