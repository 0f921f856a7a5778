package api

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/operator/views"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// viewTime ends a page of rare events where it has got to: the next page goes on from there.
const viewTime = 2 * time.Second

func (a *API) viewRoutes() (routes []Route) {
	for _, view := range views.All() {
		if view.Path == "" {
			continue
		}
		route := a.reads(view.Path, view.Name, func(r *http.Request) (any, error) { return a.view(r, view) })
		route.Role, route.Awaits = view.Role, view.Rows
		routes = append(routes, route)
	}
	return routes
}

func (a *API) view(r *http.Request, view *views.View) (any, error) {
	in, err := input(r, view.Path, view.Query, view.Input)
	if err != nil {
		return nil, err
	}
	if view.Rows {
		if err := a.sees(r); err != nil {
			return nil, err
		}
	}
	found, err := view.Read(r.Context(), views.Reader{
		Pool: a.cfg.Pool, Acts: a.cfg.Acts, API: true, Time: viewTime, Bare: !a.cfg.Payloads.Sees(auth.From(r.Context())),
		Hide:   func(e event.Event) event.Event { return a.event(r, e) },
		Redact: func(row json.RawMessage) json.RawMessage { return a.cfg.Payloads.Show(auth.From(r.Context()), row) },
	}, in)
	switch {
	case err != nil:
		return nil, err
	case !view.List:
		return found.Document, nil
	}
	p := page{List: found.Document.(document.List)}
	if found.Next != "" {
		p.Next = &found.Next
	}
	return p, nil
}

// sees refuses rows of read models to roles that may not see payloads, because rows contain them.
func (a *API) sees(r *http.Request) error {
	if id := auth.From(r.Context()); !a.cfg.Payloads.Sees(id) {
		return problem.New(http.StatusForbidden, "rows of read models are hidden from this role",
			"ask a person with that role").Of("role", id.Role.String(), a.cfg.Payloads.Least.String())
	}
	return nil
}
