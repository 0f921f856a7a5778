package api

import (
	"github.com/tidemark-go/tidemark/internal/status"
)

func (a *API) projectionRoutes() []Route {
	return []Route{
		a.reads("/rebuilds", "listRebuilds", a.section(status.SectionRebuilds, func(s *status.Status) any {
			return all(s.Rebuilds)
		})),
	}
}
