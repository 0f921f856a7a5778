package api

import (
	"net/http"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/status"
)

func (a *API) projectionRoutes() []Route {
	return []Route{
		a.reads("/projections", "listProjections", func(r *http.Request) (any, error) {
			list, err := rebuild.Projections(r.Context(), a.cfg.Pool)
			return all(list), err
		}),
		a.reads("/rebuilds", "listRebuilds", a.section(status.SectionRebuilds, func(s *status.Status) any {
			return all(s.Rebuilds)
		})),
	}
}
