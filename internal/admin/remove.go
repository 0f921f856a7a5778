package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
)

// removalRequest is what is removed.
type removalRequest struct {
	Group      string `json:"group,omitempty"`
	Projection string `json:"projection,omitempty"`
	Tables     bool   `json:"tables,omitempty"` // these too
}

// RemoveProjection takes a projection out of the registry for good, with its tables if that is said. The request
// confirms with its name. Errors: [ErrDeclined], [ErrNeeded], and those of [rebuild.Remove].
func (a *Acts) RemoveProjection(ctx context.Context, r Request, name string, tables bool) (*Outcome, error) {
	asked := removalRequest{Projection: name, Tables: tables}
	return a.doWith(ctx, act{Request: r, kind: ActRemove, request: asked, confirm: name},
		func(ctx context.Context, db *recorder) (any, error) {
			err := rebuild.Remove(ctx, db, name, tables, r.deferred())
			const dependentObjects = "2BP01"
			if pgErr := (*pgconn.PgError)(nil); errors.As(err, &pgErr) && pgErr.Code == dependentObjects {
				err = fmt.Errorf("%w: %w (%s): nothing was removed; its tables stay if they are left out", ErrNeeded, err,
					pgErr.Detail)
			}
			return nil, err
		})
}

// RemoveGroup ends a consumer group that has no projections any more. The request confirms with its name.
// Errors: [ErrDeclined], and those of [outbox.Unregister].
func (a *Acts) RemoveGroup(ctx context.Context, r Request, group string) (*Outcome, error) {
	return a.doWith(ctx, act{Request: r, kind: ActRemoveGroup, request: removalRequest{Group: group}, confirm: group},
		func(ctx context.Context, db *recorder) (any, error) {
			return nil, outbox.Unregister(ctx, db, group, r.Who.Name, r.Reason)
		})
}
