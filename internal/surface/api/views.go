package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// viewRoutes are the calls of all views in [operator.Views].
func (a *API) viewRoutes() (routes []Route) {
	for _, view := range operator.Views() {
		if view.Path == "" {
			continue
		}
		route := a.reads(view.Path, view.Name, func(r *http.Request) (any, error) { return a.view(r, view) })
		route.Role = view.Role
		routes = append(routes, route)
	}
	return routes
}

// view answers a view. Parameters that it does not have are refused.
func (a *API) view(r *http.Request, view *operator.View) (any, error) {
	q := r.URL.Query()
	var names []string
	for _, p := range asked(view) {
		names = append(names, p.Name)
	}
	for name := range q {
		if !slices.Contains(names, name) {
			return nil, problem.New(http.StatusBadRequest, "there is no such parameter", "use one of the limit's").Of(name,
				q.Get(name), strings.Join(names, ", "))
		}
	}
	in, err := view.Input(view.Query, func(name string) ([]string, bool) {
		if strings.Contains(view.Path, "{"+name+"}") {
			return []string{r.PathValue(name)}, true
		}
		return q[name], q.Has(name)
	})
	if err != nil {
		return nil, err
	}
	found, err := view.Read(r.Context(), operator.Reader{
		Pool: a.cfg.Pool, Acts: a.cfg.Acts, API: true, Bare: !a.cfg.Payloads.Sees(auth.From(r.Context())),
		Hide: func(e journal.Event) journal.Event { return a.event(r, e) },
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

// asked are the parameters of a view that do not stand in the path.
func asked(view *operator.View) []param.Param {
	return slices.DeleteFunc(slices.Clone(view.Query), func(p param.Param) bool {
		return strings.Contains(view.Path, "{"+p.Name+"}")
	})
}
