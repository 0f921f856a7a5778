package projector

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/projector/internal/pipeline"

	"github.com/tidemark-go/tidemark/pkg/projector/internal/registry"
)

// queryForgetSnapshotOf goes by the primary key.
const queryForgetSnapshotOf = `DELETE FROM tidemark.snapshots WHERE campaign_id = ANY ($1::text[]) AND projection = $2`

// queryReset deletes a campaign's rows from one table. It goes by an index on campaign_id, if there is one.
const queryReset = `DELETE FROM %s WHERE campaign_id = ANY ($1::text[])`

// resetRows queues the deletion of what the projection keeps of those campaigns that it begins again.
func (t *transaction) resetRows(ctx context.Context, k *registry.Known, units []*unit) error {
	var ids []string
	for _, u := range units {
		if u.pair != nil && u.pair.Reset && u.pair.Projection == k.Name && !u.outdated {
			ids = append(ids, u.lease.CampaignID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	if k.Name == k.Described.Name { // what is replayed has been mended, or its events are other ones
		t.At = pipeline.Origin{}
		t.Queue(queryForgetSnapshotOf, ids, k.Name)
	}
	g := t.group(k, nil)
	t.use(k)
	return t.p.supervise(ctx, k, g, func(ctx context.Context) error {
		if own, ok := k.Projection.(Resetter); ok {
			return own.Reset(ctx, g, ids)
		}
		r := t.view.Rows[k.Name]
		for _, table := range slices.Backward(r.TableNames) {
			g.Queue(fmt.Sprintf(queryReset, pgx.Identifier{r.SchemaName, table}.Sanitize()), ids)
		}
		return nil
	})
}
