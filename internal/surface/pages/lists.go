package pages

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/publications"
)

// lists is a page of lists, of which it shows one. Each is a view of [operator.Views], with its filter and its pages.
type lists struct {
	Title, About string
	Lists        []listedView
}

// listedView is a list of such a page.
type listedView struct {
	Of   string // in the address; "": the page's first
	Name string
	View string
	Bulk string // the page of acts on all that the filter chooses; "": there is none

	// read makes the table of a list that is no view. A filter is that of the list after it.
	read func(ctx context.Context, r *http.Request) (*shownTable, pager, error)
}

// listPage is what its template gets.
type listPage struct {
	lists
	listedView
	Path   string
	Fields []filterField
	Clear  bool   // the filter chooses something
	Bulk   string // an address
	Things any
	Ready  *shownTable // in place of Things
	Pager  pager
}

// listPages are the pages of lists, by their addresses.
func listPages(failed failedPages) map[string]lists {
	return map[string]lists{
		"/failed": {
			"Failed", "Campaigns that failed in a projection. Other projections of the campaign go on.",
			[]listedView{
				{Name: "By cause", read: failed.causes},
				{Of: "all", Name: "One by one", View: "listFailed", Bulk: "/bulk"},
				{Of: "resolutions", Name: "Resolved events", View: "listResolutions"},
			},
		},
		"/publishers": {
			"Publishers", "Each pair of a topic and a publisher has a place of its own in the journal.",
			[]listedView{{View: "listPublishers"}},
		},
		"/workers": {
			"Workers", "Processes, the campaigns that they have leased, and what is paused.",
			[]listedView{
				{Name: "Workers", View: "listWorkers"},
				{Of: "leases", Name: "Leases", View: "listLeases"},
				{Of: "pauses", Name: "Pauses", View: "listPauses"},
				{Of: "groups", Name: "Consumer groups", View: "listGroups"},
			},
		},
		"/audit": {
			"Audit", "What operators did, and what happened to failed campaigns, the newest first.",
			[]listedView{
				{Name: "Acts of operators", View: "listLog"},
				{Of: "failures", Name: "History of failed campaigns", View: "listFailedLog"},
			},
		},
	}
}

// list reads the list that the address names, as its filter chooses.
func (p *Pages) list(all lists) reading {
	return func(ctx context.Context, r *http.Request) (v view, err error) {
		var names []string
		for _, l := range all.Lists {
			names = append(names, l.Of)
		}
		of, err := choice(r, "of", names)
		if err != nil {
			return v, err
		}
		i := slices.Index(names, of)
		if all.Lists[i].read != nil && without(r, "of", "after") != r.URL.Path {
			i++
		}
		page := &listPage{lists: all, listedView: all.Lists[i], Path: r.URL.Path}
		if page.read != nil {
			page.Ready, page.Pager, err = page.read(ctx, r)
			if err == nil {
				filter := operator.ViewNamed(all.Lists[i+1].View).Query
				page.Fields, _, err = fieldsOf(ctx, p.cfg.Pool, r, filter)
			}
		} else {
			err = p.readView(ctx, r, page)
		}
		return view{Name: "list", Title: all.Title, Data: page}, err
	}
}

// readView reads a list that is a view.
func (p *Pages) readView(ctx context.Context, r *http.Request, page *listPage) error {
	of := operator.ViewNamed(page.View)
	if auth.From(ctx).Role < of.Role {
		return admin.ErrForbidden
	}
	fields, chosen, err := fieldsOf(ctx, p.cfg.Pool, r, of.Query)
	if err != nil {
		return err
	}
	page.Fields, page.Clear = fields, chosen
	asked := map[string]string{"limit": strconv.Itoa(perPage), "after": r.FormValue("after")}
	for _, f := range page.Fields {
		asked[f.Name] = f.Value
	}
	in, err := of.Input(of.Query, func(name string) ([]string, bool) {
		if asked[name] == "" {
			return nil, false
		}
		return []string{asked[name]}, true
	})
	if err != nil {
		return err
	}
	found, err := of.Read(ctx, operator.Reader{Pool: p.cfg.Pool, Acts: p.cfg.Acts, API: true, Look: searchLook}, in)
	if err != nil {
		return err
	}
	page.Things = found.Things
	shown := plural(reflect.ValueOf(found.Things).Len(), "row") + " on this page"
	if found.Next != "" && reflect.ValueOf(found.Things).Len() < perPage {
		shown += ", of the " + count(searchLook) + " that were looked at; the next page looks at more"
	}
	page.Pager = pagesFrom(r, found.Next, shown)
	if page.listedView.Bulk != "" {
		page.Bulk = page.listedView.Bulk + strings.TrimPrefix(without(r, "of", "after", "all"), r.URL.Path)
	}
	return nil
}

// fieldsOf makes the fields of a filter, with what the address says. chosen: it chooses something.
func fieldsOf(
	ctx context.Context, pool *pgxpool.Pool, r *http.Request, params []param.Param,
) (fields []filterField, chosen bool, err error) {
	for _, asks := range params {
		if asks.Page != "" {
			continue
		}
		f := filterField{
			Name: asks.Name, Label: labelOf(asks.Name), Help: asks.Help, Value: r.FormValue(asks.Name), Size: "14",
		}
		chosen = chosen || f.Value != ""
		words := slices.Clone(asks.Choices)
		if asks.Type == param.Switch {
			words = []string{"true"}
		}
		if len(words) == 0 {
			if words, err = namesOf(ctx, pool, asks.Of); err != nil {
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

// choicesOf makes the options of a field, the one that is chosen among them though there is no such thing any more.
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
	for _, w := range words {
		choices = append(choices, option{w, w})
	}
	return choices
}

// labelOf writes the name of a parameter for a person.
func labelOf(name string) string {
	return strings.ToUpper(name[:1]) + strings.ReplaceAll(name[1:], "_", " ")
}

// namesOf answers what a parameter may name, of the kinds that have few.
func namesOf(ctx context.Context, pool *pgxpool.Pool, of string) (names []string, err error) {
	switch of {
	case "group":
		all, err := outbox.Groups(ctx, pool)
		for _, g := range all {
			names = append(names, g.Name)
		}
		return names, err
	case "projection":
		all, err := rebuild.Projections(ctx, pool)
		for _, reg := range all {
			names = append(names, reg.Name)
		}
		return names, err
	case "topic", "publisher":
		all, err := publications.List(ctx, pool, publications.Key{})
		for _, pub := range all {
			name := pub.Topic
			if of == "publisher" {
				name = pub.Publisher
			}
			names = append(names, name)
		}
		slices.Sort(names)
		return slices.Compact(names), err
	}
	return nil, nil
}
