package api

import (
	"net/http"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/store/deferred"
)

func (a *API) operationRoutes() []Route {
	acts := a.cfg.Acts
	return []Route{
		a.reads("/operations", "listOperations", func(r *http.Request) (any, error) {
			q := parameters(r)
			f := admin.OperationFilter{
				State: choice(q, "state", admin.OperationStates()),
				Kind:  choice(q, "kind", admin.OperationKinds()), Limit: q.limit(),
			}
			q.after(&f.Before)
			if err := q.done(); err != nil {
				return nil, err
			}
			operations, err := acts.Operations(r.Context(), f)
			if err != nil {
				return nil, err
			}
			return list(operations, f.Limit, func(last admin.Operation) any { return last.ID }), nil
		}),
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
		does("/operations/preview", "previewBulk", admin.ActStartOperation,
			act(a, func(r *http.Request, _ admin.Request, b admin.Bulk) (*admin.Outcome, error) {
				p, err := acts.PreviewBulk(r.Context(), b)
				if err != nil {
					return nil, err
				}
				return operator.Did("preview", p)
			})),
		does("/operations", "startBulk", admin.ActStartOperation,
			act(a, func(r *http.Request, by admin.Request, b bulkBody) (*admin.Outcome, error) {
				return acts.StartBulk(r.Context(), by, b.Bulk, b.Confirm)
			})),
		does("/operations/{id}/abort", "abortOperation", admin.ActAbortOperation,
			act(a, func(r *http.Request, by admin.Request, _ none) (*admin.Outcome, error) {
				id, err := place(r, "id")
				if err != nil {
					return nil, err
				}
				return acts.Abort(r.Context(), by, id)
			})),
		does("/groups/{group}/replay", "replayGroup", admin.ActStartOperation,
			act(a, func(r *http.Request, by admin.Request, b groupReplayBody) (*admin.Outcome, error) {
				if b.DryRun {
					return operator.Would(acts.PreviewReplay(r.Context(),
						deferred.ReplayRequest{Group: r.PathValue("group"), Projection: b.Projection, From: b.From}))
				}
				return acts.StartReplay(r.Context(), by, admin.GroupReplay{
					Group: r.PathValue("group"), Projection: b.Projection,
					From: b.From,
				})
			})),
		does("/groups/{group}/repair-gaps", "repairGaps", admin.ActStartOperation,
			act(a, func(r *http.Request, by admin.Request, b typedBody) (*admin.Outcome, error) {
				by.Confirm = b.Confirm
				return acts.StartRepair(r.Context(), by, admin.GapRepair{Group: r.PathValue("group")})
			})),
		does("/workers/{owner}/drain", "drainWorker", admin.ActDrain,
			act(a, func(r *http.Request, by admin.Request, b typedBody) (*admin.Outcome, error) {
				by.Confirm = b.Confirm
				return acts.DrainWorker(r.Context(), by, r.PathValue("owner"))
			})),
		does("/workers/{owner}/undrain", "undrainWorker", admin.ActUndrain,
			act(a, func(r *http.Request, by admin.Request, _ none) (*admin.Outcome, error) {
				return acts.UndrainWorker(r.Context(), by, r.PathValue("owner"))
			})),
	}
}

type bulkBody struct {
	admin.Bulk
	Confirm string `json:"confirm"`
}

type groupReplayBody struct {
	Projection string `json:"projection"`
	From       int64  `json:"from"`
	DryRun     bool   `json:"dry_run"`
}
