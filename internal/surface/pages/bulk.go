package pages

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/surface/payload"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
)

// bulkLook is how many pairs are counted by the way.
const bulkLook = 500

// bulkPages answers /bulk, /bulk/parked and /bulk/operation.
type bulkPages struct {
	pool     *pgxpool.Pool
	acts     *admin.Acts
	payloads payload.Rule
}

// bulkPage is an act on all failed campaigns, or all parked events, that a filter chooses.
type bulkPage struct {
	Path       string // /bulk or /bulk/parked
	Parked     bool   // it is on parked events
	Fields     []filterField
	Kind       admin.OperationKind
	Kinds      []admin.OperationKind
	Chosen     bool           // the address has a filter, or asks for everything
	Preview    *admin.Preview // nil: nothing is chosen yet, or there is too much to count by the way
	Sample     []failed.Campaign
	AtLeast    int64  // where Preview is nil
	Count      string // the address that counts all
	Operations []admin.Operation
	Pager      pager
}

// chosen reads a filter of type T, whose fields are parameters, as the address or the form has it.
func chosen[T any](r *http.Request) (*T, error) {
	of := reflect.TypeFor[T]()
	filter, err := param.Read(of, param.Of(of), func(name string) ([]string, bool) {
		value := r.FormValue(name)
		return slices.DeleteFunc([]string{value}, func(v string) bool { return v == "" }), value != ""
	})
	if err != nil {
		return nil, err
	}
	return filter.(*T), nil
}

// newBulkPage answers the page of an act that tries again or, for admins, one that resolves, on what a filter of type T
// chooses, and the filter.
func newBulkPage[T any](
	ctx context.Context, pool *pgxpool.Pool, r *http.Request, retry, resolve admin.OperationKind,
) (*bulkPage, *T, error) {
	page := &bulkPage{Path: r.URL.Path, Kinds: []admin.OperationKind{retry}}
	if auth.From(ctx).Role >= auth.Admin {
		page.Kinds = append(page.Kinds, resolve)
	}
	page.Kind = cmp.Or(admin.OperationKind(r.FormValue("kind")), retry)
	filter, err := chosen[T](r)
	if err != nil {
		return nil, nil, err
	}
	page.Fields, page.Chosen, err = fieldsOf(ctx, pool, r, param.Of(reflect.TypeFor[T]()))
	page.Chosen = page.Chosen || r.FormValue("kind") != ""
	return page, filter, err
}

// failed shows what an act on all failed campaigns of a filter would be about, and the acts there have been.
func (p bulkPages) failed(ctx context.Context, r *http.Request) (view, error) {
	page, filter, err := newBulkPage[admin.FailedFilter](ctx, p.pool, r, admin.OpRequeue, admin.OpResolve)
	if err == nil && page.Chosen {
		err = p.sample(ctx, r, page, filter)
	}
	if err != nil {
		return view{}, err
	}
	var before int64
	if _, err := after(r, &before); err != nil {
		return view{}, err
	}
	if page.Operations, err = p.acts.Operations(ctx,
		admin.OperationFilter{Before: before, Limit: perPage}); err != nil {
		return view{}, err
	}
	page.Pager = pages(r, afterLast(page.Operations, func(o admin.Operation) int64 { return o.ID }), "")
	return view{Title: "Bulk acts", Data: page}, nil
}

// sample counts what is few. What is many is counted when the user asks for it: it takes as
// long as there is of it.
func (p bulkPages) sample(ctx context.Context, r *http.Request, page *bulkPage, filter *admin.FailedFilter) error {
	f := filter.Filter()
	f.Limit = bulkLook
	campaigns, end, err := failed.Search(ctx, p.pool, f, searchLook)
	if err != nil {
		return err
	}
	page.Sample = campaigns[:min(len(campaigns), 10)]
	if end != nil && r.FormValue("count") == "" {
		page.AtLeast, page.Count = int64(len(campaigns)), with(r, "count", "1")
		return nil
	}
	return p.preview(ctx, page, admin.Bulk{Kind: page.Kind, Failed: filter})
}

// parked shows what an act on all parked events of a filter would be about.
func (p bulkPages) parked(ctx context.Context, r *http.Request) (view, error) {
	page, filter, err := newBulkPage[admin.ParkedFilter](ctx, p.pool, r, admin.OpRetryParked, admin.OpResolveParked)
	if err != nil {
		return view{}, err
	}
	page.Parked = true
	if page.Chosen {
		err = p.preview(ctx, page, admin.Bulk{Kind: page.Kind, Parked: filter})
	}
	return view{Name: "bulk", Title: "Bulk acts on parked events", Data: page}, err
}

func (p bulkPages) preview(ctx context.Context, page *bulkPage, bulk admin.Bulk) (err error) {
	page.Preview, err = p.acts.PreviewBulk(ctx, bulk)
	if errors.Is(err, admin.ErrInvalid) || errors.Is(err, failed.ErrPattern) {
		return problem.New(http.StatusBadRequest, err.Error(), "choose another act or filter")
	}
	return err
}

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
	return link("/failed", "projection", f.Projection, "campaign", f.CampaignID, "type", f.EventType)
}

// operation shows how far an act has come.
func (p bulkPages) operation(ctx context.Context, r *http.Request) (view, error) {
	id, err := number(r, "id", 0)
	if err != nil {
		return view{}, err
	}
	o, err := p.acts.Operation(ctx, id)
	if err != nil {
		return view{}, err
	}
	page := &operationPage{
		Operation: *o, Request: blockJSON(o.Request), Progress: blockJSON(o.Progress),
		Hidden: !p.payloads.Sees(auth.From(ctx)),
	}
	if o.Total > 0 {
		page.Percent = 100 * (o.Done + o.Skipped + o.Failed) / o.Total
	}
	if o.Since != nil {
		if page.Again, err = again(*o); err != nil {
			return view{}, err
		}
	}
	var place int64
	if _, err := after(r, &place); err != nil {
		return view{}, err
	}
	if page.Items, err = p.acts.Items(ctx, id, place, perPage); err != nil {
		return view{}, err
	}
	next := afterLast(page.Items, func(i admin.Item) int64 { return i.Ord })
	page.Pager = pages(r, next, plural(len(page.Items), "item")+" on this page")
	return view{Title: fmt.Sprintf("Operation %d", id), Data: page}, nil
}

// startBulk begins what a page has shown and a person confirmed.
func startBulk(ctx context.Context, a *admin.Acts, req admin.Request, r *http.Request) (*admin.Outcome, string, error) {
	bulk := admin.Bulk{Kind: admin.OperationKind(r.PostFormValue("kind"))}
	var err error
	if strings.HasPrefix(r.URL.Path, "/bulk/parked/") {
		bulk.Parked, err = chosen[admin.ParkedFilter](r)
	} else {
		bulk.Failed, err = chosen[admin.FailedFilter](r)
	}
	if err != nil {
		return nil, "", err
	}
	at, err := time.Parse(time.RFC3339Nano, r.PostFormValue("as_of"))
	if err != nil {
		return nil, "", problem.New(http.StatusBadRequest, "as_of is no time", "look at the preview again").Of("as_of",
			r.PostFormValue("as_of"), "")
	}
	bulk.AsOf = &at
	o, err := a.StartBulk(ctx, req, bulk, req.Confirm)
	return o, begun(o), err
}

// begun says that an operation has begun.
func begun(o *admin.Outcome) string {
	var op admin.Operation
	if o == nil || json.Unmarshal(o.Detail, &op) != nil {
		return ""
	}
	return fmt.Sprintf("Operation %d has begun: %s frozen, workers do them in batches.", op.ID, plural(op.Total, "item"))
}

const operationPath = "/bulk/operation?id="

// operationOf answers the address of the operation that an act has begun; "": it has begun none.
func operationOf(o *admin.Outcome) string {
	var op admin.Operation
	if o == nil || json.Unmarshal(o.Detail, &op) != nil || op.ID == 0 || op.Kind == "" {
		return ""
	}
	return operationPath + strconv.FormatInt(op.ID, 10)
}
