// Package views lists what operators read. A [View] is one value: name, role, filters, columns, and what
// it reads.
package views

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// View is one thing that operators read. The command, the API call and the reference of both are
// generated from it.
type View struct {
	Name    string // operation id of the API
	Command string // noun and verb, as in "failed list"; "": written by hand, or none
	Path    string // below /api/v1, with arguments in braces; "": no API call

	Short    string
	Long     string   // of the help; default: Short
	Examples []string // command lines without the program's name
	Role     auth.Role
	Schema   string // of an item, in openapi.yaml; default: a string
	Empty    string // message for an empty list
	List     bool   // has several items
	Rows     bool   // has rows of read models, which need permission to see payloads
	Params   []param.Param
	Query    []param.Param // of the API: the path's first; limit is at most 1,000, after is a cursor

	reading
}

// Reader has the source of views and the limits of their reader.
type Reader struct {
	Pool *pgxpool.Pool
	Acts *admin.Acts
	API  bool                          // the API reads, page by page
	Look int                           // rows searched for one page; 0: until the page is full
	Time time.Duration                 // after which a page of the journal ends where it has got to; 0: never
	Hide func(event.Event) event.Event // hides what the reader may not see; nil: nothing
	Bare bool                          // the reader may not see payloads, so none is read
	// Redact hides what the reader may not see of a read model's row; nil: nothing.
	Redact func(json.RawMessage) json.RawMessage
}

func (r Reader) row(row json.RawMessage) json.RawMessage {
	if r.Redact == nil {
		return row
	}
	return r.Redact(row)
}

func (r Reader) event(e event.Event) event.Event {
	if r.Hide == nil {
		return e
	}
	return r.Hide(e)
}

// Found is what a view has read.
type Found struct {
	Document any    // List or Single
	Next     string // of a list: cursor of the next page; "": no more
	Things   any    // of a list: the slice that [View.Table] takes

	Print func(page *table.Page) // writes it as text
}

type reading struct {
	input reflect.Type
	check func(in any) error
	Read  func(ctx context.Context, from Reader, in any) (*Found, error)
	// Table returns things, a slice of the type that the view lists, as rows of its table.
	Table func(things any) (columns []string, rows [][]table.Cell)
}

// lists implements a view of several things. In is a pointer to a struct of parameters. Its field
// tagged `page:"limit"` is the page size. The field tagged `page:"after"` is the place that Read
// returned with the page before.
type lists[In, T any] struct {
	Check func(in In) error // returns a [param.Error] for parameters that conflict; nil: none do
	// Read returns the things and the place where the next page begins; nil: no more.
	Read    func(ctx context.Context, from Reader, in In) (things []T, next any, err error)
	All     func(ctx context.Context, from Reader, in In) ([]T, error) // instead of Read, for a list without pages
	Columns string                                                     // headings, separated by |
	Row     func(T) []table.Cell
	After   func(page *table.Page, things []T) // writes the text below the table; nil: none
}

func list[In, T any](about View, l lists[In, T]) *View {
	v := view(about, reflect.TypeFor[In]().Elem())
	v.List = true
	rows := func(things []T) [][]table.Cell { return slice.Of(things, l.Row) }
	columns := strings.Split(l.Columns, "|")
	v.Table = func(things any) ([]string, [][]table.Cell) { return columns, rows(things.([]T)) }
	if l.Check != nil {
		v.check = func(in any) error { return l.Check(in.(In)) }
	}
	if l.All != nil {
		l.Read = func(ctx context.Context, from Reader, in In) ([]T, any, error) {
			things, err := l.All(ctx, from, in)
			return things, nil, err
		}
	}
	v.Read = func(ctx context.Context, from Reader, in any) (*Found, error) {
		things, next, err := l.Read(ctx, from, in.(In))
		if err != nil {
			return nil, err
		}
		found := &Found{Document: document.All(things), Next: param.WriteCursor(next), Things: things}
		found.Print = func(page *table.Page) {
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

// one builds a view of one thing; show writes it as text.
func one[In, T any](
	about View, read func(ctx context.Context, from Reader, in In) (T, error), show func(page *table.Page, thing T),
) *View {
	v := view(about, reflect.TypeFor[In]().Elem())
	v.Read = func(ctx context.Context, from Reader, in any) (*Found, error) {
		thing, err := read(ctx, from, in.(In))
		if err != nil {
			return nil, err
		}
		return &Found{Document: document.One(thing), Print: func(page *table.Page) { show(page, thing) }}, nil
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
			asked.Name, asked.Help = "after", "`next` of the previous page"
			after = []param.Param{asked}
		}
	}
	v.Query = append(v.Query, after...)
	return &v
}

// more returns the note that tells how to see the next page.
func (v *View) more(next string) string {
	for _, p := range v.Params {
		switch {
		case p.Page == "after" && p.Name == "before":
			return "Older ones: --before " + next
		case p.Page == "after":
			return "There may be more: --" + p.Flag() + " " + table.Quote(next)
		}
	}
	return "There may be more: --limit shows more."
}

// allViews are built at first use, because some views show others.
var allViews struct { //nolint:gochecknoglobals // never written again
	once sync.Once
	list []*View
}

// All returns all views.
func All() []*View {
	allViews.once.Do(func() {
		allViews.list = slices.Concat(failedViews(), campaignViews(), groupViews(), publisherViews(), publisherShows(),
			eventViews(), callViews(), travelViews(), scheduledViews(), erasureViews(), retentionViews())
	})
	return allViews.list
}

// Named returns a view. It panics if there is none of that name.
func Named(name string) *View {
	i := slices.IndexFunc(All(), func(v *View) bool { return v.Name == name })
	if i < 0 {
		panic("no view " + name)
	}
	return All()[i]
}

// Input parses the view's input. params are its Params or its Query. Errors are [param.Error].
func (v *View) Input(params []param.Param, texts param.Texts) (any, error) {
	in, err := param.Read(v.input, params, texts)
	if err == nil && v.check != nil {
		err = v.check(in)
	}
	return in, err
}

// nextOf returns the place of the page's last thing, or nil if the page is not full.
func nextOf[T, P any](things []T, limit int, place func(T) P) any {
	if len(things) == 0 || len(things) < limit {
		return nil
	}
	return place(things[len(things)-1])
}

// placed returns the place, or an untyped nil.
func placed[P any](place *P) any {
	if place == nil {
		return nil
	}
	return *place
}

// Section writes things under a heading, in the table of the named view. It writes nothing for no things.
func Section[T any](page *table.Page, title, view string, things []T) {
	if len(things) > 0 {
		page.Heading(title)
		page.Table(Named(view).Table(things))
	}
}
