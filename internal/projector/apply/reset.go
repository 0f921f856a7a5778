package apply

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/projector/pipeline"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
)

// resetRows queues the deletion of what the projection keeps of those campaigns that it begins again.
func (t *Transaction) resetRows(ctx context.Context, k *registry.Projection, units []*Unit) error {
	var ids []string
	for _, u := range units {
		if u.Pair != nil && u.Pair.Reset && u.Pair.Projection == k.Name && !u.outdated {
			ids = append(ids, u.Lease.CampaignID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	if k.Name == k.Described.Name { // what is replayed has been mended, or its events are other ones
		t.At = pipeline.Origin{}
		t.Queue(queryForgetSnapshotOf, ids, k.Name)
	}
	g := t.Group(k, nil)
	t.Use(k)
	return t.Applier.Supervise(ctx, k, g, func(ctx context.Context) error {
		if own, ok := k.Projection.(kind.Resetter); ok {
			return own.Reset(ctx, g, ids)
		}
		r := t.view.Rows[k.Name]
		for _, table := range slices.Backward(r.TableNames) {
			g.Queue(fmt.Sprintf(queryReset, pgx.Identifier{r.SchemaName, table}.Sanitize()), ids)
		}
		return nil
	})
}
