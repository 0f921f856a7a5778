package admin

import (
	"context"
	"fmt"

	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// removalRequest is what is removed.
type removalRequest struct {
	Group      string `json:"group,omitempty"`
	Projection string `json:"projection,omitempty"`
	Tables     bool   `json:"tables,omitempty"` // these too
}

// RemoveProjection takes a projection out of the registry for good, with its tables if that is
// said. typed is its name once more. Errors: [ErrDeclined], and those of [projector.Remove].
func (a *Acts) RemoveProjection(
	ctx context.Context, r Request, name string, tables bool, typed string,
) (*Outcome, error) {
	asked := removalRequest{Projection: name, Tables: tables}
	return a.doWith(ctx, act{Request: r, kind: ActRemove, request: asked},
		func(ctx context.Context, db *recorder) (any, error) {
			if typed != name {
				return nil, fmt.Errorf("%w: %q was typed: type %q", ErrDeclined, typed, name)
			}
			return nil, projector.Remove(ctx, db, name, tables, r.deferred())
		})
}

// RemoveGroup ends a consumer group that has no projections any more. typed is its name once more.
// Errors: [ErrDeclined], and those of [outbox.Unregister].
func (a *Acts) RemoveGroup(ctx context.Context, r Request, group, typed string) (*Outcome, error) {
	return a.doWith(ctx, act{Request: r, kind: ActRemoveGroup, request: removalRequest{Group: group}},
		func(ctx context.Context, db *recorder) (any, error) {
			if typed != group {
				return nil, fmt.Errorf("%w: %q was typed: type %q", ErrDeclined, typed, group)
			}
			return nil, outbox.Unregister(ctx, db, group, r.Who.Name, r.Reason)
		})
}
