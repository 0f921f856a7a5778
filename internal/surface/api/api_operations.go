package api

import (
	"net/http"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator"
)

func (a *API) operationRoutes() []Route {
	acts := a.cfg.Acts
	return []Route{
		a.reads("/operations/{id}", "getOperation", func(r *http.Request) (any, error) {
			id, err := place(r, "id")
			if err != nil {
				return nil, err
			}
			o, err := acts.Operation(r.Context(), id)
			return operator.One(o), err
		}),
		a.reads("/operations/{id}/items", "listOperationItems", func(r *http.Request) (any, error) {
			q := parameters(r)
			limit, after := q.limit(), int64(0)
			q.after(&after)
			if err := q.done(); err != nil {
				return nil, err
			}
			id, err := place(r, "id")
			if err != nil {
				return nil, err
			}
			items, err := acts.Items(r.Context(), id, after, limit)
			if err != nil {
				return nil, err
			}
			if len(items) == 0 {
				if _, err := acts.Operation(r.Context(), id); err != nil {
					return nil, err
				}
			}
			return list(items, limit, func(last admin.Item) any { return last.Ord }), nil
		}),
	}
}
