package pages

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator/acts"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/operator/views"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
)

// lists is a page with several lists, one of which it shows. Each list is a view of [views.All]
// with its filter and pager.
type lists struct {
	Path, Title, About string
	Lists              []listedView
}

type listedView struct {
	Of   string // in the URL; "": the page's first list
	Name string
	View string
	Many []string // acts on everything that matches the filter, or on what a page of their own asks for
}

type listPage struct {
	lists
	listedView
	Fields []filterField
	Clear  bool // the filter is set
	Acts   []actLink
	Things any
	Pager  pager
}

type actLink struct{ Name, Path string }

// listPages returns the pages in the order in which a person on call needs them.
func listPages() []lists {
	return []lists{
		{
			"/campaigns", "Campaigns", "All campaigns by id, the backlog, or appends that are still to be made.",
			[]listedView{
				{Name: "By id", View: "listCampaigns"},
				{Of: "work", Name: "With work", View: "listQueueEntries"},
				{Of: "scheduled", Name: "Scheduled", View: "listScheduled"},
			},
		},
		{
			"/failed", "Failed", "Campaigns that failed in a projection. Other projections of the campaign go on.",
			[]listedView{
				{Name: "By cause", View: "listFailureCauses"},
				{
					Of: "all", Name: "One by one", View: "listFailed",
					Many: []string{"requeueManyFailed", "resolveManyFailed"},
				},
				{Of: "resolutions", Name: "Resolved events", View: "listResolutions"},
			},
		},
		{
			"/parked", "Parked", "Events that a publisher's sink refused. Where one holds its campaign, later events of it " +
				"wait for that publisher only.",
			[]listedView{{View: "listParked", Many: []string{"retryManyParked", "resolveManyParked"}}},
		},
		{
			"/operations", "Operations", "Acts on many things, which workers do in batches.",
			[]listedView{{View: "listOperations"}},
		},
		{
			"/projections", "Projections", "Live tables, tables being built, and replaced tables.",
			[]listedView{
				{Name: "Projections", View: "listProjections"},
				{Of: "rebuilds", Name: "Rebuilds under way", View: "listRebuilds"},
				{Of: "places", Name: "Across campaigns", View: "listPlaces"},
			},
		},
		{
			"/publishers", "Publishers", "Each pair of a topic and a publisher has its own position in the journal.",
			[]listedView{{View: "listPublishers"}},
		},
		{
			"/workers", "Workers", "Worker processes, the campaigns they hold, and pauses.",
			[]listedView{
				{Name: "Workers", View: "listWorkers"},
				{Of: "leases", Name: "Leases", View: "listLeases"},
				{Of: "pauses", Name: "Pauses", View: "listPauses"},
				{Of: "groups", Name: "Consumer groups", View: "listGroups"},
			},
		},
		{
			"/audit", "Audit", "What operators did, and what happened to failed campaigns, newest first.",
			[]listedView{
				{Name: "Acts of operators", View: "listLog"},
				{Of: "failures", Name: "History of failed campaigns", View: "listFailedLog"},
				{
					Of: "erasures", Name: "Erasures", View: "listErasures",
					Many: []string{"eraseSubjects", "eraseCampaign", "deleteKey"},
				},
				{Of: "retention", Name: "Retention", View: "listPolicies"},
				{Of: "requests", Name: "Asked from the archive", View: "listRestoreRequests"},
			},
		},
	}
}

func (p *Pages) list(all lists) reading {
	return func(ctx context.Context, r *http.Request) (v view, err error) {
		names := slice.Of(all.Lists, func(l listedView) string { return l.Of })
		of, known := r.FormValue("of"), strings.Join(names, ", ")
		i := slices.Index(names, of)
		if i < 0 {
			return v, problem.New(http.StatusBadRequest, fmt.Sprintf("no of %q: there are %s", of, known), "choose another").
				Of("of", of, known)
		}
		page := &listPage{lists: all, listedView: all.Lists[i]}
		query := views.Named(page.View).Query
		if err := takes(r, append(param.Names(query), "of", "after")); err != nil {
			return v, err
		}
		if page.Fields, page.Clear, err = fieldsOf(ctx, p.cfg.Pool, r, query); err != nil {
			return v, err
		}
		return view{Name: "list", Title: all.Title, Data: page}, p.readView(ctx, r, page)
	}
}

func (p *Pages) readView(ctx context.Context, r *http.Request, page *listPage) error {
	found, err := p.find(ctx, r, page.View, page.Fields)
	if err != nil {
		return err
	}
	page.Things = found.Things
	n := reflect.ValueOf(found.Things).Len()
	shown := plural(n, "row") + " on this page"
	if found.Next != "" && n < perPage {
		shown += ", of the " + count(searchLook) + " that were looked at; the next page looks at more"
	}
	page.Pager = pages(r, found.Next, shown)
	for _, name := range page.Many {
		if act, ok := acts.Named(name); ok && auth.From(ctx).Role >= act.Role {
			page.Acts = page.actOn(act)
		}
	}
	return nil
}

// actOn adds a link to an act on everything that matches the filter, unless the act lacks a parameter
// of the filter.
func (page *listPage) actOn(act *acts.Act) []actLink {
	q := url.Values{}
	for _, f := range page.Fields {
		switch {
		case f.Value == "":
		case !slices.Contains(param.Names(act.Params), f.Name):
			return page.Acts
		default:
			q.Set(f.Name, f.Value)
		}
	}
	if len(page.Fields) == 0 {
		return append(page.Acts, actLink{act.Button, "/act/" + act.Name})
	}
	if len(q) == 0 {
		q.Set("all", "true")
	}
	return append(page.Acts, actLink{act.Button + " all that match", "/act/" + act.Name + "?" + q.Encode()})
}

const (
	searchLook = 5000            // rows that a page examines at most if no index supports the filter
	searchTime = 2 * time.Second // that a page reads the journal for rare events
)

func (p *Pages) find(ctx context.Context, r *http.Request, name string, fields []filterField) (*views.Found, error) {
	of := views.Named(name)
	if auth.From(ctx).Role < of.Role {
		return nil, admin.ErrForbidden
	}
	in, err := of.Input(of.Query, asked(append(fields[:len(fields):len(fields)],
		filterField{Name: "limit", Value: strconv.Itoa(perPage)}, filterField{Name: "after", Value: r.FormValue("after")})))
	if err != nil {
		return nil, err
	}
	reader := views.Reader{Pool: p.cfg.Pool, Acts: p.cfg.Acts, API: true, Look: searchLook, Time: searchTime}
	return of.Read(ctx, reader, in)
}

// asked returns the values of fields as parameters.
func asked(fields []filterField) param.Texts {
	return func(name string) ([]string, bool) {
		for _, f := range fields {
			if f.Name == name && f.Value != "" {
				return f.values(), true
			}
		}
		return nil, false
	}
}

// fieldsOf returns the fields of a filter with the URL's values. chosen reports whether any is set.
func fieldsOf(
	ctx context.Context, pool *pgxpool.Pool, r *http.Request, params []param.Param,
) (fields []filterField, chosen bool, err error) {
	for _, asks := range params {
		if asks.Page != "" {
			continue
		}
		f := filterField{
			Name: asks.Name, Label: labelOf(asks.Name), Help: asks.Help, Value: r.FormValue(asks.Name),
			Lines: asks.Type == param.Several,
		}
		chosen = chosen || f.Value != ""
		words := slices.Clone(asks.Choices)
		if asks.Type == param.Switch {
			words = []string{"true"}
		}
		if len(words) == 0 {
			if words, err = admin.Known(ctx, pool, asks.Of); err != nil {
				return nil, false, err
			}
		}
		if asks.Required && f.Value == "" && len(words) > 0 {
			f.Value = words[0]
		}
		f.Options = choicesOf(words, f.Value, asks.Required)
		fields = append(fields, f)
	}
	return fields, chosen, nil
}

// choicesOf returns the options of a field. They include the chosen value even if it no longer exists.
func choicesOf(words []string, chosen string, required bool) (choices []option) {
	if len(words) == 0 {
		return nil
	}
	if !required {
		choices = []option{{"", "any"}}
	}
	if chosen != "" && !slices.Contains(words, chosen) {
		words = append(words, chosen)
	}
	return append(choices, slice.Of(words, func(w string) option { return option{w, w} })...)
}

func labelOf(name string) string {
	return strings.ToUpper(name[:1]) + strings.ReplaceAll(name[1:], "_", " ")
}
