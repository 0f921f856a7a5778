package api

import (
	"fmt"
	"net/http"

	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/store/publications"
)

func (a *API) publisherRoutes() []Route {
	return []Route{
		a.reads("/publishers/{topic}/{publisher}", "getPublisher", func(r *http.Request) (any, error) {
			return a.publication(r)
		}),
		a.reads("/publishers/{topic}/{publisher}/lag", "getPublisherLag", func(r *http.Request) (any, error) {
			p, err := a.publication(r)
			if err != nil {
				return nil, err
			}
			object, _ := p.(operator.Single).Item.(map[string]any)
			return operator.One(map[string]any{
				"position": object["position"], "behind": object["behind"],
				"lag_seconds": object["lag_seconds"],
			}), nil
		}),
	}
}

func publicationOf(r *http.Request) publications.Key {
	return publications.Key{Topic: r.PathValue("topic"), Publisher: r.PathValue("publisher")}
}

func (a *API) publication(r *http.Request) (any, error) {
	pairs, err := publications.List(r.Context(), a.cfg.Pool, publicationOf(r))
	if err == nil && len(pairs) == 0 {
		err = fmt.Errorf("%s: %w", publicationOf(r), publications.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return operator.One(pairs[0]), nil
}
