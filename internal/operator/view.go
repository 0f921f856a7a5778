package operator

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// View is one thing that operators read. The command, the call of the API and the reference of both are made from it.
type View struct {
	Name    string // operation id of the API
	Command string // noun and verb, as in "failed list"; "": the command is written by hand, or there is none
	Path    string // below /api/v1, with the arguments in braces; "": there is no such call

	Short    string
	Long     string   // of the help; "": Short says it all
	Examples []string // command lines, without the program's name
	Role     auth.Role
	Schema   string // of an item, as openapi.yaml names it; default: a string
	Empty    string // what a person reads of a list with nothing in it
	List     bool   // it answers several things
	Rows     bool   // it answers rows of read models: they are for those alone who see payloads
	Params   []param.Param
	Query    []param.Param // those of the API: the path's first; pages are of 1,000 at most, and after is a cursor

	reading
}

// Reader is what views read from, and for whom.
type Reader struct {
	Pool *pgxpool.Pool
	Acts *admin.Acts
	API  bool                              // a program asks, page by page
	Look int                               // a page has what is found among so many; 0: it looks until it is full
	Hide func(journal.Event) journal.Event // takes away what the reader may not see; nil: nothing
	Bare bool                              // the reader sees no payload, so none is read
	// Redact takes away what the reader may not see of a row of a read model; nil: nothing.
	Redact func(json.RawMessage) json.RawMessage
}

func (r Reader) row(row json.RawMessage) json.RawMessage {
	if r.Redact == nil {
		return row
	}
	return r.Redact(row)
}

func (r Reader) event(e journal.Event) journal.Event {
	if r.Hide == nil {
		return e
	}
	return r.Hide(e)
}

// Found is what a view has read.
type Found struct {
	Document any    // List or Single
	Next     string // of a list: the cursor of the next page; "": there is none
	Things   any    // of a list: what was read, which [View.Table] takes; a slice

	print func(page *table.Page)
}

// Print writes it for a person.
func (f *Found) Print(page *table.Page) { f.print(page) }

// reading is what a view does with its input.
type reading struct {
	input reflect.Type
	check func(in any) error
	read  func(ctx context.Context, from Reader, in any) (*Found, error)
	table func(things any) (columns []string, rows [][]table.Cell)
}

// lists is a view of several things. In is a pointer, as that of does. A field of it that is tagged `page:"limit"` has
// how many are asked for; one that is tagged `page:"after"` has the place that Read answered with the page before.
type lists[In, T any] struct {
	Check func(in In) error // answers a [param.Error] for parameters that do not go together; nil: all do
	// Read answers the things, and the place where the next page begins; nil: there is none.
	Read    func(ctx context.Context, from Reader, in In) (things []T, next any, err error)
	Columns string // headings, with | between them
	Row     func(T) []table.Cell
	After   func(page *table.Page, things []T) // writes what stands below the table; nil: nothing does
}

// list completes the description of a view of several things.
func list[In, T any](about View, l lists[In, T]) *View {
	v := view(about, reflect.TypeFor[In]().Elem())
	v.List = true
	rows := func(things []T) (rows [][]table.Cell) {
		for _, thing := range things {
			rows = append(rows, l.Row(thing))
		}
		return rows
	}
	columns := strings.Split(l.Columns, "|")
	v.table = func(things any) ([]string, [][]table.Cell) { return columns, rows(things.([]T)) }
	if l.Check != nil {
		v.check = func(in any) error { return l.Check(in.(In)) }
	}
	v.read = func(ctx context.Context, from Reader, in any) (*Found, error) {
		things, next, err := l.Read(ctx, from, in.(In))
		if err != nil {
			return nil, err
		}
		found := &Found{Document: document.All(things), Next: param.WriteCursor(next), Things: things}
		found.print = func(page *table.Page) {
			if len(things) == 0 {
				page.Note("%s", v.Empty)
				return
			}
			page.Table(columns, rows(things))
			if l.After != nil {
				l.After(page, things)
			}
			if found.Next != "" {
				page.Note("%s", v.more(found.Next))
			}
		}
		return found, nil
	}
	return v
}

// one completes the description of a view of one thing, which show writes for a person.
func one[In, T any](
	about View, read func(ctx context.Context, from Reader, in In) (T, error), show func(page *table.Page, thing T),
) *View {
	v := view(about, reflect.TypeFor[In]().Elem())
	v.read = func(ctx context.Context, from Reader, in any) (*Found, error) {
		thing, err := read(ctx, from, in.(In))
		if err != nil {
			return nil, err
		}
		return &Found{Document: document.One(thing), print: func(page *table.Page) { show(page, thing) }}, nil
	}
	return v
}

func view(v View, input reflect.Type) *View {
	v.input, v.Role = input, max(v.Role, auth.Viewer)
	var after []param.Param
	for _, p := range param.Of(v.input) {
		if p.Type != param.Cursor {
			v.Params = append(v.Params, p)
		}
		asked := p
		if p.Page == "limit" {
			asked.Max = 1000
		}
		if p.Type != param.Cursor && (p.Page != "after" || p.Name != "after") {
			v.Query = append(v.Query, asked)
		}
		if p.Page == "after" {
			asked.Name, asked.Help = "after", "`next` of the page before"
			after = []param.Param{asked}
		}
	}
	v.Query = append(v.Query, after...)
	return &v
}

// more says how to see more than what was shown.
func (v *View) more(next string) string {
	for _, p := range v.Params {
		switch {
		case p.Page == "after" && p.Name == "before":
			return "What was before: --before " + next
		case p.Page == "after":
			return "There may be more: --" + p.Flag() + " " + table.Quote(next)
		}
	}
	return "There may be more: --limit shows more."
}

// allViews are built once, and not when the program begins: some of them show others.
var allViews struct { //nolint:gochecknoglobals // never written again
	once sync.Once
	list []*View
}

// Views lists all views.
func Views() []*View {
	allViews.once.Do(func() {
		allViews.list = slices.Concat(failedViews(), campaignViews(), groupViews(), publisherViews(), publisherShows(),
			eventViews(), callViews(), travelViews())
	})
	return allViews.list
}

// ViewNamed finds a view.
func ViewNamed(name string) *View {
	for _, v := range Views() {
		if v.Name == name {
			return v
		}
	}
	panic("no view " + name)
}

// Input makes the view's input of texts; params are its Params or its Query. Errors are [param.Error].
func (v *View) Input(params []param.Param, texts param.Texts) (any, error) {
	in, err := param.Read(v.input, params, texts)
	if err == nil && v.check != nil {
		err = v.check(in)
	}
	return in, err
}

// Read reads what in asks for.
func (v *View) Read(ctx context.Context, from Reader, in any) (*Found, error) {
	return v.read(ctx, from, in)
}

// Table answers things, of the type that the view lists, as rows of its table.
func (v *View) Table(things any) (columns []string, rows [][]table.Cell) { return v.table(things) }

// nextOf answers the place of the last of a page's things; nil where it has fewer than were asked for.
func nextOf[T, P any](things []T, limit int, place func(T) P) any {
	if len(things) == 0 || len(things) < limit {
		return nil
	}
	return place(things[len(things)-1])
}

// placed answers a place where there is one.
func placed[P any](place *P) any {
	if place == nil {
		return nil
	}
	return *place
}

// Section writes things under a heading, as the view that lists such things has them. Of none it writes nothing.
func Section[T any](page *table.Page, title, view string, things []T) {
	if len(things) > 0 {
		page.Heading(title)
		page.Table(ViewNamed(view).Table(things))
	}
}
