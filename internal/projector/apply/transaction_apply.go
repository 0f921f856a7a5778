package apply

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/projector/pipeline"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// applyAll hands every projection the units' events that it wants, as one group each.
func (t *Transaction) applyAll(ctx context.Context) (err error) {
	defer func() { err = t.Blame(err) }()
	groups := make([]*projection.Group, 0, len(t.view.Projections))
	kinds := make([]*registry.Projection, 0, len(t.view.Projections))
	for _, k := range t.view.Projections {
		if err := t.resetRows(ctx, k, t.Units); err != nil {
			return err
		}
		if t.calls[k] != "" {
			continue
		}
		events, err := t.wanted(k)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			continue
		}
		g := t.Group(k, kind.Events{All: events})
		groups, kinds = append(groups, g), append(kinds, k)
		t.Use(k)
		t.LimitStatements(k.Timeout(events))
		if err := t.Applier.Load(ctx, k, g); err != nil {
			return err
		}
	}
	if err := t.Flush(ctx); err != nil {
		return err
	}
	for i, g := range groups {
		k := kinds[i]
		t.Use(k)
		t.LimitStatements(k.Timeout(g.Events))
		if err := t.Applier.Apply(ctx, k, g); err != nil {
			return err
		}
	}
	for _, k := range t.view.Projections {
		if t.calls[k] != "" {
			t.callFunction(k)
		}
	}
	t.useSchema(t.Applier.SearchPath)
	return nil
}

// Apply has one projection apply events, and runs the statements that it queues.
func (t *Transaction) Apply(ctx context.Context, k *registry.Projection, events kind.Events) error {
	g := t.Group(k, events)
	if err := t.Applier.Load(ctx, k, g); err != nil {
		return err
	}
	if err := t.Flush(ctx); err != nil {
		return err
	}
	if err := t.Applier.Apply(ctx, k, g); err != nil {
		return err
	}
	return t.Flush(ctx)
}

func (t *Transaction) callFunction(k *registry.Projection) {
	var s Stretches
	for _, u := range t.Units {
		if u.Count() > 0 && t.applies(k, u) {
			t.Stretch(&s, k, u.Lease.CampaignID, u.Place, u.Last())
		}
	}
	if len(s.Campaigns) > 0 {
		t.Use(k)
		t.LimitStatements(registry.LongestTimeout([]*registry.Projection{k}))
		t.At = pipeline.Origin{Projection: k.Name}
		t.Queue(t.calls[k], s.Campaigns, s.After, s.Until)
		t.At = pipeline.Origin{}
	}
}

// resetRows queues the deletion of a projection's rows for campaigns that start over.
func (t *Transaction) resetRows(ctx context.Context, k *registry.Projection, units []*Unit) error {
	var ids []string
	for _, u := range units {
		if u.Standing != nil && u.Standing.Reset && u.Standing.Projection == k.Name && !u.outdated {
			ids = append(ids, u.Lease.CampaignID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	g := t.Group(k, kind.Events{})
	t.Use(k)
	return t.Applier.Supervise(ctx, k, g, func(ctx context.Context) error {
		if own, ok := k.Projection.(projection.Resetter); ok {
			return own.Reset(ctx, g, ids)
		}
		r := t.view.Rows[k.Name]
		for _, table := range slices.Backward(r.TableNames) {
			g.Queue(fmt.Sprintf(queryReset, pgx.Identifier{r.SchemaName, table}.Sanitize()), ids)
		}
		return nil
	})
}
